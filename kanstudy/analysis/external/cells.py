"""What a cell of somebody's table says: a number, a time, a label."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
UNITS |= {"sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0, "minutes": 60.0, "hours": 3600.0}
UNITS |= {"usec": 1e-6, "msec": 1e-3, "milliseconds": 1e-3, "microseconds": 1e-6}
"""Units of time in seconds."""
_GROUPED = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?")
_CLOCK = re.compile(r"((?P<days>\d{1,4})-)?(?P<h>\d{1,4}):(?P<min>[0-5]\d):(?P<s>[0-5]\d(\.\d+)?)")


def is_missing(cell: object) -> bool:
    """Whether a cell holds nothing: empty text, null, NaN or NaT."""
    if cell is None or cell is pd.NaT or cell is pd.NA:
        return True
    return cell == "" if isinstance(cell, str) else isinstance(cell, float | np.floating) and math.isnan(cell)


def number(cell: object) -> float:
    """A cell as a number, NaN if it is none. Text must be a plain decimal number; commas may group thousands."""
    if isinstance(cell, bool | np.bool_) or is_missing(cell):
        return math.nan
    if isinstance(cell, str) and _GROUPED.fullmatch(cell):
        cell = cell.replace(",", "")
    try:
        return float(cell) if "_" not in str(cell) else math.nan  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def seconds(cell: object, unit_s: float | None) -> float:
    """A time in seconds: of a number in the column's unit (1 if unknown), or of text that names its own, as `162 ms`,
    or is a clock's, as `1:30:00` and Slurm's `1-06:00:00`."""
    if isinstance(cell, pd.Timedelta):
        return cell.total_seconds()
    if isinstance(cell, str) and (clock := _CLOCK.fullmatch(cell)):
        hours = 24 * int(clock["days"] or 0) + int(clock["h"])
        return 3600.0 * hours + 60 * int(clock["min"]) + float(clock["s"])
    found = re.fullmatch(r"([-+.\deE]+)\s*([a-zµμ]+)", cell) if isinstance(cell, str) else None
    if found and (unit := re.sub("[µμ]", "u", found[2])) in UNITS:
        return number(found[1]) * UNITS[unit]
    return number(cell) * (unit_s or 1.0)


def label(cell: object) -> str | None:
    """A cell as text that compares, None if it is missing."""
    if is_missing(cell):
        return None
    if isinstance(cell, float | np.floating):
        return f"{cell:.15g}"
    if isinstance(cell, pd.Timestamp):
        return cell.isoformat() if cell.normalize() != cell else cell.date().isoformat()
    return str(cell)


def is_figure(cell: object) -> bool:
    """Whether a cell is a number, a share, a speed-up or a time: `3.9`, `97.5 %`, `3.9x`, `162 ms`."""
    plain = re.sub(r"\s*[%x×]$", "", cell) if isinstance(cell, str) else cell
    return not (math.isnan(number(plain)) and math.isnan(seconds(cell, None)))
