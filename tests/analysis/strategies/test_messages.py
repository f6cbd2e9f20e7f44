from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from points import kan_point

from kanstudy.analysis.machine_model.work import layer_bytes
from kanstudy.analysis.strategies.compare import memory_bytes
from kanstudy.analysis.strategies.messages import StepMessages, step_messages, stepped_bytes
from kanstudy.analysis.strategies.strategy import Strategy, held, strategies
from kanstudy.spec import PointSpec

SCRIPT = str(Path(__file__).parent / "strategy_checks.py")
POINTS = [
    kan_point(bucket_cap_mb=0.003),  # two buckets, widths that do not divide: rank 0 has the largest slices
    kan_point(layer_widths=(16, 32, 32, 8), global_batch_size=1000, n_samples=1000),  # much memory
    kan_point(layer_widths=(8, 4, 4), grid_size=3, spline_order=2, sync_buffers=True, dtype="float32"),
]


def sent(point: PointSpec, ranks: int, **strategy: Any) -> StepMessages:
    chosen = Strategy(**strategy)
    return step_messages(held(point, chosen, ranks, point.global_batch_size), chosen)


def sizes(messages: tuple[Any, ...]) -> list[tuple[str, int]]:
    return [(message.collective, message.message_bytes) for message in messages]


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_torch_is_handed_what_is_foretold(
    ranks: int, torchrun: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    """On real ranks every strategy trains as one process does, and sends and keeps exactly what the closed forms say;
    hybrids among them with four ranks."""
    cases, output = tmp_path / "cases.json", tmp_path / "seen.json"
    cases.write_text(json.dumps([asdict(point) for point in POINTS]))
    done = torchrun(SCRIPT, str(cases), str(output), ranks=ranks)
    assert done.returncode == 0, done.stderr
    seen = [json.loads(output.with_suffix(f".{rank}.json").read_text()) for rank in range(ranks)]
    expected = [(point, strategy) for point in POINTS for strategy in strategies(ranks)]
    assert len(expected) == len(seen[0]) == 3 * {2: 6, 4: 9}[ranks]
    for (point, strategy), *of_ranks in zip(expected, *seen, strict=True):
        part = held(point, strategy, ranks, point.global_batch_size)
        foretold = Counter(sizes(step_messages(part, strategy).all))
        tolerance = 1e-12 if point.dtype == "float64" else 1e-4
        for found in of_ranks:
            assert found["moved"] > 1e-2
            assert found["difference"] < tolerance, strategy
        for found in of_ranks[: 1 if strategy.tensor_ranks > 1 and point == POINTS[0] else ranks]:
            assert Counter((collective, size) for collective, size in found["messages"]) == foretold, strategy
        assert max(found["parameter_bytes"] for found in of_ranks) == sum(layer_bytes(part))
        if point == POINTS[1]:  # gloo keeps buffers until its threads are done with them
            assert of_ranks[0]["peak_bytes"] == pytest.approx(memory_bytes(part, strategy), rel=0.25), strategy
        assert max(found["state_bytes"] for found in of_ranks) == 2 * sum(stepped_bytes(part, strategy))  # Adam's two


def test_by_hand() -> None:
    """24 rows of 8 bytes, widths 5-7-6-4, 9 terms an edge: 192 bytes an activation's column, 72 an edge."""
    point = kan_point()
    edges = (5 * 7, 7 * 6, 6 * 4)
    column = sent(point, 2, split="column", tensor_ranks=2)
    assert sizes(column.all) == [
        ("allgather", 192 * 8),  # 7 outputs, in slices of 4
        ("allgather", 192 * 6),
        ("allgather", 192 * 4),
        ("allreduce", 192 * 6),  # gradients of the last layer's inputs come first
        ("allreduce", 192 * 7),
    ]
    row = sent(point, 2, split="row", tensor_ranks=2)
    assert sizes(row.all) == [
        ("allreduce", 192 * 7),
        ("allreduce", 192 * 6),
        ("allreduce", 192 * 4),
        ("allgather", 192 * 6),
        ("allgather", 192 * 8),
    ]
    pairs = sent(point, 2, split="pairs", tensor_ranks=2)  # row, column, row
    assert sizes(pairs.all) == [("allreduce", 192 * 7), ("allreduce", 192 * 4), ("allreduce", 192 * 7)]
    data = sent(point, 2)
    assert sizes(data.all) == [("allreduce", 72 * sum(edges))]
    slices = sent(point, 2, sharding="slices")
    assert sizes(slices.gradients) == [("reduce_scatter", 72 * sum(edges) + 8)]  # 909 numbers and one for two slices
    assert sizes(slices.parameters) == [("allgather", 72 * sum(edges) + 8)]
    assert sizes(sent(point, 2, sharding="tensors").parameters) == [("broadcast", 72 * size) for size in edges]


def test_a_bucket_is_padded_to_equal_slices() -> None:
    point = kan_point(layer_widths=(1, 1), dtype="float32", global_batch_size=4)
    assert sizes(sent(point, 4, sharding="slices").gradients) == [("reduce_scatter", 4 * 12)]  # 9 numbers


def test_one_rank_sends_nothing() -> None:
    assert not sent(kan_point(sync_buffers=True), 1).all


def test_split_replicas_send_the_gradients_of_their_slices() -> None:
    both = sent(kan_point(), 4, split="row", tensor_ranks=2)
    assert sizes(both.gradients) == [("allreduce", 72 * (3 * 7 + 4 * 6 + 3 * 4))]
    assert {message.ranks for message in both.all} == {2}
    assert sizes(both.activations)[0] == ("allreduce", 12 * 8 * 7)  # half the rows


def test_whole_tensors_go_to_the_rank_that_has_least() -> None:
    point = kan_point(layer_widths=(5, 7, 6, 4))
    shares = {}
    for ranks in (2, 3, 4):
        part = held(point, Strategy(sharding="tensors"), ranks, 24)
        shares[ranks] = [size // 72 for size in stepped_bytes(part, Strategy(sharding="tensors"))]
    assert shares == {2: [35, 24], 3: [42], 4: [42]}  # beyond one tensor a rank nothing is saved


WIDTHS = st.lists(st.integers(8, 40), min_size=2, max_size=5).map(tuple)


@given(widths=WIDTHS, ranks=st.sampled_from([2, 4, 8]), rows=st.integers(1, 9))
def test_laws_of_the_volumes(widths: tuple[int, ...], ranks: int, rows: int) -> None:
    point = kan_point(layer_widths=widths, global_batch_size=8 * rows, n_samples=8 * rows)
    twice = kan_point(layer_widths=widths, global_batch_size=16 * rows, n_samples=16 * rows)

    def bytes_sent(of: PointSpec, **strategy: Any) -> float:
        return sum(message.sent_bytes for message in sent(of, ranks, **strategy).all)

    data = bytes_sent(point)
    assert bytes_sent(twice) == data  # gradients know nothing of rows
    assert bytes_sent(point, sharding="tensors") == pytest.approx(1.5 * data)
    padding = 8 * ranks * len(sent(point, ranks).gradients)
    assert data <= bytes_sent(point, sharding="slices") <= data + 2 * padding
    for split in ("column", "row", "pairs"):
        layers = {"split": split, "tensor_ranks": ranks}
        assert bytes_sent(twice, **layers) == pytest.approx(2 * bytes_sent(point, **layers))
