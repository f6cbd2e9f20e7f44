from __future__ import annotations

import frames
import numpy as np
import pandas as pd
from fabricate import make_point, make_record
from simulated import one_node, simulate

from kanstudy.analysis import estimates
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.scaling_laws import fits
from kanstudy.analysis.scaling_laws.words import sentences


def test_on_two_cores_the_sentence_says_why_no_law_is_fitted() -> None:
    records = [make_record(world_size=p, noise=0.01, noise_seed=p) for p in (1, 2)]
    strong = estimates.strong(records)
    (said,) = sentences(fits.table(fits.strong(strong)), strong)
    assert said.startswith("Strong scaling, KAN synthetic:32:1: Amdahl not fitted: 2 world sizes: 2 parameters need")
    assert "; USL not fitted: 2 world sizes: 3 parameters need at least 5" in said
    row = strong[strong["world_size"] == 2].iloc[0]
    assert f"Karp-Flatt's fraction is {row['karp_flatt']:.3f} [" in said
    assert said.endswith(f"at 2 ranks (measured: {' '.join(record.point_id for record in records)}).")


def test_laws_are_told_with_their_parameters_and_compared() -> None:
    machine = MachineModel(contention=0.02, network=one_node(1e-5))
    points = [make_point(world_size=p, global_batch_size=4096) for p in (1, 2, 4, 8, 16, 32, 64)]
    strong = estimates.strong(simulate(points, machine, rounds=6))
    (said,) = sentences(fits.table(fits.strong(strong)), strong)
    assert "contention σ 0.0200 [0.0" in said
    assert "by AICc USL has the larger weight, 1.00" in said
    assert "(simulated: " in said


def test_weak_scaling_has_no_karp_flatt_fraction() -> None:
    kind = {"scaling": "weak", "experiment": "weak_scaling"}
    weak = estimates.weak([make_record(world_size=p, global_batch_size=1024 * p, noise=0.01, **kind) for p in (1, 2)])
    (said,) = sentences(fits.table(fits.weak(weak)), weak)
    assert said.startswith("Weak scaling, ")
    assert "Gustafson not fitted" in said
    assert "Karp-Flatt" not in said


def test_the_link_has_a_latency_and_a_bandwidth_with_units() -> None:
    messages = frames.messages((1, 2)).assign(experiment="communication_overhead", source="measured")
    alone, both = sentences(fits.table(fits.allreduce(messages)), messages)
    assert "on 1 rank: α-β not fitted: one rank: nothing moves" in alone
    assert "on 2 ranks: α-β with latency α (µs) 100.0 [100.0, 100.0], bandwidth B (GB/s) 4.000" in both


def test_nothing_measured_is_said() -> None:
    nothing = pd.DataFrame(columns=["world_size", "speedup", "point_id"])
    assert sentences(fits.table(fits.strong(nothing)), nothing) == [
        "No law is fitted: nothing is measured that could be."
    ]
    point = {"experiment": "strong_scaling", "series": "KAN", "source": "measured", "point_id": "a"}
    failed = pd.DataFrame([point | {"world_size": 2, "speedup": np.nan, "reason": "oom"}])
    (said,) = sentences(fits.table(fits.strong(failed)), failed)
    assert "left out: 2 ranks (not measured)" in said
    assert said.endswith("(measured: no point).")
