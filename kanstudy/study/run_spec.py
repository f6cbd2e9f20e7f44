"""What a launch is told: its specification, the data files that it reads, and the environment of its ranks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import kanstudy
from kanstudy.run_spec import RunSpec, data_key
from kanstudy.spec import PointSpec
from kanstudy.study.datasets.prepare import prepare
from kanstudy.study.plan import ExperimentPlan


def data_files(points: Iterable[PointSpec], results: Path) -> dict[str, str]:
    """The file of each data set that the points need, made where it is not there yet."""
    files: dict[str, str] = {}
    for point in points:
        if data_key(point) not in files:
            files[data_key(point)] = str(prepare(point.dataset, point.n_samples, point.seed, results / "data"))
    return files


def run_spec(
    plan: ExperimentPlan,
    points: Sequence[PointSpec],
    *,
    launch: int,
    results: Path,
    files: Mapping[str, str],
    progress: Path,
    provenance: dict[str, Any],
    deadline: float | None = None,
) -> RunSpec:
    """The specification of one launch of these points of a plan; `deadline` is a Unix time in seconds."""
    profile = plan.profile
    return RunSpec(
        profile=profile.name,
        experiment=plan.experiment,
        points=tuple(points),
        data_files={data_key(point): files[data_key(point)] for point in points},
        results_dir=str(results),
        progress_file=str(progress),
        rounds={point.point_id: plan.rounds[point.point_id] for point in points},
        launch=launch,
        launches=plan.launches,
        device=profile.device,
        backend=profile.backend,
        threads_per_rank=profile.machine.threads_per_rank,
        pin=profile.machine.pin,
        oversubscribed=profile.is_oversubscribed,
        collective_timeout_s=profile.machine.collective_timeout_s,
        deadline_unix_s=deadline,
        seed=points[0].seed,
        target_width={point.point_id: width for point in points if (width := plan.target_width.get(point.point_id))},
        provenance=provenance,
    )


def own_environment(threads_per_rank: int) -> dict[str, str]:
    """The variables that every launch sets: equal threads and one allocator policy for every arm."""
    package = str(Path(kanstudy.__file__).resolve().parent.parent)
    return {
        "OMP_NUM_THREADS": str(threads_per_rank),
        "MKL_NUM_THREADS": str(threads_per_rank),
        # glibc: keep freed memory, or steps at large batches pay thousands of page faults that small ones do not
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(8 * 2**30),
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")])),
    }


def environment(threads_per_rank: int, is_here: bool = True) -> dict[str, str]:
    """The environment of a launch: this process's, with its own variables.

    Where all ranks are on this machine, `is_here`, they meet on its loopback."""
    own = own_environment(threads_per_rank)
    if is_here and Path("/sys/class/net/lo").exists():  # whatever this machine's name leads to
        own["GLOO_SOCKET_IFNAME"] = "lo"
    return os.environ | own
