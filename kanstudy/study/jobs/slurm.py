"""Slurm's commands: how the study is submitted, and what the queue says of it.

Every command is a list of words, never a line for a shell. What Slurm answers to a mistake is shown as it is.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kanstudy.study.cluster import Cluster

SIGNAL_S = 120
"""Seconds before its limit that a job is told to end; Slurm may do so a minute earlier."""
WAITING = (
    *("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "SUSPENDED"),
    *("CONFIGURING", "POWER_UP_NODE"),
)
LIVE = (*WAITING, "RUNNING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED")
"""States of a job that is not over."""
_TIMEOUT_S = 60.0
_JOB = re.compile(r"^(\d+)(?:;\S*)?$", re.MULTILINE)
_NOT_OF_A_JOB = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT")
_LEFT = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)")


_TOO_MUCH = "[cluster] asks for more than may be asked for"
_STUCK = {
    r"PartitionTimeLimit|\w*WallDuration\w*": f"{_TOO_MUCH}: time_limit",
    r"PartitionNodeLimit": f"{_TOO_MUCH}: nodes (or some are down: sinfo)",
    r"\w*Max(Node|Cpu|CPU|GRES|Gres|TRES|Mem)\w*PerJob\w*": f"{_TOO_MUCH}: nodes, GPUs, cores",
    r"Invalid(Account|QOS)|Account(NotAllowed|ingPolicy)|QOSNotAllowed": "[cluster] names an account or qos that is not"
    " allowed",
    r"BadConstraints|PartitionConfig|NodeConfig\w*": "no nodes of the partition are as [cluster] asks for",
}
"""Reasons, as squeue's %r has them, for which a job would wait for ever."""


class SlurmError(RuntimeError):
    """Slurm refused, or is not there; the message is Slurm's own."""


class RefusedError(SlurmError):
    """Slurm is there, and refused."""


def study_command(cluster: Cluster, name: str, run: Path, script: Path, after: Sequence[str] = ()) -> list[str]:
    """The sbatch command of the job that measures a run folder: one allocation, one task a rank; `after` these jobs."""
    options = {
        "--job-name": f"kanstudy-{name}",
        "--nodes": cluster.nodes,
        "--ntasks-per-node": cluster.ranks_per_node,
        "--cpus-per-task": cluster.cpus_per_task,
        "--gres": cluster.gres,
        "--gpus-per-node": cluster.gpus_per_node,
        "--time": cluster.time_limit,
        **_accounting(cluster),
        "--output": _pattern(run / "job-%j.out"),
        "--open-mode": "append",
        "--signal": f"B:USR1@{SIGNAL_S}",
        "--dependency": "afterany:" + ":".join(after) if after else "",
    }
    requeue = "--requeue" if cluster.requeue else "--no-requeue"
    return ["sbatch", "--parsable", *_words(options), requeue, *cluster.options, str(script), str(run)]


def report_command(cluster: Cluster, name: str, run: Path, script: Path, job: str) -> list[str]:
    """The sbatch command of the job that makes notebooks and report once `job` is over, however it ended."""
    options = {
        "--dependency": f"afterany:{job}",
        "--job-name": f"kanstudy-{name}-report",
        "--nodes": 1,
        "--ntasks": 1,
        "--cpus-per-task": 1,
        "--time": cluster.report_time_limit,
        **_accounting(cluster),
        "--output": _pattern(run / "report-%j.out"),
    }
    return ["sbatch", "--parsable", *_words(options), *cluster.report_options, str(script), str(run)]


def submit(command: Sequence[str]) -> str:
    """Submit, and return the job's number; `SlurmError` with Slurm's own words where it refuses."""
    answer = _ask(command, environment())
    numbers = _JOB.findall(answer)  # "id" or "id;cluster", beside what a centre's own filter prints
    if not numbers:
        raise SlurmError(f"{command[0]} answered {answer.strip()!r}, which is no job's number")
    return str(numbers[-1])


def environment() -> dict[str, str]:
    """This process's variables for a job. Those of a job that it runs in itself, such as SLURM_NTASKS in a notebook on
    a compute node, would be taken for the new one's."""
    if "SLURM_JOB_ID" not in os.environ:
        return dict(os.environ)
    return {name: os.environ[name] for name in os.environ if name in _NOT_OF_A_JOB or not name.startswith("SLURM_")}


def queued(jobs: Sequence[str]) -> dict[str, str]:
    """The state of each job that the queue still knows; `SlurmError` where it does not answer."""
    try:
        answer = _ask(["squeue", "--noheader", "--states=all", "--format=%i %T", "--jobs", ",".join(jobs)])
    except SlurmError as error:
        if "Invalid job id" in str(error):  # it has forgotten the only one
            return {}
        raise
    return _states(answer, jobs)


def states(jobs: Sequence[str]) -> dict[str, str]:
    """The state of each job, such as PENDING or RUNNING, from the queue or the accounting; not of those that neither
    knows any more."""
    found: dict[str, str] = {}
    with contextlib.suppress(SlurmError):
        found |= queued(jobs)
    if missing := [job for job in jobs if job not in found]:
        command = ["sacct", "--noheader", "--allocations", "--parsable2", "--format=JobID,State"]
        with contextlib.suppress(SlurmError):  # there is no accounting
            found |= _states(_ask([*command, "--jobs", ",".join(missing)]), missing)
    return found


def state(job: str) -> str:
    """The state of one job; empty where neither queue nor accounting knows it."""
    return states([job]).get(job, "")


def reason(job: str) -> str:
    """Why a job waits, in Slurm's word, such as Priority or Dependency; empty where the queue does not know it."""
    try:
        return _of_job(job, "%r")
    except SlurmError:
        return ""


def why_stuck(word: str) -> str:
    """What must change before a job that waits for this reason can start; empty where time alone helps."""
    return next((why for pattern, why in _STUCK.items() if re.fullmatch(pattern, word)), "")


def time_left_s(job: str) -> float | None:
    """Seconds until the job's time limit; None where it has none, or Slurm does not say."""
    try:
        return parse_time_left(_of_job(job, "%L"))
    except SlurmError:
        return None


def parse_time_left(text: str) -> float | None:
    """Seconds in `days-hours:minutes:seconds`, of which only the last two are always there; None in other texts."""
    match = _LEFT.fullmatch(text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds


def _states(answer: str, jobs: Sequence[str]) -> dict[str, str]:
    """Job and state in each line of an answer; not of a job's steps, nor the name of a cluster above them."""
    lines = (line.replace("|", " ").split() for line in answer.splitlines())
    return {words[0]: words[1] for words in lines if len(words) > 1 and words[0] in jobs}


def _of_job(job: str, what: str) -> str:
    """What the queue says of one job; with SLURM_CLUSTERS the name of a cluster stands above it."""
    lines = _ask(["squeue", "--noheader", "--jobs", job, f"--format={what}"]).splitlines()
    return lines[-1].strip() if lines else ""


def _accounting(cluster: Cluster) -> dict[str, object]:
    return {"--partition": cluster.partition, "--account": cluster.account, "--qos": cluster.qos}


def _words(options: dict[str, object]) -> list[str]:
    return [f"{name}={value}" for name, value in options.items() if value != ""]


def _pattern(path: Path) -> str:
    """A file name for sbatch, in which only the last part's % is a place holder."""
    return f"{str(path.parent).replace('%', '%%')}/{path.name}"


def _ask(command: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False, env=variables
        )
    except FileNotFoundError as error:
        raise SlurmError(f"{command[0]}: not found: submit on a login node of the cluster") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        raise RefusedError(done.stderr.strip() or f"{command[0]} ended with exit code {done.returncode}")
    return done.stdout
