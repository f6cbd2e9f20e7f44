"""Tables as files for a paper: CSV, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from kanstudy.analysis.tables.layouts import Column
from kanstudy.analysis.tables.view import view
from kanstudy.files import write_atomically


def save_table(
    frame: pd.DataFrame, columns: Mapping[str, Column], figures_dir: Path | str, name: str, caption: str
) -> None:
    """Write `name.csv` (all columns, full precision), `name.md` and `name.tex` (the `columns`, as `view` shows them)
    into a folder, each whole; `OSError` where that fails."""
    folder = Path(figures_dir)
    table = view(frame, columns)
    write_atomically(folder / f"{name}.csv", frame.to_csv(index=False))
    write_atomically(folder / f"{name}.md", f"{caption}\n\n{table.to_markdown()}\n")
    notes = " ".join(f"{number}: {note}." for number, note in enumerate(table.notes, 1))
    write_atomically(folder / f"{name}.tex", booktabs(table.cells, name, f"{caption} {notes}".strip()))


def booktabs(table: pd.DataFrame, name: str, caption: str) -> str:
    """A LaTeX table of texts with the rules of booktabs and the label `tab:name`; the words of the data are escaped."""
    head = " & ".join(_escaped(str(heading)) for heading in table.columns)
    rows = [" & ".join(_escaped(str(cell)) for cell in row) + r" \\" for row in table.itertuples(index=False)]
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_escaped(caption)}}}",
            rf"\label{{tab:{name}}}",
            r"\begin{tabular}{" + "l" * len(table.columns) + "}",
            r"\toprule",
            head + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
)


def _escaped(text: str) -> str:
    return text.translate(_LATEX)
