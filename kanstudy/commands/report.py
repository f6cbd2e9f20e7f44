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
def report(profile: str | None, results_dir: str, figures_dir: str) -> None:
    """Make figures, tables and report.html again from the records that are there. Measures nothing.

    \b
    Examples:
      kanstudy report --profile laptop
      kanstudy report --results-dir results/reference/laptop --figures-dir figures/reference
    """
    loaded, results = folders.given(profile, results_dir)
    if not any(results.glob("*/*.json")):
        raise BadInput(f"{folders.short(results)}: no records; measure first: kanstudy run --help")
    work = folders.batch_of(loaded, results_dir, figures_dir)
    folders.check(work, [])
    work.run([], f"kanstudy: {loaded.name if loaded else results.name}")
    folders.close(work, FAILED if work.failures else OK)
