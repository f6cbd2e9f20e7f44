"""The run folder of a job: all that it needs, written when it is submitted, so that later edits change nothing in it.

`run.json` plans, machine and cluster; `profile.toml` the profile as it was; `setup.sh` what makes a node ready;
`code.json`, `code.patch` the code's state; `plan.txt` the plan for reading; `jobs.json` the jobs' numbers.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kanstudy
from kanstudy.files import write_atomically
from kanstudy.spec import point_from_dict
from kanstudy.strict_json import fits
from kanstudy.study import provenance
from kanstudy.study.cluster import Cluster, cluster_from_dict
from kanstudy.study.folder import states
from kanstudy.study.plan import ExperimentPlan
from kanstudy.study.profile import Profile, ProfileError, Study
from kanstudy.study.series import Machine
from kanstudy.study.strict import build

JOBS = "jobs"
"""Folder of the run folders, below that of the results."""
FINAL = ("ok", "oom", "nan")


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What a run folder says: the plans that one job measures, where their results and figures go."""

    folder: Path
    results: Path
    figures: Path
    profile: Profile
    plans: dict[str, ExperimentPlan]
    code: dict[str, Any] | None

    @property
    def cluster(self) -> Cluster:
        """The cluster of the profile; without one nothing is submitted."""
        assert self.profile.cluster is not None
        return self.profile.cluster


def unfinished(plans: Mapping[str, ExperimentPlan], results: Path) -> dict[str, ExperimentPlan]:
    """The plans with the points that have no final record yet; without those that have none left."""
    left: dict[str, ExperimentPlan] = {}
    for name, plan in plans.items():
        state = states(plan, results)
        points = tuple(point for point in plan.points if state[point.point_id] not in FINAL)
        if points:
            left[name] = dataclasses.replace(plan, points=points)
    return left


def write(plans: Mapping[str, ExperimentPlan], profile: Profile, results: Path, figures: Path, text: str) -> Submission:
    """Make the run folder of a new job below the results, and return what it says; `OSError` where that fails."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    run = results / JOBS / stamp
    run.mkdir(parents=True)
    package = Path(kanstudy.__file__).resolve().parent
    code = provenance.git_state(package)
    submission = Submission(folder=run, results=results, figures=figures, profile=profile, plans=dict(plans), code=code)
    values = {
        "profile": profile.name,
        "path": str(profile.path),
        "results": str(results),
        "figures": str(figures),
        "machine": dataclasses.asdict(profile.machine),
        "cluster": dataclasses.asdict(submission.cluster),
        "code": code,
        "plans": [_plan_as_dict(plan) for plan in plans.values()],
    }
    write_atomically(run / "run.json", json.dumps(values, indent=1))
    write_atomically(run / "profile.toml", profile.path.read_text(encoding="utf-8"))
    write_atomically(run / "setup.sh", setup(submission.cluster, package.parent))
    write_atomically(run / "plan.txt", text + "\n")
    if code is not None and code["dirty"]:
        write_atomically(run / "code.patch", provenance.uncommitted(package))
    return submission


def read(run: Path) -> Submission:
    """What a run folder says; a `ProfileError` that names it where it is none."""
    try:
        return _from_dict(json.loads((run / "run.json").read_text(encoding="utf-8")), run)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProfileError(f"{run / 'run.json'}: not what kanstudy submit writes: {error}") from error
    except OSError as error:
        raise ProfileError(f"{run / 'run.json'}: cannot be read: {error.strerror}") from error


def _from_dict(values: Mapping[str, Any], run: Path) -> Submission:
    where = f"{run / 'run.json'} cluster"
    profile = Profile(
        name=values["profile"],
        path=Path(values["path"]),
        study=Study(description="", series={}),
        machine=build(Machine, values["machine"], where.replace("cluster", "machine")),
        cluster=cluster_from_dict(values["cluster"], where),
    )
    plans = {plan["experiment"]: _plan_from_dict(plan, profile) for plan in values["plans"]}
    return Submission(
        folder=run,
        results=Path(values["results"]),
        figures=Path(values["figures"]),
        profile=profile,
        plans=plans,
        code=values["code"],
    )


def write_jobs(run: Path, jobs: Mapping[str, str]) -> None:
    """Keep the numbers of the jobs, `study` and `report`, with the run folder."""
    write_atomically(run / "jobs.json", json.dumps(dict(jobs)))


def read_jobs(results: Path) -> dict[Path, dict[str, str]]:
    """The jobs of every run folder below the results, the oldest first; none where nothing was submitted from it."""
    found = {}
    for path in sorted(results.glob(f"{JOBS}/*/jobs.json")):
        try:
            pair = json.loads(path.read_text()).items()
            found[path.parent] = {name: str(job) for name, job in pair if name in ("study", "report")}
        except (OSError, ValueError, AttributeError, RecursionError):
            continue
    return found


def setup(cluster: Cluster, package_root: Path, python: str = sys.executable) -> str:
    """Shell that makes a node ready: the profile's set-up lines, then its variables, as they are."""
    quoted = {name: shlex.quote(value) for name, value in sorted(cluster.environment.items())}
    lines = [
        "# what the profile says of a node; the job reads it before anything else",
        *cluster.setup,
        *(f"export {name}={value}" for name, value in quoted.items()),
    ]
    if cluster.scratch:
        lines += [
            f'export TORCHINDUCTOR_CACHE_DIR="{cluster.scratch}/kanstudy/inductor"',
            f'export TRITON_CACHE_DIR="{cluster.scratch}/kanstudy/triton"',
            f'export NUMBA_CACHE_DIR="{cluster.scratch}/kanstudy/numba"',
        ]
    lines += [
        f"export PYTHONPATH={shlex.quote(str(package_root))}${{PYTHONPATH:+:$PYTHONPATH}}",
        f"KANSTUDY_PYTHON={shlex.quote(python)}",
    ]
    return "\n".join(lines) + "\n"


def _plan_as_dict(plan: ExperimentPlan) -> dict[str, Any]:
    kept = {point.point_id for point in plan.points}
    return {
        "experiment": plan.experiment,
        "launches": plan.launches,
        "points": [dataclasses.asdict(point) for point in plan.points],
        "rounds": {point: rounds for point, rounds in plan.rounds.items() if point in kept},
        "target_width": {point: width for point, width in plan.target_width.items() if point in kept},
    }


def _plan_from_dict(values: Mapping[str, Any], profile: Profile) -> ExperimentPlan:
    points = tuple(point_from_dict(point) for point in values["points"])
    ids = {point.point_id for point in points}
    rounds, launches, width = (values[name] for name in ("rounds", "launches", "target_width"))
    are_whole = fits(rounds, dict[str, int]) and fits(launches, int) and launches >= 1 and fits(width, dict[str, float])
    if not are_whole or set(rounds) != ids or not set(width) <= ids:
        raise ValueError(f"rounds, launches = {launches!r} and target_width must fit the points")
    return ExperimentPlan(
        profile=profile,
        experiment=values["experiment"],
        points=points,
        rounds=rounds,
        launches=launches,
        target_width=width,
    )
