"""Whole launches on two real ranks."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny import tiny_point

from kanstudy.record import Record
from kanstudy.record_files import read_record, record_path, write_record
from kanstudy.spec import ARMS, PointSpec
from kanstudy.wanted import Wanted
from kanstudy.worker.ddp_counters import KEYS

Torchrun = Callable[..., subprocess.CompletedProcess[str]]
WORKER = ("-m", "kanstudy.worker")


def read(tmp_path: Path, point: PointSpec) -> Record:
    return read_record(record_path(tmp_path / "results", point.experiment, point.point_id))


def events(tmp_path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]


def test_a_launch_measures_every_world_size_and_a_second_one_goes_on(
    torchrun: Torchrun, plan: Callable[..., Path], tmp_path: Path
) -> None:
    pair = tiny_point(allreduce_bytes=(64, 4096))
    alone = tiny_point(world_size=1, arms=("serial_global", "ddp_noop", "ddp"))
    done = torchrun(*WORKER, str(plan(pair, alone, rounds=2)))
    assert done.returncode == 0, done.stderr[-3000:]

    record = read(tmp_path, pair)
    assert record.status == "ok"
    assert Wanted(2, 1).is_complete(record)
    assert set(record.arms) == set(ARMS)
    assert [r.active_ranks for r in record.arms["serial_global"].rounds] == [[0], [1]]
    for arm in ("serial_local", "concurrent", "ddp_noop", "ddp"):
        assert [r.active_ranks for r in record.arms[arm].rounds] == [[0, 1], [0, 1]]
    for measured in record.arms.values():
        for r in measured.rounds:
            for times, block in zip(r.rank_step_times_s, r.rank_block_times_s, strict=True):
                assert min(times) > 0
                assert np.isclose(sum(times), block, rtol=1e-3)
        assert len(measured.forward_s[0]) == len(measured.backward_s[0]) == len(measured.optimizer_s[0]) == 2
    # 3-4-2 with nine terms an edge, four bytes each; the moments of Adam and the gradients are as large
    assert record.n_params == (3 * 4 + 4 * 2) * 9
    assert record.gradient_bytes == 4 * record.n_params
    for arm, measured in record.arms.items():
        batch_bytes = 4 * (3 + 2) * (32 if arm == "serial_global" else 16)
        assert min(measured.peak_memory_bytes) > 4 * record.gradient_bytes + batch_bytes
    assert sum(record.arms["ddp_noop"].bucket_bytes) == record.gradient_bytes
    assert len(record.arms["ddp_noop"].bucket_ready_s[0]) == 2
    silent = record.arms["ddp_noop"]
    for step, backward_s in zip(silent.bucket_ready_s[0], silent.backward_s[0], strict=True):
        assert 0 < step[-1] <= backward_s
    counters = record.provenance["ddp_counters"]
    assert set(counters) == set(KEYS)
    for communication, overlap in zip(*(np.array(counters[name]) for name in KEYS), strict=True):
        assert communication.shape == (2,)
        assert (communication > 0).all()
        assert (overlap <= communication).all()
    assert [item.message_bytes for item in record.allreduce] == [64, 4096]
    assert record.device_name
    assert record.nodes == 1
    assert record.loss_last < record.loss_first
    assert record.train_steps == 5
    assert record.holdout_loss > 0
    assert read(tmp_path, alone).loss_last == pytest.approx(record.loss_last, rel=1e-5)  # float32
    told = events(tmp_path)
    assert told[0]["event"] == "started"
    assert told[-1]["event"] == "finished"
    assert {event["point_id"] for event in told if event["event"] == "point"} == {pair.point_id, alone.point_id}
    assert all(event["done"] < event["total"] for event in told if event["event"] == "block")

    # one point has all it needs, the other lacks a round: nothing complete is measured again
    untouched = record_path(tmp_path / "results", alone.experiment, alone.point_id).read_bytes()
    first_rounds = record.arms["ddp"].rounds
    done = torchrun(*WORKER, str(plan(pair, rounds=3)))
    assert done.returncode == 0, done.stderr[-3000:]
    again = read(tmp_path, pair)
    assert again.attempt == 2
    assert [r.index for r in again.arms["ddp"].rounds] == [0, 1, 2]
    assert again.arms["ddp"].rounds[:2] == first_rounds
    assert again.allreduce == record.allreduce
    assert record_path(tmp_path / "results", alone.experiment, alone.point_id).read_bytes() == untouched


def test_other_conditions_start_anew_and_a_second_launch_is_kept_apart(
    torchrun: Torchrun, plan: Callable[..., Path], tmp_path: Path
) -> None:
    point = tiny_point(arms=("ddp_noop", "ddp"), train_steps=0, phase_steps=0)
    assert torchrun(*WORKER, str(plan(point, rounds=2, launches=2))).returncode == 0
    first = read(tmp_path, point)
    assert first.status == "partial", "one of two launches is there"
    first.conditions = "otherwise"
    write_record(first, tmp_path / "results")

    assert torchrun(*WORKER, str(plan(point, rounds=1, launch=0, launches=2))).returncode == 0
    anew = read(tmp_path, point)
    assert [(r.launch, r.index) for r in anew.arms["ddp"].rounds] == [(0, 0)]
    assert anew.conditions != "otherwise"
    (aside,) = (tmp_path / "results" / point.experiment / "aside").iterdir()
    assert len(json.loads(aside.read_text())["arms"]["ddp"]["rounds"]) == 2

    assert torchrun(*WORKER, str(plan(point, rounds=1, launch=1, launches=2))).returncode == 0
    both = read(tmp_path, point)
    assert [(r.launch, r.index) for r in both.arms["ddp"].rounds] == [(0, 0), (1, 0)]
    assert both.status == "ok"


def test_a_loss_that_is_not_finite_ends_its_point_alone(
    torchrun: Torchrun, plan: Callable[..., Path], tmp_path: Path
) -> None:
    bad = tiny_point(optimizer="sgd", learning_rate=1e30, train_steps=0)
    trained_bad = tiny_point(optimizer="sgd", learning_rate=1e29, arms=("ddp",), train_steps=8)
    good = tiny_point(arms=("ddp",), train_steps=0)
    done = torchrun(*WORKER, str(plan(bad, trained_bad, good, rounds=1)))
    assert done.returncode == 0, done.stderr[-3000:]
    for point in (bad, trained_bad):
        record = read(tmp_path, point)
        assert record.status == "nan"
        assert record.error is not None
        assert record.error.step is not None
        assert 0 < record.error.step <= 10
        assert Wanted(1, 1).is_final(record)
    assert read(tmp_path, good).status == "ok"
    assert ("point", "nan") in {(event["event"], event.get("status")) for event in events(tmp_path)}


def test_no_round_begins_after_the_deadline(torchrun: Torchrun, plan: Callable[..., Path], tmp_path: Path) -> None:
    point = tiny_point()
    done = torchrun(*WORKER, str(plan(point, rounds=1, deadline_unix_s=1.0)))
    assert done.returncode == 0, done.stderr[-3000:]
    assert not record_path(tmp_path / "results", point.experiment, point.point_id).exists()


def test_a_damaged_record_is_kept_aside(torchrun: Torchrun, plan: Callable[..., Path], tmp_path: Path) -> None:
    point = tiny_point(world_size=1, arms=("ddp",), train_steps=0, phase_steps=0)
    path = record_path(tmp_path / "results", point.experiment, point.point_id)
    path.parent.mkdir(parents=True)
    path.write_text('{"schema_version": 1')
    done = torchrun(*WORKER, str(plan(point, rounds=1)), ranks=1)
    assert done.returncode == 0, done.stderr[-3000:]
    assert read(tmp_path, point).status == "ok"
    (aside,) = (path.parent / "aside").iterdir()
    assert aside.read_text() == '{"schema_version": 1'


def test_a_bad_plan_and_a_launch_that_is_too_small_say_so(
    torchrun: Torchrun, plan: Callable[..., Path], tmp_path: Path
) -> None:
    path = plan(tiny_point())
    small = torchrun(*WORKER, str(path), ranks=1)
    assert small.returncode != 0
    assert "the plan needs 2 ranks, the launch has 1" in small.stderr
    path.write_text(path.read_text().replace('"profile"', '"profil"'))
    bad = torchrun(*WORKER, str(path), ranks=1)
    assert bad.returncode != 0
    assert "unknown field 'profil'" in bad.stderr


def test_a_point_without_memory_ends_alone_and_says_where(
    torchrun: Torchrun, plan: Callable[..., Path], tmp_path: Path
) -> None:
    pair = tiny_point(train_steps=0)
    alone = tiny_point(world_size=1, arms=("ddp",), train_steps=0)
    script = str(Path(__file__).parent / "no_memory.py")
    huge = tiny_point(layer_widths=(3, 10**10, 2), train_steps=0)
    done = torchrun(script, "concurrent", str(plan(huge, pair, alone, rounds=1)))
    assert done.returncode == 0, done.stderr[-3000:]
    record = read(tmp_path, pair)
    assert record.status == "oom"
    assert record.error is not None
    assert (record.error.rank, record.error.arm) == (1, "concurrent")
    assert record.arms["concurrent"].status == "oom"
    assert record.arms["ddp"].status == "ok"
    assert "9 TiB" in record.error.reason
    assert read(tmp_path, huge).status == "oom"
    assert read(tmp_path, alone).status == "ok"


def test_a_deadline_in_mid_run_leaves_complete_rounds(
    torchrun: Torchrun, plan: Callable[..., Path], tmp_path: Path
) -> None:
    point = tiny_point(train_steps=0, phase_steps=0)
    late = str(Path(__file__).parent / "late_clock.py")
    done = torchrun(late, str(plan(point, rounds=100, deadline_unix_s=time.time() + 3600)))
    assert done.returncode == 0, done.stderr[-3000:]
    record = read(tmp_path, point)  # which refuses arms with different rounds
    assert record.status == "partial"
    assert record.rounds_of_launch(0) == 3, "the round in which it is time is brought to its end"
    assert events(tmp_path)[-1]["event"] != "finished"
