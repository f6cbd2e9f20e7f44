from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pytest
from fabricate import make_record

from kanstudy.analysis import estimates, published
from kanstudy.analysis.complementarity import complementarity

PAIR = {"experiment": "communication_overhead", "arms": ("ddp_noop", "ddp")}


def compare(strong: list, overhead: Sequence = (), models: Sequence = ()) -> pd.DataFrame:
    frame = published.compare(
        estimates.strong(strong), estimates.weak([]), estimates.overhead(overhead), estimates.model_size(models)
    )
    return frame.set_index("quantity")


def test_the_published_numbers_are_those_of_the_abstract() -> None:
    assert published.SPEEDUP.low == 5.97
    assert published.EFFICIENCY.low == 0.747
    assert published.SPEEDUP.low / published.WORLD_SIZE == pytest.approx(published.EFFICIENCY.low, abs=1e-3)
    assert (published.OVERHEAD.low, published.OVERHEAD.high) == (0.013, 0.061)
    assert "2609.07740v1" in published.REFERENCE


def test_another_machine_is_not_comparable_and_says_why() -> None:
    frame = compare([make_record()])
    row = frame.loc["parallel efficiency at 8 GPUs"]
    assert row["comparable"] == "no"
    for part in ("not comparable, because", "test CPU", "2 rank(s)", "not stated there"):
        assert part in row["why"]
    assert "at 2 ranks" in row["ours"]
    assert row["point_ids"] == make_record().point_id


@pytest.mark.parametrize(
    ("movement", "word"), [(0.93, "not in a region consistent"), (0.963, "in a region consistent")]
)
def test_the_same_machine_and_scale_is_comparable_in_part(movement: float, word: str) -> None:
    truth = {"batch": 1.0, "data_movement": movement}
    record = make_record(world_size=8, truth=truth, noise=0.02, device_name="NVIDIA A100-SXM4-40GB")
    row = compare([record]).loc["speed-up at 8 GPUs"]
    assert row["comparable"] == "in part"
    assert row["why"].removeprefix("comparable in part: ").startswith(word)


def test_a_simulation_or_a_disturbed_point_is_not_comparable() -> None:
    a100 = {"world_size": 8, "device_name": "A100"}
    assert "ours is simulated" in compare([make_record(**a100, source="simulated")])["why"].iloc[0]
    disturbed = make_record(**a100, foreign=dict.fromkeys(range(6), 0.5))
    assert "disturbed" in compare([disturbed])["why"].iloc[0]


def test_what_we_did_not_measure_is_a_row_too() -> None:
    frame = compare([])
    assert len(frame) == 7
    assert (frame["ours"] == "not measured").all()


def test_directions_over_model_size_and_settings_of_communication() -> None:
    models = [
        make_record(experiment="model_size_scaling", layer_widths=(8, width, 1), t1=0.001 * width) for width in (8, 64)
    ]
    frame = compare([], [make_record(**PAIR, bucket_cap_mb=1)], models)
    assert (
        "8.0 times the parameters, 8.00 times the time of a step" in frame.loc["training time over model size", "ours"]
    )
    assert "bucket cap 1 MiB, buffers not synchronised" in frame.loc["communication overhead", "ours"]


def test_sizes_of_another_data_set_or_batch_are_another_sweep() -> None:
    size = {"experiment": "model_size_scaling"}
    widths = [make_record(**size, layer_widths=(8, width, 1), t1=0.001 * width) for width in (8, 64)]
    others = [
        make_record(**size, layer_widths=(8, 512, 1), dataset="flights"),
        make_record(**size, layer_widths=(8, 512, 1), global_batch_size=4096),
    ]
    rows = compare([], models=[*widths, *others]).loc[["training time over model size"]]
    assert rows["ours"].tolist() == ["KAN synthetic:32:1: 8.0 times the parameters, 8.00 times the time of a step"]
    assert (compare([], models=others)["ours"] == "not measured").all()


def test_no_verdict_is_ever_given() -> None:
    text = compare([make_record(world_size=p) for p in (1, 2, 8)]).to_string().lower()
    assert "reproduce" not in text
    assert "refute" not in text


def test_the_claim_on_operators_and_ranks_stands_beside_ours() -> None:
    common = {"experiment": "operator_scaling", "arms": ("serial_global", "ddp_noop", "ddp"), "rounds": 13}
    records = [
        make_record(operator=name, world_size=size, noise=0.01, noise_seed=seed, truth=truth, **common)
        for size in (2, 4)
        for seed, (name, truth) in enumerate((("reference", {}), ("fused", {"data_movement": 0.5})))
    ]
    empty = estimates.strong([])
    frame = published.compare(
        empty, estimates.weak([]), estimates.overhead([]), estimates.model_size([]), complementarity(records)
    )
    row = frame.set_index("quantity").loc["operators and ranks"]
    assert row["ours"].startswith("sub-multiplicative: fused in place of reference and 4 ranks, interaction 0.5")
    assert row["comparable"] == "no"
    assert row["point_ids"] == f"{records[2].point_id} {records[3].point_id}"
