from __future__ import annotations

import pandas as pd
import pytest

from kanstudy.analysis.prediction.costs import Limits, Prices, best, knee, sentence, with_costs

PRICES = Prices(power_w=250.0, price_per_hour=2.0, currency="EUR")


def predictions(scaling: str = "strong") -> pd.DataFrame:
    """Steps of 8, 2 and 1 s on 8, 64 and 512 ranks, ±10 %."""
    frame = pd.DataFrame({"world_size": [8, 64, 512], "step_time_s": [8.0, 2.0, 1.0], "parallel_efficiency": 0.5})
    for name in ("step_time_s", "parallel_efficiency"):
        frame[f"{name}_low"], frame[f"{name}_high"] = 0.9 * frame[name], 1.1 * frame[name]
    common = {"scaling": scaling, "model": "kan", "layer_widths": "32-64-1", "grid_size": 5, "placement": "packed"}
    common |= {
        "nodes": 4,
        "local_batch_size": 256,
        "global_batch_size": 2048,
        "fits": None,
        "device_name": "A100",
        "calibration_source": "simulated",
    }
    return frame.assign(**common, holds="scenario range (of assumed links)", network="fabric (assumed)")


def test_hours_energy_and_cost_follow_from_the_step() -> None:
    found = with_costs(predictions(), 3600, PRICES)
    assert list(found["training_hours"]) == [8, 2, 1]
    assert list(found["device_hours"]) == [64, 128, 512]
    assert list(found["energy_kwh"]) == [16, 32, 128]
    assert list(found["cost"]) == [128, 256, 1024]
    assert found["cost_high"].iloc[0] == pytest.approx(1.1 * 128)


def test_what_is_not_stated_is_not_told() -> None:
    found = with_costs(predictions(), 3600, Prices())
    assert found[["energy_kwh", "cost"]].isna().all().all()
    words = sentence(found.iloc[0], 3600, "GPU", Prices())
    assert "kWh" not in words
    assert "EUR" not in words
    assert "64 [57.6, 70.4] GPU-hours" in words


@pytest.mark.parametrize(
    ("limits", "size"),
    [
        (Limits(device_hours=150), 64),  # the fastest that the budget pays
        (Limits(device_hours=130), 8),  # 64 ranks may cost 140.8
        (Limits(cost=2000), 512),
        (Limits(hours=3), 64),  # the cheapest that is in time
        (Limits(hours=2), 512),  # 64 ranks may take 2.2 h
        (Limits(hours=3, device_hours=2000), 512),
        (Limits(hours=0.5), None),
        (Limits(device_hours=10), None),
    ],
)
def test_the_best_world_size_keeps_limits_with_its_whole_band(limits: Limits, size: int | None) -> None:
    row = best(with_costs(predictions(), 3600, PRICES), limits)
    assert (None if row is None else row["world_size"]) == size


def test_of_weak_scaling_the_most_rows_are_best() -> None:
    costed = with_costs(predictions("weak"), 3600, PRICES)
    assert best(costed, Limits(device_hours=150))["world_size"] == 64


@pytest.mark.parametrize(
    ("serial_share", "limits", "chosen", "at_knee"),
    [
        (1 / 64, Limits(device_hours=2000), 512, 64),
        (1 / 8, Limits(device_hours=2000), 512, 8),
        (0.0, Limits(device_hours=2000), 512, None),  # without loss the fastest is the knee
        (1 / 64, Limits(device_hours=2000, hours=0.5), 512, None),  # 64 ranks may take 0.54 h
        (1 / 64, Limits(hours=2), 64, None),  # the cheapest in time: more ranks cost more
    ],
)
def test_the_knee_is_where_amdahls_law_has_it(
    serial_share: float, limits: Limits, chosen: int, at_knee: int | None
) -> None:
    """T(p) = T(1)·(s + (1 - s)/p), and E/T is highest at p = (1 - s)/s (Eager, Zahorjan & Lazowska 1989)."""
    frame = predictions()
    frame["step_time_s"] = 16 * (serial_share + (1 - serial_share) / frame["world_size"])
    frame["step_time_s_high"] = 1.1 * frame["step_time_s"]
    frame["parallel_efficiency"] = 16 / frame["step_time_s"] / frame["world_size"]
    costed = with_costs(frame, 3600, PRICES)
    row = best(costed, limits)
    assert row["world_size"] == chosen
    found = knee(costed, limits, row)
    assert (None if found is None else found["world_size"]) == at_knee


def test_of_weak_scaling_fewer_rows_are_no_knee() -> None:
    costed = with_costs(predictions("weak").assign(step_time_s=1.0, global_batch_size=[8, 64, 512]), 3600, PRICES)
    limits = Limits(device_hours=2000)
    assert knee(costed, limits, best(costed, limits)) is None


def test_what_does_not_fit_in_memory_is_never_best() -> None:
    costed = with_costs(predictions().assign(fits=[True, False, True]), 3600, PRICES)
    assert best(costed, Limits(hours=3))["world_size"] == 512


def test_the_sentence_says_what_it_rests_on() -> None:
    words = sentence(with_costs(predictions(), 3600, PRICES).iloc[1], 3600, "GPU", PRICES)
    for part in (
        "3600 training steps of KAN 32-64-1 (grid 5) with 2048 rows a step (256 on each) take 2 [1.8, 2.2] h",
        "on 64 GPUs",
        "on 4 nodes (packed), at a parallel efficiency of 0.5 [0.45, 0.55] (strong scaling)",
        "128 [115, 141] GPU-hours, 32 [28.8, 35.2] kWh at 250 W each, 256 [230, 282] EUR",
        "In brackets: scenario range (of assumed links); computation calibrated on A100 (simulated), network: fabric (",
    ):
        assert part in words


@pytest.mark.parametrize(("fits", "is_said"), [(None, False), (True, False), (False, True)])
def test_the_sentence_says_where_memory_does_not_suffice(fits: bool | None, is_said: bool) -> None:
    costed = with_costs(predictions().assign(fits=fits, memory_bytes=52e9), 3600, PRICES)
    words = sentence(costed.iloc[2], 3600, "GPU", PRICES)
    assert ("That needs 52 GB of memory on each, more than there is." in words) == is_said
