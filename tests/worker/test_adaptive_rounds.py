"""Adaptive rounds, measured by two real ranks."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tiny import tiny_point

from kanstudy.record import Record
from kanstudy.record_files import read_record, record_path
from kanstudy.spec import PointSpec
from kanstudy.stopping import NARROW, TIME, decision, half_width, log_ratios
from kanstudy.wanted import Wanted

Torchrun = Callable[..., subprocess.CompletedProcess[str]]
WORKER = ("-m", "kanstudy.worker")


def test_a_point_that_is_narrow_enough_leaves_the_others_to_go_on(
    torchrun: Torchrun, plan: Callable[..., Path], tmp_path: Path
) -> None:
    changes = {"arms": ("ddp_noop", "ddp"), "train_steps": 0, "phase_steps": 0, "block_s": 0.001}
    wide, never, fixed = (tiny_point(**changes, bucket_cap_mb=cap) for cap in (1.0, 2.0, 3.0))

    def read(point: PointSpec) -> Record:
        return read_record(record_path(tmp_path / "results", point.experiment, point.point_id))

    targets = {wide.point_id: 100.0, never.point_id: 1e-9}
    most = {wide.point_id: 100, never.point_id: 22, fixed.point_id: 20}
    path = plan(wide, never, fixed, rounds=most, target_width=targets)
    done = torchrun(*WORKER, str(path))
    assert done.returncode == 0, done.stderr[-3000:]
    records = [read(point) for point in (wide, never, fixed)]
    assert [record.rounds_of_launch(0) for record in records] == [20, 22, 20]
    assert [record.status for record in records] == ["ok"] * 3
    assert [decision(record, 0)["why"] for record in records] == [NARROW, "the most rounds", ""]
    assert decision(records[0], 0)["half_width"] > 0
    assert Wanted(100, 1, 100.0).is_complete(records[0])
    told = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert [event["status"] for event in told if event["event"] == "point"] == ["ok"] * 3
    blocks = [event for event in told if event["event"] == "block"]
    assert blocks[-1]["done"] + 1 == blocks[-1]["total"], "blocks that were not needed are no longer counted"

    # a narrower target goes on from what is there; rounds of a fixed plan are looked at before more are measured
    half = half_width(log_ratios(records[0], 0))
    assert not Wanted(100, 1, 100.0).is_complete(records[2])
    targets = {wide.point_id: half / 100, fixed.point_id: 100.0}
    path = plan(wide, fixed, rounds={wide.point_id: 30, fixed.point_id: 100}, target_width=targets)
    assert torchrun(*WORKER, str(path)).returncode == 0
    assert [read(point).rounds_of_launch(0) for point in (wide, fixed)] == [30, 20]
    assert [decision(read(point), 0)["why"] for point in (wide, fixed)] == ["the most rounds", NARROW]
    assert Wanted(100, 1, 100.0).is_complete(read(fixed))
    assert [read(point).status for point in (wide, fixed)] == ["ok", "ok"]


def test_the_time_that_is_spent_is_said(torchrun: Torchrun, plan: Callable[..., Path], tmp_path: Path) -> None:
    point = tiny_point(arms=("ddp_noop", "ddp"), train_steps=0, phase_steps=0, block_s=0.001)
    options = {"rounds": 100, "target_width": {point.point_id: 1e-9}}
    late = str(Path(__file__).parent / "late_clock.py")
    done = torchrun(late, str(plan(point, **options, deadline_unix_s=time.time() + 3600)))
    assert done.returncode == 0, done.stderr[-3000:]
    record = read_record(record_path(tmp_path / "results", point.experiment, point.point_id))
    found = decision(record, 0)
    assert (found["why"], found["rounds"], record.status) == (TIME, 3, "partial")
    assert not Wanted(100_000, 1, 1e-9).is_final(record), "a later run goes on"
