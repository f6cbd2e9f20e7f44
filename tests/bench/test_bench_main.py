"""One request in a process of its own: what a candidate raises is an answer, and the whole benchmark end to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kanstudy.bench.__main__ import LOSS_STEPS, fault, perform
from kanstudy.bench_record import ACCURACY_GRIDS, Request, read_bench
from kanstudy.study import bench
from kanstudy.study.bench_plan import plan_bench

OWN = """
import os, signal, torch

class Broken(torch.nn.Module):
    def __init__(self, layers, grid_size, spline_order):
        raise ValueError("only powers of two")

class Greedy(torch.nn.Module):
    def __init__(self, layers, grid_size, spline_order):
        super().__init__()
        torch.empty(2**50)

class Killed(torch.nn.Module):
    def __init__(self, layers, grid_size, spline_order):
        os.kill(os.getpid(), signal.SIGKILL)

class Linear(torch.nn.Module):
    def __init__(self, layers, grid_size, spline_order):
        super().__init__()
        self.linear = torch.nn.Linear(layers[0], layers[-1])

    def forward(self, x):
        return self.linear(x)
"""


@pytest.fixture
def request_of(tmp_path):
    """`request_of(task, candidate, ...)` with candidates Broken, Greedy, Killed and Linear of the user's own."""
    (tmp_path / "own_layers.py").write_text(OWN)
    added = {name: f"{tmp_path / 'own_layers.py'}:{name}" for name in ("Broken", "Greedy", "Killed", "Linear")}

    def make(task: str, *candidates: str) -> Request:
        return Request(
            task=task, candidates=list(candidates), added=added,
            shape="4,3,1:16", threads=1, cores=None, seed=0, rounds=2, block_s=0.001,
            answer=str(tmp_path / "answer.json"), progress=str(tmp_path / "progress.jsonl"),
        )  # fmt: skip

    return make


@pytest.mark.parametrize("task", ["first_step", "memory", "accuracy"])
def test_what_a_candidate_raises_is_its_answer(request_of, task):
    broken = perform(request_of(task, "Broken"))["fault"]
    assert broken == {"status": "failed", "reason": "ValueError: only powers of two"}
    greedy = perform(request_of(task, "Greedy"))["fault"]
    assert greedy["status"] == "oom"
    assert greedy["reason"].startswith("out of memory: ")


def test_what_is_not_installed_is_absent_and_messages_stay_one_line():
    assert fault(ModuleNotFoundError("No module named 'kan'"))["fault"]["status"] == "absent"
    assert fault(RuntimeError("first\nsecond"))["fault"]["reason"] == "RuntimeError: first"
    assert fault(MemoryError())["fault"]["status"] == "oom"
    assert fault(RuntimeError())["fault"]["reason"] == "RuntimeError: "


def test_accuracy_has_a_value_a_grid_or_the_reason_for_none(request_of):
    assert len(perform(request_of("accuracy", "reference"))["max_errors"]) == len(ACCURACY_GRIDS)
    assert perform(request_of("accuracy", "Linear")) == {"max_errors": None, "reason": "has no method b_splines"}


def test_timing_leaves_faults_beside_times_and_tells_who_runs(request_of):
    request = request_of("timing", "floor", "Broken", "Linear")
    answer = perform(request)
    assert answer["Broken"]["fault"]["status"] == "failed"
    assert len(answer["floor"]["block_times_s"]) == len(answer["Linear"]["block_times_s"]) == 2
    events = [json.loads(line) for line in Path(request.progress).read_text().splitlines()]
    assert {event["arm"] for event in events} == {"floor", "Broken", "Linear"}
    assert {(event["event"], event["point_id"]) for event in events} == {("block", "4,3,1:16")}


def test_a_process_answers_into_the_file_it_is_given(request_of):
    request = request_of("memory", "fused")
    done = subprocess.run(
        bench.command(request), env=os.environ, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(Path(request.answer).read_text())
    assert answer["n_params"] == 9 * (4 * 3 + 3)
    assert len(answer["losses"]) == LOSS_STEPS
    assert answer["losses"][-1] < answer["losses"][0]


def test_a_file_of_the_user_does_not_stand_for_a_package(request_of, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kan.py").write_text("class KAN: pass")
    (tmp_path / "installed" / "kan").mkdir(parents=True)
    (tmp_path / "installed" / "kan" / "__init__.py").write_text("raise ImportError('the package, not the file')")
    request = request_of("first_step", "pykan")
    path = os.pathsep.join([str(Path(bench.__file__).parents[2]), str(tmp_path / "installed")])
    subprocess.run(
        bench.command(request),
        env=os.environ | {"PYTHONPATH": path},
        cwd=tmp_path / "elsewhere",
        check=True,
        timeout=300,
    )
    assert "the package, not the file" in json.loads(Path(request.answer).read_text())["fault"]["reason"]


def test_a_limit_that_is_there_is_kept(request_of):
    limit = 2**32
    script = (
        "import resource, sys; from kanstudy.bench import __main__ as main; "
        f"resource.setrlimit(resource.RLIMIT_DATA, ({limit}, {limit})); main.main()"
    )
    request = request_of("first_step", "floor")
    command = [sys.executable, "-c", script, bench.command(request)[-1]]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "first_step_s" in json.loads(Path(request.answer).read_text())


@pytest.mark.slow
def test_the_whole_benchmark_with_layers_that_work_break_and_kill_their_process(request_of, tmp_path):
    own = {name: request_of("x").added[name] for name in ("Broken", "Killed", "Linear")}
    plan = plan_bench(["4,3,1:16"], ["floor", "fused"], own, rounds=2)
    said: list[str] = []
    record = bench.run(plan, tmp_path / "results", said.append)
    assert {cell.candidate: cell.timing.status for cell in record.cells} == {
        "floor": "ok", "fused": "ok", "Broken": "failed", "Killed": "failed", "Linear": "ok",
    }  # fmt: skip
    assert len(said) == 5 + 5 + 1
    cell = record.cell("4,3,1:16", "fused")
    if sys.platform == "linux":
        assert 0 < (cell.memory.peak_bytes or 0) < 64 * 2**20
    assert (cell.first_step_cold_s or 0) > 0
    assert read_bench(tmp_path / "results").status == "ok"
