"""`kanstudy bench attribution`, with ranks that measure nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kanstudy.cli import main
from kanstudy.record import Round, blank_record
from kanstudy.record_files import write_record
from kanstudy.run_spec import RunSpec, data_key
from kanstudy.spec import PointSpec
from kanstudy.study import launch
from kanstudy.study.plan import ExperimentPlan


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["bench", "attribution", *arguments])


def record_of(point: PointSpec, plan: ExperimentPlan, results: Path) -> None:
    """A record of even steps, to which nothing was added."""
    spec = RunSpec(
        profile=plan.profile.name,
        experiment=plan.experiment,
        points=(point,),
        data_files={data_key(point): "x.npz"},
        results_dir=str(results),
        progress_file="p",
        rounds={point.point_id: plan.rounds[point.point_id]},
    )
    record = blank_record(point, spec, status="ok")
    record.injection_step_s = 1e-3 if point.injection else None
    for index in range(plan.rounds[point.point_id]):
        for order, arm in enumerate(point.arms):
            ranks = [0] if arm == "serial_global" else [0, 1]
            step = 2e-3 if arm == "serial_global" else 1e-3
            block = {"rank_step_times_s": [[step] * 4] * len(ranks), "rank_block_times_s": [4 * step] * len(ranks)}
            same: dict[str, Any] = {"reference_kernel_s": [1e-4] * len(ranks), "minor_faults": [0.0] * len(ranks)}
            record.arms[arm].rounds.append(
                Round(
                    launch=0, attempt=1, index=index, order=order, active_ranks=ranks, started_utc="", **block, **same,
                    foreign_cpu_share=[0.0] * len(ranks),
                )
            )  # fmt: skip
    record.arms["ddp"].data_wait_s = [[1e-5] * 12] * 2
    write_record(record, results)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ExperimentPlan, Path]]:
    """Plans and folders that were asked for; each is 'measured' at once."""
    asked: list[tuple[ExperimentPlan, Path]] = []

    def measure(plan: ExperimentPlan, results: Path) -> None:
        asked.append((plan, results))
        for point in plan.points:
            record_of(point, plan, results)

    monkeypatch.setattr(launch, "run", measure)
    return asked


def test_it_measures_and_says_what_was_found(plans: list[tuple[ExperimentPlan, Path]], tmp_path: Path) -> None:
    done = run("--results-dir", str(tmp_path), "--only", "contention", "--rounds", "12", "--quick")
    assert done.exit_code == 0, done.output
    ((plan, results),) = plans
    assert results == tmp_path / "bench" / "attribution"
    assert [point.injection for point in plan.points] == ["", "contention:0.3"]
    assert "contention: not found in contention" in done.output
    for ending in ("pdf", "png", "txt"):
        assert (tmp_path / "figures" / f"dose_response.{ending}").stat().st_size > 0


def test_points_that_fail_are_told_after_what_was_found(
    plans: list[tuple[ExperimentPlan, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(plan: ExperimentPlan, results: Path) -> None:
        raise launch.LaunchError("dose_response: 1 of 2 points failed: rank 1 died")

    monkeypatch.setattr(launch, "run", fail)
    done = run("--results-dir", str(tmp_path), "--only", "jitter")
    assert done.exit_code == 1
    assert "rank 1 died" in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("arguments", [(), ("--profile", "nowhere"), ("--results-dir", "x", "--only", "gremlins")])
def test_bad_input_starts_nothing(arguments: tuple[str, ...], plans: list[tuple[ExperimentPlan, Path]]) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert plans == []
    assert "Traceback" not in done.output
