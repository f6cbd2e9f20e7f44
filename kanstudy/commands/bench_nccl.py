"""`kanstudy bench nccl`: does a share that is not monotonic go away when NCCL is held to one choice?"""

from __future__ import annotations

import click

from kanstudy.commands import folders
from kanstudy.commands.errors import BadInput

EXIT_CODES = """\b
Exit codes:
  0  compared
  2  the folders cannot be compared; the message says why"""
NAME = "nccl_choices_forced"


@click.command(epilog=EXIT_CODES, short_help="Compare results under different choices of NCCL.")
@click.argument("results", nargs=-1, required=True, metavar="RESULTS...")
@click.option("--out", default="", metavar="D", help="write the table to D as CSV, Markdown and LaTeX")
def nccl(results: tuple[str, ...], out: str) -> None:
    """Compare results folders that differ in NCCL_ALGO and NCCL_PROTO: how far does the overhead fall as ranks are
    added, and does that go away?

    The folders come of `slurm/force_nccl.sh`; which choice each was held to is in its records.

    \b
    Example:
      slurm/force_nccl.sh finisterrae3 results/finisterrae3-nccl
      kanstudy bench nccl results/finisterrae3-nccl/* --out figures/finisterrae3-nccl
    """
    from kanstudy.analysis.captions import caption
    from kanstudy.analysis.network.forced import FORCED, answers, monotonicity
    from kanstudy.analysis.results import ResultsError, load
    from kanstudy.analysis.tables.save import save_table
    from kanstudy.analysis.tables.view import view

    try:
        records = [
            record
            for folder in results
            for record in load(folder).records
            if record.experiment in ("strong_scaling", "weak_scaling", "communication_overhead")
        ]
        table = monotonicity(records)
    except (ResultsError, ValueError) as error:
        raise BadInput(str(error)) from error
    if table.empty:
        raise BadInput(f"{', '.join(results)}: no series of two world sizes above 1 in {len(records)} records")
    click.echo(view(table, FORCED).to_markdown())
    for sentence in answers(table):
        click.echo(sentence)
    if out:
        text = f"Communication overhead over the world sizes by what NCCL is held to. {caption(records)}"
        folder = folders.path_given(out, "--out")
        try:
            save_table(table, FORCED, folder, NAME, text)
        except OSError as error:
            raise BadInput(f"--out {out}: cannot be written: {error.strerror}") from error
        click.echo(f"Look at {folders.short(folder / NAME)}.md")
