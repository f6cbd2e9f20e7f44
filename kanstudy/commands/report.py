"""`kanstudy report`: figures, tables and the report of what is measured already."""

from __future__ import annotations

import click

from kanstudy.commands import folders
from kanstudy.commands.errors import BadInput
from kanstudy.study.batch import FAILED, OK


@click.command()
@folders.profile_or_not
@folders.results_dir_option
@click.option("--figures-dir", default="", metavar="F", help="where figures and tables go")
@click.option(
    "--compare",
    nargs=2,
    metavar="A B",
    help="two results side by side, each a profile or a results folder  [figures-dir: figures/A-B]",
)
def report(profile: str | None, results_dir: str, figures_dir: str, compare: tuple[str, str] | None) -> None:
    """Make figures, tables and report.html again from the records that are there. Measures nothing.

    \b
    Examples:
      kanstudy report --profile laptop
      kanstudy report --results-dir results/reference/laptop --figures-dir figures/reference
      kanstudy report --compare laptop results/reference/laptop
    """
    if compare:
        from kanstudy.commands.comparison import compare as side_by_side

        if profile or results_dir:
            raise click.UsageError("--compare names both results itself: leave out --profile and --results-dir")
        side_by_side(compare, figures_dir)
        return
    loaded, results = folders.given(profile, results_dir)
    if not any(results.glob("*/*.json")):
        raise BadInput(f"{folders.short(results)}: no records; measure first: kanstudy run --help")
    work = folders.batch_of(loaded, results_dir, figures_dir)
    folders.check(work, [])
    work.run([], f"kanstudy: {loaded.name if loaded else results.name}")
    folders.close(work, FAILED if work.failures else OK)
