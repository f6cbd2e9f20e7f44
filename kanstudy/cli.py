"""The command line: run the study, see how far it is, make its report again.

Heavy packages are imported inside the commands, so that `--help` and mistyped options answer at once.
"""

from __future__ import annotations

import contextlib
import errno
import io
import math
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kanstudy import __version__
from kanstudy.commands import folders, options
from kanstudy.commands.analyse import analyse
from kanstudy.commands.bench import bench
from kanstudy.commands.bench_attribution import attribution
from kanstudy.commands.bench_nccl import nccl
from kanstudy.commands.bench_prediction import prediction
from kanstudy.commands.collect import collect
from kanstudy.commands.errors import ended, keeps, refusing
from kanstudy.commands.predict import predict
from kanstudy.commands.report import report
from kanstudy.commands.simulate import simulate
from kanstudy.commands.submit import submit
from kanstudy.study.batch import INTRODUCTION
from kanstudy.study.series import NOTEBOOKS

if TYPE_CHECKING:
    from kanstudy.study.plan import ExperimentPlan

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
EXIT_CODES = """\b
Exit codes:
  0    every planned point is measured
  1    something failed; the message says what and where its log is
  2    the command or the profile cannot be used; nothing was started
  3    every point is final, but some ran out of memory (oom) or diverged (nan)
  4    stopped by --max-minutes; the same command goes on
  130  interrupted; the same command goes on"""

STATUS_CODES = """\b
Exit codes:
  0  shown, whatever is missing
  2  the command, the profile or the folder cannot be used"""


class _Cli(click.Group):
    """However a command ends, it ends with one message and its exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # unwinds, so that the ranks end too
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a terminal of few letters, a file name that is no text
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo(f"\n{ended(ctx, 'Interrupted.')}", err=True)
            sys.exit(INTERRUPTED)
        except SystemExit as error:
            if error.code == TERMINATED:
                click.echo(f"\n{ended(ctx, 'Terminated.')}", err=True)
            raise
        except click.ClickException as error:
            if isinstance(error.__cause__, BrokenPipeError):  # no file failed: who reads the output went away
                raise error.__cause__ from None
            raise
        except OSError as error:
            if error.errno == errno.EPIPE:  # click ends quietly
                raise
            _close_what_is_full()
            said = error.strerror or error
            raise click.ClickException(f"{error.filename}: {said}" if error.filename else str(said)) from error


def _close_what_is_full() -> None:
    """Where it was the output that could not be written, leave what is left of it: it would fail again at the end."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError):
            sys.stdout.close()


@click.group(cls=_Cli)
@click.version_option(__version__)
def main() -> None:
    """How data-parallel training of Kolmogorov-Arnold networks scales: measured, attributed, explained.

    \b
    Start with the quick look (minutes), then measure in earnest:
      kanstudy run --profile smoke
      kanstudy run --profile laptop
    """


main.add_command(analyse)
main.add_command(bench)
bench.add_command(attribution)
bench.add_command(nccl)
bench.add_command(prediction)
main.add_command(report)
main.add_command(simulate)
main.add_command(predict)
main.add_command(submit)
main.add_command(collect)

_profile = click.option("--profile", required=True, metavar="P", help="smoke, laptop, ..., or a path to your .toml")


@main.command(epilog=EXIT_CODES)
@_profile
@options.only
@options.results_dir
@options.rounds
@options.launches
@click.option(
    "--max-minutes",
    type=click.FloatRange(min=0, min_open=True),
    metavar="M",
    help="begin no round that would end later; run again to go on",
)
def run(
    profile: str, only: tuple[str, ...], results_dir: str, rounds: int | None, launches: int, max_minutes: float | None
) -> None:
    """Measure, then make figures, tables and the report. What is measured already is not measured again.

    Runs the notebooks in order: 00 (the KAN explained), those of the experiments, then 90 (figures and tables). The
    executed notebooks and report.html lie beside the records, the figures in figures/<profile>, or with
    --results-dir in D/figures.

    \b
    Examples:
      kanstudy run --profile laptop
      kanstudy run --profile laptop --only strong_scaling --launches 5
      kanstudy run --profile mine.toml --max-minutes 30
    """
    from kanstudy.study import batch, experiments
    from kanstudy.study.profile import ProfileError

    if max_minutes is not None and not math.isfinite(max_minutes):
        raise click.BadParameter(f"{max_minutes} is not a number of minutes", param_hint="--max-minutes")
    loaded = folders.load(profile)
    with refusing(ProfileError):
        plans = experiments.plans(loaded, only, rounds or 0, launches, say=click.echo)
    work = folders.batch_of(loaded, results_dir, max_minutes=max_minutes or 0.0, rounds=rounds or 0, launches=launches)
    names = ([] if only else [INTRODUCTION]) + [NOTEBOOKS[name] for name in plans]
    folders.check(work, names)
    _check_folder(work.results)
    sizes = ", ".join(f"{name} {len(plan.points)}" for name, plan in plans.items())
    what = f": {loaded.study.description}" if loaded.study.description else ""
    click.echo(f"Profile {loaded.name}{what}")
    click.echo(f"Points: {sizes}; results in {folders.short(work.results)}")
    click.echo(_left(plans, work.results))
    keeps()
    work.run(names, f"kanstudy: {loaded.name}")
    states = batch.point_states(plans, work.results)
    click.echo(batch.summary(states))
    folders.close(work, batch.exit_code(states, work.failures, stopped=not work.minutes_left))


@main.command(epilog=STATUS_CODES, short_help="Show which points are measured, and which are missing.")
@options.profile_or_not
@options.results_dir
def status(profile: str | None, results_dir: str) -> None:
    """Show which points are measured, and with --profile which are still missing. Starts nothing.

    \b
    Examples:
      kanstudy status --profile laptop
      kanstudy status --results-dir results/reference/laptop
    """
    from kanstudy.analysis.results import ResultsError, planned_versus_done
    from kanstudy.study import batch, experiments
    from kanstudy.study.jobs import collect
    from kanstudy.study.profile import ProfileError

    loaded, results = folders.given(profile, results_dir)
    for line in collect.job_lines(collect.queue(results)):
        click.echo(line)
    with refusing(ResultsError):
        table = planned_versus_done(results) if results.exists() else None
    if table is None or table.empty:
        click.echo(f"{folders.short(results)}: nothing measured yet")
    else:
        click.echo(table.to_string(index=False))
    if loaded:
        with refusing(ProfileError):
            plans = experiments.plans(loaded, launcher="none", say=click.echo)
        click.echo(batch.summary(batch.point_states(plans, results)))


def _left(plans: dict[str, ExperimentPlan], results: Path) -> str:
    """How many points are to be measured, and about how long that takes."""
    from kanstudy.study.jobs.submission import unfinished
    from kanstudy.study.progress import duration

    left = unfinished(plans, results).values()
    if not left:
        return "Everything is measured already; figures, tables and report are made again"
    most = "at most " if any(plan.target_width for plan in left) else ""
    planned, missing = (sum(len(plan.points) for plan in some) for some in (plans.values(), left))
    about = duration(sum(plan.estimated_s() for plan in left))
    return f"To measure: {missing} of {planned} points, {most}about {about}"


def _check_folder(results: Path) -> None:
    """The folder can be written, and no other study is writing it; before anything starts."""
    from kanstudy.study import folder

    with refusing(folder.FolderError), folder.opened(results):
        pass
