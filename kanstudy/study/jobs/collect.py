"""How far the jobs of a results folder are, also while they run and after Slurm has forgotten them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kanstudy.strict_json import RecordError
from kanstudy.study.faults import tail
from kanstudy.study.folder import find_record
from kanstudy.study.jobs import slurm, submission
from kanstudy.study.plan import ExperimentPlan

RUNNING = "running"
"""Of a point that a job measures now; between its rounds its record says `partial`."""
_OUTPUT_LINES = 6
_WHAT = {"study": "which measures", "report": "which makes the report"}
_OUTPUT = {"study": "job-{}.out", "report": "report-{}.out"}


@dataclass(frozen=True)
class Queue:
    """`jobs[run folder]` are the numbers of a submission's jobs, `study` and `report`, the oldest submission first;
    `states[number]` what Slurm says of those that it still knows."""

    jobs: dict[Path, dict[str, str]]
    states: dict[str, str]


def queue(results: Path) -> Queue:
    """The jobs that were submitted into a folder, and what Slurm says of them now."""
    jobs = submission.read_jobs(results)
    numbers = [job for pair in jobs.values() for job in pair.values()]
    return Queue(jobs, slurm.states(numbers) if numbers else {})


def submitted_plans(jobs: Queue) -> dict[str, ExperimentPlan]:
    """The plans that jobs were submitted with, of each experiment the last; none where there was no job."""
    plans: dict[str, ExperimentPlan] = {}
    for run in jobs.jobs:
        plans |= submission.read(run).plans
    return plans


def job_lines(jobs: Queue) -> list[str]:
    """What the queue says of jobs that are not over and of those submitted last; of a last one that is over, the end
    of its output."""
    lines = []
    for number, (run, pair) in enumerate(jobs.jobs.items(), 1):
        is_last = number == len(jobs.jobs)
        if is_last:
            lines.append(f"Submitted{f' {number} times, last' if number > 1 else ''} as {run}")
        for kind, job in pair.items():
            state = jobs.states.get(job, "")
            if not is_last and state not in slurm.LIVE:
                continue
            reason = slurm.reason(job) if state in slurm.WAITING else ""
            said = state.lower() or "Slurm does not know it any more"
            lines.append(f"Job {job}, {_WHAT[kind]}: {said}{f' ({reason})' if reason else ''}")
            if stuck := slurm.why_stuck(reason):
                end = f"scancel {' '.join(pair.values())}"
                lines.append(f"  it does not start: {stuck}; end it ({end}), change that, and submit again")
            if state not in slurm.LIVE:
                lines += _last_words(run / _OUTPUT[kind].format(job), state)
    return lines


def with_running(states: Mapping[str, str], results: Path, jobs: Queue) -> tuple[dict[str, str], str]:
    """The points' states, `RUNNING` where a job measures them now, and what that was heard of last, for reading."""
    now = dict(states)
    launches = sorted(results.glob("logs/*/*/progress.jsonl"), key=lambda path: path.parent.name)
    events = _events(launches[-1]) if launches else []
    job, points = _told(launches[-1].with_name("run.json")) if launches else ("", [])
    if jobs.states.get(job) != "RUNNING" or not events or events[-1].get("event") == "finished":
        return now, ""
    experiment = launches[-1].parent.parent.name
    for point in points:
        if now.get(f"{experiment}/{point}") in ("missing", "partial"):
            now[f"{experiment}/{point}"] = RUNNING
    block = next((event for event in reversed(events) if event.get("event") == "block"), None)
    if block is None:
        return now, f"{experiment}: ranks have started"
    done = f"block {block.get('done')} of {block.get('total')}"
    return now, f"{experiment}: {done}: {block.get('point_id')} {block.get('arm')}"


def reasons(plans: Mapping[str, ExperimentPlan], results: Path) -> list[str]:
    """Why points have no result, and flags of those that have, a line each: the records' own words."""
    lines = []
    for name, plan in plans.items():
        for point in plan.points:
            try:
                record = find_record(results, point)
            except (RecordError, OSError) as error:
                lines.append(f"  {name}/{point.point_id}: unreadable: {error}")
                continue
            if record is not None and record.error is not None:
                rank = "" if record.error.rank is None else f"rank {record.error.rank}: "
                lines.append(f"  {name}/{point.point_id}: {record.status}: {rank}{record.error.reason}")
            if record is not None and (flag := (record.provenance.get("preflight") or {}).get("flag")):
                lines.append(f"  {name}/{point.point_id}: {flag}")
    return lines


def _last_words(output: Path, state: str) -> list[str]:
    """The end of what a job that is over printed; a report that was made is enough said."""
    if state == "COMPLETED" and output.name.startswith("report"):
        return []
    try:
        lines = tail(output.read_text(encoding="utf-8", errors="replace")).splitlines()
    except FileNotFoundError:
        silent = f"it printed nothing: do its nodes see {output.parent}?"
        return [f"  {silent}"] if state == "FAILED" else []
    except OSError:
        return []
    return [f"  | {line}" for line in lines[-_OUTPUT_LINES:]]


def _events(path: Path) -> list[dict[str, Any]]:
    """What a launch told, oldest first; lines that are still being written are passed over."""
    events = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def _told(run_file: Path) -> tuple[str, list[str]]:
    """The job that a launch ran in, and its points."""
    try:
        run = json.loads(run_file.read_text(encoding="utf-8"))
        return run["provenance"]["job"].get("SLURM_JOB_ID", ""), list(run["rounds"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "", []
