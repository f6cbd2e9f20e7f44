"""`kanstudy report --compare A B`: two results on one page, with the tables and figures behind it as files."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kanstudy.commands import folders
from kanstudy.commands.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

    from kanstudy.analysis.comparison.sides import Side

_HOW_TO_READ = (
    "Points are compared where all that decides the work is equal: experiment, ranks, batch, model, data and every "
    "setting of the training step. What differs else stands under the conditions, and may be the reason of any "
    "difference.",
    "Times, efficiencies, factors and bandwidths are compared by their ratio B/A, overheads by B - A. The intervals of "
    "both sides make that of the change (MOVER, Zou and Donner 2008); it holds for one number alone, not for all at "
    "once.",
    "An interval within one launch does not contain what differs between launches: a difference between two single "
    "launches may be no more than that. Five launches or more on either side tell.",
)


def compare(given: tuple[str, str], figures_dir: str) -> None:
    """Write the page, the tables and the figures, and say where they are."""
    from kanstudy.analysis.comparison import changes, conditions, sides
    from kanstudy.files import write_atomically
    from kanstudy.study.places import project_root
    from kanstudy.study.report import page, records_from

    chosen = folders.path_given(figures_dir, "--figures-dir") if figures_dir else None
    (a, in_a), (b, in_b) = (_side(letter, text) for letter, text in zip("AB", given, strict=True))
    folder = chosen or project_root() / "figures" / f"{a.name}-{b.name}"
    pairs, alone = sides.pairs(a, b)
    differing, numbers = conditions.differences(a, b), changes.changes(a, b, pairs)
    title = f"{a.title} beside {b.title}"
    head = f"<h1>{html.escape(title)}</h1>\n{_paragraph(f'A is {in_a}, B is {in_b}.')}"
    try:
        path = folder / "comparison.html"
        records = {"A": records_from(path, in_a), "B": records_from(path, in_b)}
        body = "\n".join(_body(a, b, alone, differing, numbers, records, folder))
        write_atomically(path, page(title, f"{head}\n{body}"))
    except OSError as error:
        raise click.ClickException(f"{folder}: cannot be written: {error.strerror or error}") from error
    click.echo(f"{title}: {len(differing)} conditions differ")
    click.echo(f"Points: {len(pairs)} compared, {len(alone)} without a partner of the same work")
    if not pairs:
        click.echo("  Only points of the same ranks, batch, model, data and settings are: give both one series")
    for name, table in changes.TABLES.items():
        for sentence in changes.sentences(numbers[numbers["table"] == name]):
            click.echo(f"  {table.title}: {sentence}")
    click.echo(f"Look at {folders.short(folder / 'comparison.html')}")


def _side(letter: str, given: str) -> tuple[Side, Path]:
    """One side, a profile's results or those of a folder, and that folder."""
    from kanstudy.analysis import results
    from kanstudy.analysis.comparison.sides import Side
    from kanstudy.study.profile import builtin_profiles

    profile = folders.load(given) if given in builtin_profiles() or given.endswith(".toml") else None
    folder = folders.results_folder(profile, "" if profile else given, "--compare")
    try:
        records = results.load(folder).records
    except results.ResultsError as error:
        builtin = ", ".join(builtin_profiles())
        raise BadInput(f"--compare {given}: {error}, or a profile: {builtin}, or a path that ends in .toml") from error
    if not records:
        raise BadInput(f"--compare {given}: no records in {folders.short(folder)}: must be a profile or its results")
    return Side(letter, profile.name if profile else folder.name, records), folder


def _body(
    a: Side,
    b: Side,
    alone: pd.DataFrame,
    differing: pd.DataFrame,
    numbers: pd.DataFrame,
    records_of: dict[str, dict[str, str]],
    folder: Path,
) -> Iterator[str]:
    """The page's parts in order; tables and figures are written as files on the way."""
    from kanstudy.analysis import captions, plots
    from kanstudy.analysis.comparison import changes
    from kanstudy.analysis.tables.layouts import SCALE, Column
    from kanstudy.analysis.tables.save import save_table
    from kanstudy.analysis.tables.view import view
    from kanstudy.study.report import linked

    def table(frame: pd.DataFrame, columns: dict[str, Column], name: str, caption: str) -> str:
        save_table(frame, columns, folder, name, caption)
        return view(frame, columns).to_html()

    yield "<h2>Conditions that differ</h2>"
    if a.sources != b.sources:
        yield _paragraph(f"{a.title}, {b.title}: what one kind of source leaves out is part of every difference.")
    heads = {"condition": Column("condition"), "a": Column(a.title), "b": Column(b.title)}
    caption = "Conditions that differ."
    yield table(differing, heads, "conditions", caption) if len(differing) else _paragraph("None that records tell.")
    yield "<h2>What cannot be compared</h2>"
    heads = {"side": Column("side"), "experiment": Column("experiment"), "world_size": SCALE["world_size"]}
    heads |= {"point_id": Column("point"), "reason": Column("because")}
    caption = "Points without a partner of the same work."
    in_a, in_b = records_of.values()
    of_one = {point: (in_a | in_b)[point] for point in in_a.keys() ^ in_b.keys()}
    yield (
        linked(table(alone, heads, "not_compared", caption), of_one)
        if len(alone)
        else _paragraph("Every point has its partner.")
    )
    for name, compared in changes.TABLES.items():
        rows = numbers[numbers["table"] == name]
        together = plots.comparison.both(name, a, b)
        if together is None and not len(rows):
            continue
        rest = [
            f"{side.letter}: {captions.caption(records)}"
            for side in (a, b)
            if (records := [record for record in side.records if record.experiment == compared.experiment])
        ]
        yield f"<h2>{html.escape(compared.title)}</h2>"
        if together is not None:
            plots.save.save_figure(together, folder, name, " ".join(rest))
            yield f"<p>{plots.save.picture(together, compared.title)}</p>"
        if len(rows):
            yield from map(_paragraph, changes.sentences(rows))
            figure = plots.comparison.changes(rows)
            plots.save.save_figure(figure, folder, f"changes_{name}", " ".join(rest))
            yield f"<p>{plots.save.picture(figure, f'{compared.title}: changes')}</p>"
            shown = table(rows, changes.layout(a, b), f"changes_{name}", " ".join(rest))
            for letter, links in records_of.items():
                shown = linked(shown, links, f"point in {letter}")
            yield shown
        else:
            yield _paragraph("No point of it has a partner, so that only the curves stand beside one another.")
        yield from map(_paragraph, rest)
    yield "<h2>How to read this</h2>"
    yield from map(_paragraph, _HOW_TO_READ)


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"
