"""`kanstudy collect`: how far the jobs are and what there is of their results."""

from __future__ import annotations

import sys

import click

from kanstudy.commands import folders, options
from kanstudy.commands.errors import BadInput

EXIT_CODES = """\b
Exit codes:
  0  every planned point is measured
  1  something failed; the message says what and where its log is
  2  the command or the profile cannot be used
  3  every point is final, but some ran out of memory (oom) or diverged (nan)
  4  points are still to be measured: wait for the job, or submit again"""


@click.command(epilog=EXIT_CODES, short_help="Show how far submitted jobs are.")
@click.option("--profile", metavar="P", help="the profile that was submitted")
@options.results_dir
def collect(profile: str | None, results_dir: str) -> None:
    """Show how far submitted jobs are: what the queue says, and which points are measured, running, failed and why.

    Reads the results folder alone, and asks Slurm where it is there: also while a job runs, after it has ended, and
    on another machine to which the folder was copied.

    \b
    Examples:
      kanstudy collect --profile finisterrae3
      kanstudy collect --results-dir copied/from/the/cluster
    """
    from kanstudy.study import batch
    from kanstudy.study.jobs import collect as collecting

    loaded, results = folders.given(profile, results_dir)
    try:
        queue = collecting.queue(results)
        plans = collecting.submitted_plans(queue)
        if not plans and loaded is not None:
            from kanstudy.study import experiments  # brings numpy, which a look at submitted jobs can do without

            plans = experiments.plans(loaded, launcher="none")
    except (ValueError, KeyError, OSError) as error:  # a profile's, or of a run folder that is none
        raise BadInput(str(error)) from error
    if not plans:
        raise BadInput(f"{results}: nothing was submitted into it; name the profile: kanstudy collect --help")
    for line in collecting.job_lines(queue):
        click.echo(line)
    states = batch.point_states(plans, results)
    now, heard = collecting.with_running(states, results, queue)
    if heard:
        click.echo(f"Last heard of {heard}")
    click.echo(batch.summary(now))
    if lines := collecting.reasons(plans, results):
        click.echo("\n".join(["Notes:", *lines]))
    report = results / "report.html"
    if report.exists():
        click.echo(f"Report: {report}")
    sys.exit(batch.exit_code(states, [], stopped=True))
