"""Submitting: what is still to be measured becomes a run folder and two jobs, one that measures, one that reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from kanstudy.files import write_atomically
from kanstudy.study import costs, slurm, submission
from kanstudy.study.data import prepare
from kanstudy.study.folder import opened
from kanstudy.study.plan import ExperimentPlan
from kanstudy.study.profile import Profile, ProfileError, project_root


class AlreadySubmittedError(RuntimeError):
    """A job that writes the same results is queued or running."""


def scripts() -> tuple[Path, Path]:
    """The batch scripts of both jobs; `ProfileError` where kanstudy is not run from a checkout."""
    found = tuple(project_root() / "slurm" / name for name in ("study.sbatch", "report.sbatch"))
    for path in found:
        if not path.is_file():
            raise ProfileError(f"{path}: not there: submit from a checkout of the project")
    return found[0], found[1]


def command_to_show(profile: Profile, results: Path) -> list[str]:
    """The sbatch command of a run folder that is not written, which stands as RUN."""
    assert profile.cluster is not None
    return slurm.study_command(profile.cluster, profile.name, results / submission.JOBS / "RUN", scripts()[0])


def submit(
    plans: Mapping[str, ExperimentPlan],
    profile: Profile,
    results: Path,
    figures: Path,
    say: Callable[[str], object] = print,
) -> submission.Submission | None:
    """Submit what has no final record yet; None where that is nothing.

    Data sets are prepared now, since compute nodes rarely reach the internet. Raises `ProfileError` without a
    cluster, `AlreadySubmittedError`, `SlurmError` with Slurm's own words, `FolderError` where the results cannot be
    written.
    """
    if profile.cluster is None:
        raise ProfileError(f"{profile.path}: has no [cluster], and is measured here: kanstudy run")
    study, report = scripts()
    left = submission.unfinished(plans, results)
    if not left:
        say("Every planned point has its final record: nothing is submitted")
        return None
    for run, jobs in submission.read_jobs(results).items():
        if (state := slurm.state(jobs.get("study", ""))) in slurm.LIVE:
            raise AlreadySubmittedError(
                f"job {jobs['study']} ({state}) of {run} measures into {results}: wait for it, or end it: scancel"
                f" {jobs['study']}"
            )
    with opened(results):
        for plan in left.values():
            for point in plan.points:
                prepare(point.dataset, point.n_samples, point.seed, results / "data")
        text = costs.plan_text(left, profile)
        say(text)
        run_folder = submission.write(left, profile, results, figures, text)
    run = run_folder.folder
    command = slurm.study_command(profile.cluster, profile.name, run, study)
    commands = {"study": command}
    write_atomically(run / "commands.json", json.dumps(commands, indent=1))
    jobs = {"study": slurm.submit(command)}
    submission.write_jobs(run, jobs)
    commands["report"] = slurm.report_command(profile.cluster, profile.name, run, report, jobs["study"])
    write_atomically(run / "commands.json", json.dumps(commands, indent=1))
    jobs["report"] = slurm.submit(commands["report"])
    submission.write_jobs(run, jobs)
    say(f"Submitted job {jobs['study']}, which measures, and job {jobs['report']}, which makes the report after it")
    return run_folder
