"""How data-parallel training of Kolmogorov-Arnold networks scales: measured, attributed, explained."""

__version__ = "0.1.0"
