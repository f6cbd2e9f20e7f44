"""Short guidelines, each computed from records or from a calibration: its number, interval, source and points.

Where the data do not carry a statement (no interval, an interval that includes no effect, disturbed rounds), the
sentence says that it cannot be told. Of measurements only measured sizes are spoken of: nothing is extrapolated.
"""

from kanstudy.analysis.guidelines.collected import guidelines

__all__ = ["guidelines"]
