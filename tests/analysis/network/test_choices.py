"""What serves each message is told as the model has it, and as NCCL's log has it."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from fabricate import make_record

from kanstudy.analysis.network.choices import BUCKET_CHOICES, CHOICES, bucket_choices, choices, logged
from kanstudy.analysis.network.network import Link, Network
from kanstudy.analysis.tables.view import shown
from kanstudy.record import Record

NCCL = Network(
    inside=Link(latency_s=5.7e-6, bytes_per_s=10e9),
    between=Link(latency_s=14e-6, bytes_per_s=12e9),
    algorithm="nccl",
    name="cluster",
)
LAYOUTS = [(2,), (1, 1), (2, 2), (1, 1, 1, 1), (2, 2, 1)]


def on_two_nodes(buckets: list[int], told: dict[str, dict[str, str]] | None = None) -> Record:
    record = make_record(world_size=2, placement="spread", rounds=1)
    record.arms["ddp"].bucket_bytes = record.arms["ddp_noop"].bucket_bytes = buckets
    record.provenance = {"conditions": {"hosts": ["a", "b"]}}
    if told is not None:
        record.provenance["preflight"] = {"nccl_algorithms_of_groups": told}
    return record


def test_choices_of_the_model_have_the_least_time_and_what_comes_second():
    table = choices(NCCL, [4096, 2**25], LAYOUTS)
    assert list(table["layout"]) == [text for text in ("1x2", "2x1", "2x2", "4x1", "2+2+1") for _ in range(2)]
    assert list(table["world_size"].unique()) == [2, 4, 5]
    assert set(table["source"]) == {"predicted"}
    assert set(table["network"]) == {"cluster"}
    for _, row in table.iterrows():
        places = LAYOUTS[["1x2", "2x1", "2x2", "4x1", "2+2+1"].index(row["layout"])]
        times = {str(one): one.time_s for one in NCCL.nccl_choices(row["message_bytes"], places)}
        first, second = sorted(times, key=times.get)[:2]
        assert (row["choice"], row["next_choice"]) == (first, second)
        assert (row["time_s"], row["next_time_s"]) == (times[first], times[second])
    assert table.set_index(["layout", "message_bytes"])["choice"]["4x1", 4096] == "Tree LL"
    assert "choice, model" in shown(table, CHOICES)


def test_an_algorithm_without_alternatives_has_no_second():
    row = choices(Network(algorithm="gloo"), [1024], [(2,)]).iloc[0]
    assert (row["choice"], row["next_choice"], math.isnan(row["next_time_s"])) == ("gloo", "", True)


def test_buckets_of_points_stand_beside_what_nccl_told():
    told = {"2x1": {"4096": "Ring LL", "1048576": "Ring LL", "67108864": "Ring Simple"}, "1x2": {"4096": "Tree LL"}}
    record = on_two_nodes([2**20, 5000, 5000, 2**25, 2**28], told)
    table = bucket_choices([make_record(world_size=1, rounds=1), record], NCCL)
    assert list(table.columns) == list(BUCKET_CHOICES)
    assert list(table["message_bytes"]) == [2**20, 5000, 2**25, 2**28]
    assert list(table["buckets"]) == [1, 2, 1, 1]
    assert list(table["logged"]) == ["Ring LL", "Ring LL", "Ring LL or Ring Simple", ""]
    assert list(table["choice"]) == ["Ring Simple", "Ring LL", "Ring Simple", "Ring Simple"]
    assert list(table["agrees"]) == [False, True, True, None]
    assert set(table["source"]) == {"measured"}
    assert set(table["layout"]) == {"2x1"}
    assert table["time_s"].iloc[0] == NCCL.allreduce_s(2**20, (1, 1))


@pytest.mark.parametrize("told", [None, {}, {"1x2": {"4096": "Tree LL"}}])
def test_where_nccl_told_nothing_nothing_is_logged(told):
    record = on_two_nodes([4096], told)
    assert logged(record, 4096) == ""
    assert bucket_choices([record], NCCL)["agrees"].isna().all()


def test_records_of_a_cpu_have_no_log():
    record = make_record(world_size=2, rounds=1)
    table = bucket_choices([record], Network(algorithm="gloo"))
    assert list(table["choice"]) == ["gloo"]
    assert isinstance(table, pd.DataFrame)
    assert np.isnan(table["next_time_s"].iloc[0])
