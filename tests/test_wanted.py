from __future__ import annotations

import dataclasses
from typing import Any

from test_run_spec import make_run
from test_spec import make

from kanstudy.record import Record, Round, blank_record
from kanstudy.wanted import Wanted


def block(launch: int = 0, index: int = 0, **changes: Any) -> Round:
    values: dict[str, Any] = {
        "launch": launch,
        "attempt": 1,
        "index": index,
        "order": 0,
        "active_ranks": [0, 1],
        "rank_step_times_s": [[0.1, 0.2], [0.1, 0.25]],
        "rank_block_times_s": [0.3, 0.35],
        "reference_kernel_s": [0.01, 0.01],
        "foreign_cpu_share": [0.0, None],
        "minor_faults": [0.0, 1.5],
        "started_utc": "2026-01-01T00:00:00+00:00",
    }
    return Round(**(values | changes))


def measured(rounds: int = 2, arms: tuple[str, ...] = ("ddp_noop", "ddp"), launches: int = 1) -> Record:
    point = make(arms=arms)
    record = blank_record(point, make_run(point), "ok")
    for arm in record.arms.values():
        arm.rounds = [block(launch, index) for launch in range(launches) for index in range(rounds)]
    return record


def test_what_is_left_to_measure() -> None:
    record = measured(rounds=3)
    assert Wanted(3, 1).is_complete(record)
    assert not Wanted(4, 1).is_complete(record)
    assert not Wanted(3, 2).is_complete(record)
    assert Wanted(3, 2).is_complete(measured(rounds=3, launches=2))
    for status in ("partial", "failed", "timeout"):
        assert not Wanted(3, 1).is_final(dataclasses.replace(record, status=status))
    for status in ("oom", "nan"):
        assert Wanted(99, 9).is_final(dataclasses.replace(record, status=status))


def test_the_state_says_whether_what_is_wanted_is_there() -> None:
    record = measured(rounds=3)
    assert Wanted(3, 1).state(record) == "ok"
    assert Wanted(4, 1).state(record) == Wanted(3, 2).state(record) == "partial"
    assert Wanted(3, 1).state(dataclasses.replace(record, status="failed")) == "failed"
