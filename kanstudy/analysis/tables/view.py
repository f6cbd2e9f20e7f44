"""Tables for reading, in a notebook or as text: rounded, with intervals in brackets and notes below."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kanstudy.analysis.tables.layouts import Column

NOTHING = "(nothing measured)"
_INTERVAL = re.compile(r"\S+ \[\S+, \S+\]$")


@dataclass(frozen=True)
class View:
    """A table for reading, in a notebook or as text: `cells` are texts, `notes` what the numbers in its last column
    but one refer to."""

    cells: pd.DataFrame
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self) -> str:
        """An HTML table, its notes below; a number stays on one line with its interval."""
        notes = "".join(f"<br>{number}: {html.escape(note)}" for number, note in enumerate(self.notes, 1))
        cells = self.cells.map(lambda text: text.replace(" ", "\N{NO-BREAK SPACE}") if _INTERVAL.match(text) else text)
        table = cells.to_html(index=False, border=0, na_rep="") if len(cells.columns) else NOTHING
        return table + (f"<p><small>Notes{notes}</small></p>" if notes else "")

    def __repr__(self) -> str:
        return self.to_markdown()

    def to_markdown(self) -> str:
        """A Markdown table, its notes below."""
        table = NOTHING
        if len(self.cells.columns):
            table = self.cells.to_markdown(index=False, disable_numparse=True)
        return "\n".join([table, *(f"\n{number}: {note}" for number, note in enumerate(self.notes, 1))])


def view(frame: pd.DataFrame, columns: Mapping[str, Column]) -> View:
    """The table for reading: notes that rows share stand once below it, under a number."""
    table = shown(frame, columns)
    heading = columns["reason"].heading if "reason" in columns else ""
    if heading not in table:
        return View(table)
    texts = list(dict.fromkeys(note for cell in table[heading] for note in cell.split("; ") if note))
    numbers = {note: str(number) for number, note in enumerate(texts, 1)}
    table[heading] = [" ".join(numbers[note] for note in cell.split("; ") if note) for cell in table[heading]]
    return View(table, tuple(texts))


def shown(frame: pd.DataFrame, columns: Mapping[str, Column]) -> pd.DataFrame:
    """The frame as texts: chosen columns under their headings, rounded, intervals in brackets, blanks empty.

    A column that is blank in every row is left out.
    """
    table = {}
    for name, column in columns.items():
        if name not in frame:
            continue
        low, high = frame.get(f"{name}_low"), frame.get(f"{name}_high")
        texts = [
            _text(
                frame[name].iloc[row],
                None if low is None else low.iloc[row],
                None if high is None else high.iloc[row],
                column,
            )
            for row in range(len(frame))
        ]
        if any(texts) or not len(frame):
            table[column.heading] = texts
    return pd.DataFrame(table)


def _text(value: object, low: float | None, high: float | None, column: Column) -> str:
    if value is None or (isinstance(value, float) and not np.isfinite(value)) or value is pd.NA:
        return ""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if column.digits is None:
        return f"{value:g}" if isinstance(value, float) else str(value)
    text = f"{float(value) * column.scale:.{column.digits}f}"  # type: ignore[arg-type]  # digits are for numbers
    if low is not None and high is not None and np.isfinite(low) and np.isfinite(high):
        text += f" [{low * column.scale:.{column.digits}f}, {high * column.scale:.{column.digits}f}]"
    return text
