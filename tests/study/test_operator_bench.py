"""What a benchmark starts and what it makes of the answers: faults are rows, the rest goes on, nothing is lost."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kanstudy.bench_record import Request, read_bench
from kanstudy.study import bench, folder
from kanstudy.study.bench_plan import plan_bench

STUB = """
import json, os, signal, sys, time
request = json.loads(sys.argv[1])
(task, names), rounds = (request["task"], request["candidates"]), request["rounds"]
print("at work", os.environ["OMP_NUM_THREADS"], os.environ.get("MALLOC_MMAP_MAX_"), os.environ.get("NUMBA_CACHE_DIR"))
def tell(name, done):
    with open(request["progress"], "a") as file:
        event = dict(event="block", point_id=request["shape"], arm=name, done=done, total=rounds)
        file.write(json.dumps(event) + "\\n")
def times():
    return dict(steps_per_block=2, block_times_s=[0.1] * rounds, places=[0] * rounds)
if task == "first_step":
    answer = dict(first_step_s=9.0)
    if names == ["absent"]:
        answer = dict(fault=dict(status="absent", reason="no module"))
elif task == "memory":
    if names == ["hungry"]:
        os.kill(os.getpid(), signal.SIGKILL)
    slow = 99.0 if names == ["slow"] else 0.01
    answer = dict(peak_bytes=2**20, reason=None, first_step_s=2.0, step_times_s=[slow, slow], n_params=5)
elif task == "accuracy":
    answer = dict(max_errors=[1e-7, 1e-7, 1e-6])
    if names == ["silent"]:
        time.sleep(60)
else:
    for name in names:
        tell(name, 0)
        if name == "dies":
            sys.exit("Segmentation of everything")
    answer = {name: times() for name in names}
    if "raises" in answer:
        answer["raises"] = dict(fault=dict(status="oom", reason="out of memory"))
open(request["answer"], "w").write(json.dumps(answer))
"""


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """`measured(names)` runs the benchmark of these stubs at one shape: the record, and what was said."""

    def run(*names: str, rounds: int = 3):
        said: list[str] = []
        plan = plan_bench(["4,3,1:8"], ["floor"], dict.fromkeys(names, "x.py:X"), rounds=rounds)
        record = bench.run(plan, tmp_path, said.append)
        assert read_bench(tmp_path) == record
        return record, said

    def command(request: Request) -> list[str]:
        return [sys.executable, "-c", STUB, json.dumps(request.__dict__)]

    monkeypatch.setattr(bench, "command", command)
    return run


def test_everything_that_is_measured_is_in_the_record_and_told(measured, tmp_path):
    record, said = measured("own")
    assert record.status == "ok"
    cell = record.cell("4,3,1:8", "own")
    assert (cell.first_step_cold_s, cell.first_step_warm_s, cell.n_params) == (9.0, 2.0, 5)
    assert (cell.memory.status, cell.memory.peak_bytes) == ("ok", 2**20)
    assert cell.timing.block_times_s == [0.1] * 3
    assert [item.max_errors for item in record.accuracy] == [[1e-7, 1e-7, 1e-6]] * 2
    assert said[0] == "[1/5] 4,3,1:8 floor: peak 1.0 MiB, first step 2.0 s (compiler caches empty: 9.0 s)"
    assert said[-1] == "[5/5] 4,3,1:8 timing: 3 rounds of 2 candidates"
    assert record.provenance["settings"]["OMP_NUM_THREADS"] == "1"
    logs = {path.stem.partition("-")[2]: path.read_text().split() for path in tmp_path.glob("logs/bench/*/*.log")}
    assert logs["timing"] == ["at", "work", "1", "0", "None"]  # the study's allocator, the user's caches
    assert logs["memory-own"][3] == "65536"
    assert logs["memory-own"][4] == logs["first_step-own"][4] != logs["memory-floor"][4]  # filled, and its own


def test_what_fails_is_a_row_with_its_reason_and_the_others_are_timed(measured, monkeypatch):
    monkeypatch.setattr(bench, "SILENT_S", 8.0)
    record, _ = measured("absent", "hungry", "slow", "silent", "dies", "raises", "good")
    timings = {cell.candidate: cell.timing for cell in record.cells}
    assert {name: timing.status for name, timing in timings.items()} == {
        "floor": "ok", "absent": "absent", "hungry": "failed", "slow": "slow", "silent": "ok", "dies": "failed",
        "raises": "oom", "good": "ok",
    }  # fmt: skip
    assert "SIGKILL" in (timings["hungry"].reason or "")
    assert "a step takes 99 s" in (timings["slow"].reason or "")
    assert "Segmentation of everything (exit code 1); log: " in (timings["dies"].reason or "")
    assert Path((timings["dies"].reason or "").partition("log: ")[2]).exists()
    accuracy = {item.candidate: item for item in record.accuracy}
    assert accuracy["silent"].status == "timeout"
    assert "no sign of life for 8 s" in (accuracy["silent"].reason or "")
    assert accuracy["absent"].status == "absent"
    assert accuracy["hungry"].status == "ok"


def test_a_benchmark_that_is_interrupted_keeps_what_it_had(tmp_path, monkeypatch):
    def command(request: Request) -> list[str]:
        if request.task == "accuracy":
            raise KeyboardInterrupt
        return [sys.executable, "-c", STUB, json.dumps(request.__dict__)]

    monkeypatch.setattr(bench, "command", command)
    plan = plan_bench(["4,3,1:8"], ["floor"], rounds=2)
    with pytest.raises(KeyboardInterrupt):
        bench.run(plan, tmp_path, lambda _: None)
    record = read_bench(tmp_path)
    assert record.status == "partial"
    assert record.cells[0].memory.status == "ok"
    assert record.cells[0].timing.status == record.accuracy[0].status == "not measured"


def test_a_folder_in_use_is_refused_before_anything_starts(tmp_path, monkeypatch):
    def command(request: Request) -> list[str]:
        raise AssertionError("started")

    monkeypatch.setattr(bench, "command", command)
    with folder.opened(tmp_path), pytest.raises(folder.FolderError, match="is running a study"):
        bench.run(plan_bench(), tmp_path)
