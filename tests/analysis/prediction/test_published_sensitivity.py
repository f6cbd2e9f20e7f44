from __future__ import annotations

from dataclasses import replace

import numpy as np
from test_published_region import BATCHES, MODEL, SIZES, SLOW_INSIDE

from kanstudy.analysis.network.network import Link
from kanstudy.analysis.prediction.published_region import Settings, region
from kanstudy.analysis.prediction.published_sensitivity import all_at_once, sensitivity, sentence_of_draws


def test_each_constant_is_changed_alone_and_the_counts_are_those_of_its_region() -> None:
    machine = SLOW_INSIDE
    found = sensitivity(machine, MODEL, SIZES)
    assert list(found["constant"]) == [
        "none",
        *(name for name in ("flops_per_s", "launch_s", "inside bytes_per_s", "between bytes_per_s") for _ in range(2)),
    ]
    row = found[(found["constant"] == "launch_s") & (found["times"] == 2)].iloc[0]
    other = region(replace(machine, launch_s=2 * machine.launch_s), MODEL, SIZES)
    assert row["assumed"] == machine.launch_s
    assert row["settings"] == len(other)
    for name in ("efficiency_agrees", "consistent"):
        assert row[name] == other[name].sum()
    assert row["both_agree"] == (other["efficiency_agrees"] & other["overhead_agrees"]).sum()
    assert set(found["source"]) == {"predicted"}


def test_draws_of_all_constants_are_between_half_and_twice_and_repeat() -> None:
    machine, few = SLOW_INSIDE, Settings([16, 24, 32], BATCHES)
    found = all_at_once(machine, MODEL, few, draws=6)
    times = found[["flops_per_s", "launch_s", "inside bytes_per_s", "between bytes_per_s"]].to_numpy()
    assert ((times >= 0.5) & (times <= 2)).all()
    assert len(np.unique(times)) == times.size
    assert found.equals(all_at_once(machine, MODEL, few, draws=6))
    row = found.iloc[2]
    links = {
        tier: Link(bytes_per_s=getattr(machine.network, tier).bytes_per_s * row[f"{tier} bytes_per_s"])
        for tier in ("inside", "between")
    }
    drawn = replace(
        machine,
        flops_per_s=machine.flops_per_s * row["flops_per_s"],
        launch_s=machine.launch_s * row["launch_s"],
        network=replace(machine.network, **links),
    )
    assert row["efficiency_agrees"] == region(drawn, MODEL, few)["efficiency_agrees"].sum()
    some = int((found["consistent"] > 0).sum())
    both = int((found["both_agree"] > 0).sum())
    words = sentence_of_draws(found)
    assert f"6 times: in {both} draws some of the {found['settings'].iloc[0]} settings agree" in words
    assert f"in {some} also" in words
