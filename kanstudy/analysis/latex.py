"""A table as LaTeX, for a paper."""

from __future__ import annotations

import pandas as pd


def booktabs(table: pd.DataFrame, name: str, caption: str) -> str:
    """A booktabs table; the words of the data are escaped."""
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
