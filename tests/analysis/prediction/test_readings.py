from __future__ import annotations

from fabricate import make_record

from kanstudy.analysis.prediction.readings import read


def test_a_launch_without_an_undisturbed_round_still_counts() -> None:
    record = make_record(rounds=4, launches=2)
    for item in (one for arm in record.arms.values() for one in arm.rounds if one.launch == 1):
        item.foreign_cpu_share = [0.9] * len(item.active_ranks)
    found = read(record)
    assert found.log_times.shape[0] == 2
    assert found.rounds == 8
