"""What serves each message is told as the model has it."""

from __future__ import annotations

from kanstudy.analysis.network.choices import choices
from kanstudy.analysis.network.network import Link, Network

NCCL = Network(
    inside=Link(latency_s=5.7e-6, bytes_per_s=10e9),
    between=Link(latency_s=14e-6, bytes_per_s=12e9),
    algorithm="nccl",
    name="cluster",
)
LAYOUTS = [(2,), (1, 1), (2, 2), (1, 1, 1, 1), (2, 2, 1)]


def test_choices_of_the_model_have_the_least_time() -> None:
    table = choices(NCCL, [4096, 2**25], LAYOUTS)
    assert list(table["layout"]) == [text for text in ("1x2", "2x1", "2x2", "4x1", "2+2+1") for _ in range(2)]
    assert list(table["world_size"].unique()) == [2, 4, 5]
    assert set(table["source"]) == {"predicted"}
    assert set(table["network"]) == {"cluster"}
    for _, row in table.iterrows():
        places = LAYOUTS[["1x2", "2x1", "2x2", "4x1", "2+2+1"].index(row["layout"])]
        times = {str(one): one.time_s for one in NCCL.nccl_choices(row["message_bytes"], places)}
        assert row["choice"] == min(times, key=times.__getitem__)
        assert row["time_s"] == times[row["choice"]]
    assert table.set_index(["layout", "message_bytes"])["choice"]["4x1", 4096] == "Tree LL"


def test_an_algorithm_without_alternatives_is_its_own_choice() -> None:
    row = choices(Network(algorithm="gloo"), [1024], [(2,)]).iloc[0]
    assert row["choice"] == "gloo"
