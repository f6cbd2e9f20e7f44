from __future__ import annotations

import pandas as pd
import pytest
from fabricate import make_record

from kanstudy.analysis import estimates
from kanstudy.analysis.attribution.decomposition import attribution
from kanstudy.analysis.guidelines.losses import compression, least_local_batch


def slices(*batch_factors: float, **changes: object) -> list:
    """Strong scaling of 2048 rows at 2, 4, 8 ... ranks with these true batch factors."""
    return [
        make_record(world_size=2 ** (i + 1), truth={"batch": value}, **({"noise": 0.003} | changes))
        for i, value in enumerate(batch_factors)
    ]


def least(records: list) -> dict:
    (found,) = least_local_batch(attribution(records), estimates.strong(records))
    return found


def test_the_local_batch_to_stay_above_is_the_first_that_loses_a_tenth() -> None:
    records = slices(0.99, 0.95, 0.8, 0.6)
    found = least(records)
    assert found["told"]
    assert "stay above 256 rows a rank (batch factor 0.95" in found["sentence"]
    assert " at 512, 0.80" in found["sentence"]
    assert found["point_ids"] == f"{records[1].point_id} {records[2].point_id}"


def test_where_no_slice_loses_a_tenth_the_smallest_measured_is_named() -> None:
    found = least(slices(0.99, 0.95))
    assert found["told"]
    assert "down to 512 rows a rank at most a tenth is lost to the batch (batch factor 0.95" in found["sentence"]


def test_where_already_the_largest_slice_loses_a_tenth_it_is_that() -> None:
    found = least(slices(0.8, 0.7))
    assert found["told"]
    assert "stay above 1024 rows a rank (batch factor 0.80" in found["sentence"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"noise": 0.05}, "interval includes 0.9"),
        ({"rounds": 3}, "too few"),
        ({"foreign": dict.fromkeys(range(5), 0.5)}, "untrusted"),
    ],
)
def test_what_the_data_do_not_carry_is_not_told(changes: dict, why: str) -> None:
    found = least(slices(0.9, **changes))
    assert not found["told"]
    assert "the local batch to stay above cannot be told" in found["sentence"]
    assert why in found["sentence"]


def test_a_gap_of_uncertain_slices_is_not_jumped_over() -> None:
    """The slice at 512 rows is uncertain: it neither keeps nor loses a tenth."""
    records = [*slices(0.97), *slices(0.97, 0.9, noise=0.05)[1:], *slices(0.97, 0.9, 0.7)[2:]]
    found = least(records)
    assert "stay above 256 rows a rank" in found["sentence"]
    assert " at 1024, 0.7" in found["sentence"]


def test_nothing_gives_nothing() -> None:
    assert not list(least_local_batch(attribution([]), estimates.strong([])))
    assert not list(least_local_batch(attribution(slices(0.8)), pd.DataFrame()))
    assert not list(compression(attribution([])))


def test_compression_saves_at_most_the_data_movement_of_the_largest_size() -> None:
    records = [make_record(world_size=p, truth={"data_movement": f}, noise=0.003) for p, f in ((2, 0.9), (4, 0.7))]
    (found,) = compression(attribution(records))
    assert found["told"]
    assert "4 ranks: what gradient compression could save is at most the data movement, 3" in found["sentence"]
    assert found["point_ids"] == records[1].point_id
    share = float(found["sentence"].split("movement, ")[1].split(" ")[0])
    assert share == pytest.approx(30, abs=1.5)


def test_where_nothing_is_exposed_compression_is_not_recommended() -> None:
    (found,) = compression(attribution([make_record(truth={"data_movement": 1.0}, noise=0.02, noise_seed=1)]))
    assert not found["told"]
    assert "cannot be told: data movement may be nothing" in found["sentence"]
    (few,) = compression(attribution([make_record(rounds=3)]))
    assert "too few" in few["sentence"]
