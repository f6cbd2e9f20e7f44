from __future__ import annotations

from typing import Any

import pytest

from kanstudy.spec import ARMS, PointSpec, SpecError


def make(**changes: Any) -> PointSpec:
    values: dict[str, Any] = {
        "experiment": "strong_scaling",
        "scaling": "strong",
        "world_size": 2,
        "global_batch_size": 64,
        "dataset": "synthetic:4:1",
        "n_samples": 128,
        "layer_widths": (4, 8, 1),
        "arms": ARMS,
    }
    return PointSpec(**(values | changes))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("scaling", "sideways", "one of strong, weak"),
        ("world_size", 0, "whole number >= 1"),
        ("world_size", True, "whole number >= 1"),
        ("world_size", 2.0, "whole number >= 1"),
        ("global_batch_size", 63, "divisible by the world size 2, such as 64, or"),
        ("n_samples", 63, r"at least one global batch \(64 rows\)"),
        ("layer_widths", (4,), "at least two"),
        ("layer_widths", (4, 0, 1), "at least two whole numbers"),
        ("arms", (), "at least one"),
        ("arms", ("ddp", "ddp"), "distinct"),
        ("arms", ("fsdp",), "one of serial_global"),
        ("model", "transformer", "one of kan, mlp"),
        ("grid_size", None, "whole number >= 1"),
        ("spline_order", 6, "0 to 5"),
        ("optimizer", "lion", "one of adam, sgd"),
        ("dtype", "bfloat16", "one of float32, float64"),
        ("learning_rate", float("nan"), "a number > 0"),
        ("bucket_cap_mb", 0, "a number > 0"),
        ("block_s", -1.0, "a number > 0"),
        ("warmup_s", float("inf"), "a number >= 0"),
        ("allreduce_bytes", (0,), "whole numbers >= 1"),
        ("experiment", "strong scaling", "letters, digits"),
        ("seed", -1, "a whole number from 0 to"),
        ("seed", 2**63, "a whole number from 0 to"),
        ("block_s", 1e300, "at most 3600 s"),
        ("operator", "fast", "one of auto, reference"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(field: str, value: object, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        make(**{field: value})
    assert str(caught.value).startswith(f"{field} = ")


def test_an_mlp_has_no_grid() -> None:
    with pytest.raises(SpecError, match="grid_size = 5: must be absent for an MLP"):
        make(model="mlp", spline_order=None, operator=None)


def test_the_id_is_readable_and_depends_on_all_that_is_measured() -> None:
    point = make()
    assert point.point_id.startswith("strong_w2_b64-")
    others = [make(grid_size=6), make(arms=("ddp",)), make(seed=1), make(block_s=2.0), make(bucket_cap_mb=1.0)]
    assert len({point.point_id, *(other.point_id for other in others)}) == 6
    assert make(bucket_cap_mb=25).point_id == make(bucket_cap_mb=25.0).point_id
    assert make(layer_widths=[4, 8, 1]).point_id == point.point_id


def test_the_id_is_the_same_tomorrow() -> None:
    """A changed id would orphan every record that was ever measured: change it only on purpose."""
    assert make(operator="reference").point_id == "strong_w2_b64-fd51462c"


def test_blocks_of_a_round() -> None:
    assert make(world_size=4).blocks_per_round == 8
    assert make(arms=("ddp_noop", "ddp")).blocks_per_round == 2
    assert make(world_size=4).local_batch_size == 16


def test_a_point_without_a_link_keeps_its_name_and_one_with_it_has_another():
    names = {make(link=link).point_id for link in ("", "100mbit:1ms", "100mbit:2ms", "200mbit:1ms")}
    assert len(names) == 4
    assert make(link="100.0mbit:1.0ms") == make(link="100mbit:1ms")
    assert make().point_id == "strong_w2_b64-be6a9f36"  # as before there were links


@pytest.mark.parametrize("link", ["fast", "100mbit", 7, None])
def test_a_link_that_is_none_is_refused_by_name(link):
    with pytest.raises(SpecError, match=f"link = {link!r}: must be "):
        make(link=link)


@pytest.mark.parametrize(("scaling", "batches"), [("strong", [64, 64, 64]), ("weak", [32, 128, 32 * 512])])
def test_on_other_ranks_a_curve_keeps_the_global_batch_or_the_local_one(scaling: str, batches: list[int]) -> None:
    point = make(scaling=scaling, arms=("ddp",))
    assert [point.global_batch_at(p) for p in (1, 4, 512)] == batches
    there = point.at(4, "spread")
    assert there == make(
        scaling=scaling, arms=("ddp",), world_size=4, placement="spread", global_batch_size=batches[1], n_samples=128
    )
    assert there.at(2, "packed") == point


def test_another_batch_has_rows_enough_and_must_be_a_point() -> None:
    assert make().with_batch(1000, seed=3) == make(global_batch_size=1000, n_samples=1000, seed=3)
    with pytest.raises(SpecError, match="global_batch_size = 63: must be divisible by the world size 2"):
        make().with_batch(63)
