"""`kanstudy submit`: the study as a job of a cluster."""

from __future__ import annotations

import shlex
from dataclasses import replace

import click

from kanstudy.commands import folders, options
from kanstudy.commands.errors import BadInput

EXIT_CODES = """\b
Exit codes:
  0  submitted, or there is nothing left to measure
  2  the command or the profile cannot be used, or Slurm refused; its own words are shown"""


@click.command(epilog=EXIT_CODES, short_help="Submit the study to Slurm.")
@click.option("--profile", required=True, metavar="P", help="finisterrae3, or a path to your .toml with a [cluster]")
@options.only
@click.option("--results-dir", default="", metavar="D", help="where the records go  [default: results/<profile>]")
@options.rounds
@options.launches
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="a variable of every rank, over the profile's; may be repeated; needs --results-dir",
)
@click.option("--dry-run", is_flag=True, help="show the plan, its cost and the sbatch command; neither needs Slurm")
@click.option(
    "--by-hand", is_flag=True, help="for machines without Slurm: write the run folder, show what to start where"
)
def submit(
    profile: str,
    only: tuple[str, ...],
    results_dir: str,
    rounds: int | None,
    launches: int,
    variables: tuple[str, ...],
    dry_run: bool,
    by_hand: bool,
) -> None:
    """Submit the study to Slurm: one job that measures, and one after it that makes notebooks and report.

    The job asks for the largest world size once, and measures every smaller one on the same nodes. What has its final
    record is not measured again: after a time limit, or when jobs have failed, submit in the same way.

    \b
    Examples:
      kanstudy submit --profile finisterrae3 --dry-run
      kanstudy submit --profile mycluster.toml --only strong_scaling --launches 5
      kanstudy submit --profile finisterrae3 --env NCCL_ALGO=Ring --results-dir results/rings
    """
    from kanstudy.study import experiments
    from kanstudy.study import profile as profiles
    from kanstudy.study.cluster import with_variables
    from kanstudy.study.datasets.rows import DataError
    from kanstudy.study.folder import FolderError
    from kanstudy.study.jobs import by_hand as writing
    from kanstudy.study.jobs import costs, slurm, submission
    from kanstudy.study.jobs import submit as submitting

    try:
        loaded = profiles.load_profile(profile)
        cluster = loaded.require_cluster()
        if variables and not results_dir:
            raise profiles.ProfileError(f"--env {variables[0]}: needs --results-dir, which keeps such records apart")
        loaded = replace(loaded, cluster=with_variables(cluster, variables, "--env"))
        plans = experiments.plans(loaded, only, rounds or 0, launches, "none")
        results = folders.results_folder(loaded, results_dir)
        figures = folders.figures_folder(loaded, results_dir)
        if dry_run:
            left = submission.unfinished(plans, results)
            click.echo(costs.plan_text(left, loaded) if left else "Every planned point has its final record")
            click.echo("\nWithout --dry-run, RUN being a folder of its own:")
            click.echo(shlex.join(submitting.command_to_show(loaded, results)))
            return
        do = writing.write if by_hand else submitting.submit
        run = do(plans, loaded, results, figures, click.echo)
    except (profiles.ProfileError, slurm.SlurmError, FolderError, DataError) as error:
        raise BadInput(str(error)) from error
    except OSError as error:
        raise BadInput(
            f"{error.filename or results_dir or profile}: cannot be written: {error.strerror or error}"
        ) from error
    if run is not None:
        named = shlex.join(["--profile", profile, *(["--results-dir", results_dir] if results_dir else [])])
        click.echo(f"How far it is: kanstudy collect {named}")
        if not by_hand:
            click.echo(f"What it says:  tail -f {folders.short(run.folder)}/job-*.out")
