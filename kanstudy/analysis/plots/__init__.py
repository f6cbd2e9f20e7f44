"""The figures, a module each kind. They take tidy frames and give matplotlib figures.

Estimates come aggregated; nothing is averaged here. Every round is a faint dot, or a cross where it was disturbed, the
estimate a marker with its interval, the ideal a dashed line. The same series has the same colour and marker in every
panel of a figure. What was not measured is a figure that says so, not an empty axis.
"""

from kanstudy.analysis.plots import (
    axes,
    beside_published,
    calibration,
    communication,
    comparison,
    complementarity,
    controls,
    dose_response,
    external,
    isoefficiency,
    kan,
    model_size,
    network,
    operator_speed,
    prediction,
    prediction_check,
    published_region,
    save,
    scaling,
    scaling_laws,
    steadiness,
    strategies,
    style,
    waterfall,
)

__all__ = [
    "axes",
    "beside_published",
    "calibration",
    "communication",
    "comparison",
    "complementarity",
    "controls",
    "dose_response",
    "external",
    "isoefficiency",
    "kan",
    "model_size",
    "network",
    "operator_speed",
    "prediction",
    "prediction_check",
    "published_region",
    "save",
    "scaling",
    "scaling_laws",
    "steadiness",
    "strategies",
    "style",
    "waterfall",
]
