"""Whether tables that were made again are those of before."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

_RTOL = 1e-9
"""As far as versions of numpy and processors may round otherwise."""


def unequal(tables: Mapping[str, bytes], folder: Path) -> list[str]:
    """Which of the tables (the contents of CSV files by name) a folder has not, or has with other content, and where
    the first difference is."""
    told = []
    for name, data in sorted(tables.items()):
        try:
            before, now = pd.read_csv(io.BytesIO(data)), pd.read_csv(folder / name)
            pd.testing.assert_frame_equal(before, now, rtol=_RTOL, atol=0)
        except OSError:
            told.append(f"{name}: was not made")
        except (AssertionError, ValueError) as error:
            told.append(f"{name}: not the same: {' '.join(str(error).split())[:200]}")
    return told
