from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from points import kan_point

from kanstudy.analysis.machine_model.work import activation_bytes_per_sample, flops_per_sample, layer_bytes
from kanstudy.analysis.strategies.strategy import SPLITS, Strategy, held, obstacle, strategies


def test_pairs_end_with_a_layer_split_by_input() -> None:
    pairs = Strategy(split="pairs", tensor_ranks=2)
    assert pairs.splits(1) == ("row",)
    assert pairs.splits(4) == ("column", "row", "column", "row")
    assert pairs.splits(3) == ("row", "column", "row")


def test_hybrids_are_named_so() -> None:
    row = Strategy(split="row", tensor_ranks=4)
    assert row.name(4) == "split by input (row)"
    assert row.name(8) == "data x split by input (row)"
    assert Strategy().name(8) == "data parallel"


def test_every_divisor_is_tried() -> None:
    assert strategies(1) == [Strategy()]
    tried = [(one.split, one.tensor_ranks) for one in strategies(6) if one.split != "none"]
    assert tried == [(split, ranks) for split in SPLITS[1:] for ranks in (6, 3, 2)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"split": "diagonal", "tensor_ranks": 2}, "split = 'diagonal'"),
        ({"sharding": "bytes"}, "sharding = 'bytes'"),
        ({"split": "row", "tensor_ranks": 2, "sharding": "slices"}, "sharding = 'slices'"),
        ({"tensor_ranks": 2}, "tensor_ranks = 2: must be 1"),
        ({"split": "row"}, "tensor_ranks = 1: must be a whole number >= 2"),
        ({"split": "row", "tensor_ranks": 2.0}, "tensor_ranks = 2.0"),
    ],
)
def test_a_bad_strategy_is_refused(values: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Strategy(**values)


@pytest.mark.parametrize(
    ("strategy", "ranks", "rows", "reason"),
    [
        (Strategy(split="column", tensor_ranks=4), 4, 24, ""),
        (Strategy(split="column", tensor_ranks=5), 5, 24, "fewer outputs than ranks: layer 3 has 4 for 5"),
        (Strategy(split="row", tensor_ranks=6), 6, 24, "fewer inputs than ranks: layer 1 has 5 for 6"),
        (Strategy(split="row", tensor_ranks=2), 10, 24, "24 rows cannot be shared evenly by 5 replicas"),
        (Strategy(), 25, 24, "24 rows cannot be shared evenly by 25 replicas"),
        (Strategy(split="row", tensor_ranks=4), 6, 24, "6 ranks are no whole number of groups of 4"),
    ],
)
def test_where_a_strategy_ends(strategy: Strategy, ranks: int, rows: int, reason: str) -> None:
    assert obstacle(kan_point(), strategy, ranks, rows) == reason


@given(
    widths=st.lists(st.integers(8, 64), min_size=2, max_size=5).map(tuple),
    split=st.sampled_from(SPLITS[1:]),
    ranks=st.sampled_from([2, 4, 8]),
)
def test_slices_together_are_the_model(widths: tuple[int, ...], split: str, ranks: int) -> None:
    """The largest slice has at least its share of the weights, and exactly that where widths divide. Only what is split
    by its inputs shares the expansion of the inputs."""
    widths = tuple(8 * width for width in widths)
    point = kan_point(layer_widths=widths)
    strategy = Strategy(split=split, tensor_ranks=ranks)
    part = held(point, strategy, ranks, 24)
    assert sum(layer_bytes(part)) * ranks == sum(layer_bytes(point))
    assert flops_per_sample(part) * ranks == flops_per_sample(point)
    expanded = activation_bytes_per_sample(part) / activation_bytes_per_sample(point)
    if split == "pairs":
        assert 1 / ranks <= expanded < 1
    else:
        assert expanded == {"row": 1 / ranks, "column": 1}[split]
    uneven = held(kan_point(layer_widths=tuple(width + 1 for width in widths)), strategy, ranks, 24)
    assert sum(layer_bytes(uneven)) * ranks > sum(layer_bytes(point))


def test_what_a_rank_holds() -> None:
    part = held(kan_point(), Strategy(split="pairs", tensor_ranks=2), 8, 24)
    assert part.layer_shapes == ((3, 7), (7, 3), (3, 4))
    assert (part.world_size, part.local_batch_size) == (4, 6)
