"""Submitting: what is still to be measured becomes a run folder and two jobs, one that measures, one that reports."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from kanstudy.files import write_atomically
from kanstudy.study.cluster import Cluster
from kanstudy.study.folder import check_measured, opened
from kanstudy.study.jobs import costs, slurm, submission
from kanstudy.study.places import project_root
from kanstudy.study.plan import ExperimentPlan
from kanstudy.study.profile import Profile, ProfileError
from kanstudy.study.run_spec import data_files


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
    """Submit what has no final record yet and is not in a job already; None where that is nothing.

    Data sets are prepared now, since compute nodes rarely reach the internet. A job that would write beside another
    waits for it. Raises `ProfileError` without a cluster, `SlurmError` with Slurm's own words, `FolderError` where
    the results cannot be written or are simulated, or another submission is under way.
    """
    cluster = profile.require_cluster()
    for plan in plans.values():
        check_measured(plan, results)
    left = submission.unfinished(plans, results)
    if not left:
        say("Every planned point has its final record: nothing is submitted")
        return None
    with opened(results / submission.JOBS):  # of two at once, each would find the other's job not there
        return _submit(left, plans, profile, cluster, results, figures, say)


def _submit(
    left: Mapping[str, ExperimentPlan],
    plans: Mapping[str, ExperimentPlan],
    profile: Profile,
    cluster: Cluster,
    results: Path,
    figures: Path,
    say: Callable[[str], object],
) -> submission.Submission | None:
    """Submit what is left of the plans and is not in a job already."""
    study, report = scripts()
    live = _live(results)
    for job, plans_of_job in live.items():
        left = _without(left, plans_of_job)
        say(f"Job {job} is queued or runs on these results: wait for it, or end it: scancel {job}")
    if not left:
        say("All that is left is in a job already: nothing is submitted")
        return None
    if not live:  # else the folder is the job's
        with opened(results):
            pass
    for plan in left.values():
        data_files(plan.points, results)
    text = costs.plan_text(left, profile)
    say(text)
    written = submission.write({name: plans[name] for name in left}, profile, results, figures, text)
    run = written.folder
    commands = {"study": slurm.study_command(cluster, profile.name, run, study, list(live))}
    _write_commands(run, commands)
    try:
        jobs = {"study": slurm.submit(commands["study"])}
    except slurm.RefusedError as error:
        raise slurm.RefusedError(
            f"{error}\nNothing is submitted. This is what [cluster] of {profile.path} asks for:\n"
            f"{shlex.join(commands['study'])}"
        ) from error
    submission.write_jobs(run, jobs)
    commands["report"] = slurm.report_command(cluster, profile.name, run, report, jobs["study"])
    _write_commands(run, commands)
    try:
        jobs["report"] = slurm.submit(commands["report"])
    except slurm.SlurmError as error:
        raise slurm.SlurmError(
            f"job {jobs['study']} is submitted and measures; the one of the report: {error}"
        ) from error
    submission.write_jobs(run, jobs)
    say(f"Submitted job {jobs['study']}, which measures, and job {jobs['report']}, which makes the report after it")
    return written


def _live(results: Path) -> dict[str, Mapping[str, ExperimentPlan]]:
    """The jobs that are queued or running on these results, and what each is to measure; `SlurmError` where the queue
    does not answer, lest they are submitted again."""
    jobs = {run: pair["study"] for run, pair in submission.read_jobs(results).items() if "study" in pair}
    states = slurm.queued(list(jobs.values())) if jobs else {}
    return {job: submission.read(run).plans for run, job in jobs.items() if states.get(job) in slurm.LIVE}


def _without(plans: Mapping[str, ExperimentPlan], of_job: Mapping[str, ExperimentPlan]) -> dict[str, ExperimentPlan]:
    """The plans without the points of which a job measures as many rounds and launches."""

    def is_in_job(plan: ExperimentPlan, point_id: str) -> bool:
        other = of_job.get(plan.experiment)
        if other is None or other.launches < plan.launches:
            return False
        return other.rounds.get(point_id, 0) >= plan.rounds[point_id]

    kept = {
        name: dataclasses.replace(plan, points=tuple(p for p in plan.points if not is_in_job(plan, p.point_id)))
        for name, plan in plans.items()
    }
    return {name: plan for name, plan in kept.items() if plan.points}


def _write_commands(run: Path, commands: Mapping[str, list[str]]) -> None:
    write_atomically(run / "commands.json", json.dumps(dict(commands), indent=1))
