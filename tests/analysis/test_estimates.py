from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fabricate import TRUTH, empty_arms, make_record

from kanstudy.analysis import estimates, metrics, plots
from kanstudy.analysis.attribution.decomposition import attribution
from kanstudy.analysis.attribution.identity import identity_check
from kanstudy.analysis.tables import layouts
from kanstudy.analysis.tables.save import save_table
from kanstudy.analysis.tables.view import shown
from kanstudy.record import Fault

E = float(np.prod(list(TRUTH.values())))
E1 = TRUTH["ddp"] * TRUTH["data_movement"]
WEAK = {"experiment": "weak_scaling", "scaling": "weak"}
PAIR = {"experiment": "communication_overhead", "arms": ("ddp_noop", "ddp")}


def test_strong_scaling_without_noise() -> None:
    frame = estimates.strong([make_record(world_size=p, t1=0.08) for p in (1, 2, 4)]).set_index("world_size")
    assert frame["efficiency"].tolist() == pytest.approx([E1, E, E])
    assert frame["speedup"].tolist() == pytest.approx([E1, 2 * E, 4 * E])
    assert frame["serial_time_s"].tolist() == pytest.approx([0.08] * 3)
    assert frame["step_time_s"].tolist() == pytest.approx([0.08 / E1, 0.04 / E, 0.02 / E])
    assert frame["efficiency_ddp1"].tolist() == pytest.approx([1, E / E1, E / E1])
    assert frame["efficiency_mean"].tolist() == pytest.approx([E1, E, E])
    assert frame["overhead"].tolist()[1:] == pytest.approx([1 - TRUTH["synchronisation"] * TRUTH["data_movement"]] * 2)
    assert frame["throughput"].loc[4] == pytest.approx(2048 * 4 * E / 0.08)
    assert frame["karp_flatt"].loc[4] == pytest.approx(metrics.karp_flatt(4 * E, 4))
    assert np.isnan(frame["karp_flatt"].loc[1])
    assert (frame["baseline"] == "plain module, one rank, global batch").all()
    assert (frame["reason"] == "").all()


def test_weak_scaling_without_noise() -> None:
    records = [make_record(**WEAK, world_size=p, global_batch_size=512 * p, t1=0.02) for p in (1, 2, 4)]
    frame = estimates.weak(records).set_index("world_size")
    weak = E / TRUTH["batch"]
    assert "karp_flatt" not in frame, "a scaled speed-up gives no serial fraction"
    assert frame["efficiency"].tolist()[1:] == pytest.approx([weak, weak])
    assert frame["throughput_per_rank"].tolist()[1:] == pytest.approx([512 * weak / 0.02] * 2)
    assert frame["throughput"].loc[4] == pytest.approx(4 * 512 * weak / 0.02)
    assert frame["efficiency_ddp1"].loc[4] == pytest.approx(frame["step_time_s"].loc[1] / frame["step_time_s"].loc[4])


def test_without_a_baseline_efficiency_is_blank_with_the_reason() -> None:
    records = [make_record(world_size=p, arms=("ddp_noop", "ddp")) for p in (2, 4, 8)]
    frame = estimates.strong(records)
    assert frame[["efficiency", "speedup", "efficiency_ddp1"]].isna().all(axis=None)
    assert frame["reason"].str.contains("no baseline: the arm serial_global was not measured").all()
    assert frame["step_time_s"].notna().all()


def test_the_ddp_baseline_needs_a_point_of_one_rank_of_the_same_series() -> None:
    frame = estimates.strong([make_record(world_size=1, dataset="flights"), make_record(world_size=2)])
    assert np.isnan(frame["efficiency_ddp1"].iloc[1])
    assert "no point of one rank" in frame["reason"].iloc[1]
    assert frame["efficiency"].notna().all()


@pytest.mark.parametrize(("status", "reason"), [("oom", "out of memory"), ("nan", "loss is NaN"), ("failed", "killed")])
def test_points_that_failed_are_rows_with_their_status(status: str, reason: str) -> None:
    bad = empty_arms(make_record(world_size=4, status=status, error=Fault(reason=reason), rounds=0))
    for frame in (estimates.strong([make_record(), bad]), estimates.model_size([make_record(), bad])):
        assert frame["status"].tolist() == ["ok", status]
        assert frame["reason"].iloc[1].startswith(f"{status}: {reason}")
        assert frame["step_time_s"].dtype == float, "a failure does not turn numbers into text"
        cells = shown(frame, layouts.STRONG)
        assert bad.point_id in cells["point"].tolist()
        assert reason in cells["note"].iloc[1]


def test_a_partial_point_says_how_far_it_is() -> None:
    record = make_record(rounds=5, status="partial")
    record.rounds_planned = 12
    (reason,) = estimates.strong([record])["reason"]
    assert "partial: 5 of 12 rounds" in reason
    assert "5 rounds: too few for an interval" in reason


def test_overhead_of_settings_and_the_blocking_allreduce_beside() -> None:
    size = make_record().gradient_bytes
    assert size is not None
    allreduce = {size // 2: [0.001] * 15, 2 * size: [0.004] * 15}
    first = make_record(**PAIR, bucket_cap_mb=25, allreduce=allreduce)
    second = make_record(**PAIR, bucket_cap_mb=1, truth={"data_movement": 1.1, "synchronisation": 1.0})
    elsewhere = make_record(**PAIR, bucket_cap_mb=3, device_name="another CPU")
    larger = make_record(**PAIR, world_size=4)
    frame = estimates.overhead([second, first, elsewhere, larger]).iloc[[1, 0, 2, 3]]
    assert frame["overhead"].tolist()[:2] == pytest.approx(
        [1 - TRUTH["synchronisation"] * TRUTH["data_movement"], -0.1]
    )
    assert "overhead below 0" in frame["reason"].iloc[1]
    assert "baseline" not in frame["reason"].str.cat()
    assert frame["total_comm_s"].tolist()[:2] == pytest.approx([0.002, 0.002]), "measured once for a world size"
    assert frame["total_comm_s_low"].tolist()[:2] == pytest.approx([0.002, 0.002]), "the interval of its repeats"
    assert frame["total_comm_s"].iloc[2:].isna().all()
    assert frame["reason"].iloc[2:].str.contains("no blocking all-reduce was measured on these ranks").all()
    exposed = 1e3 * (frame["step_time_s"] * frame["overhead"])
    assert frame["exposed_ms"].tolist() == pytest.approx(exposed.tolist())
    outside = make_record(**PAIR, allreduce={1024: [0.001] * 15})
    assert "no blocking all-reduce of this bucket's size" in estimates.overhead([outside])["reason"].iloc[0]


def test_allreduce_bandwidths() -> None:
    record = make_record(**PAIR, world_size=4, allreduce={2**20: [1e-3] * 12, 2**10: [1e-5] * 3})
    frame = estimates.allreduce([record])
    assert frame["message_bytes"].tolist() == [2**10, 2**20]
    assert frame["n"].tolist() == [3, 12]
    assert frame["algbw_bytes_per_s"].tolist() == pytest.approx([2**10 / 1e-5, 2**20 / 1e-3])
    assert frame["busbw_bytes_per_s"].tolist() == pytest.approx([2**10 / 1e-5 * 1.5, 2**20 / 1e-3 * 1.5])
    assert np.isnan(frame["time_s_low"].iloc[0])


def test_a_blocking_allreduce_under_other_conditions_is_another() -> None:
    size = make_record().gradient_bytes
    records = [make_record(**PAIR, allreduce={size: [0.001] * 12}), make_record(**PAIR, bucket_cap_mb=1)]
    assert estimates.overhead(records)["total_comm_s"].tolist() == pytest.approx([0.001, 0.001])
    for record, version in zip(records, ("2.6", "2.13"), strict=True):
        record.provenance = {"conditions": {"hosts": ["a"], "versions": {"torch": version}}}
    assert np.isnan(estimates.overhead(records)["total_comm_s"].iloc[1])


def test_phases_are_the_slowest_ranks_at_the_median_step() -> None:
    record = make_record(fields={"out_of_grid_share": [0.01, 0.2]})
    arm = record.arms["ddp_noop"]
    arm.data_wait_s, arm.forward_s = [[1e-3] * 3] * 2, [[0.1, 0.2, 0.9], [0.3, 0.1, 0.1]]
    arm.backward_s, arm.optimizer_s = [[0.5] * 3] * 2, [[0.05] * 3] * 2
    arm.bucket_ready_s = [[[0.1, 0.2]] * 3, [[0.3, 0.4]] * 3]
    failed = empty_arms(make_record(world_size=4, status="oom", error=Fault(reason="out of memory")))
    frame = estimates.phases([record, make_record(world_size=1), failed])
    assert frame["arm"].tolist() == ["ddp_noop", "none", "none"]
    row = frame.iloc[0]
    found = [row[f"{name}_ms"] for name in ("data_wait", "forward", "backward", "optimizer", "last_bucket")]
    assert found == pytest.approx([1, 300, 500, 50, 400])
    assert row["out_of_grid_share"] == 0.2
    assert frame["reason"].tolist() == ["", "no steps were instrumented", "oom: out of memory"]
    assert np.isnan(frame["out_of_grid_share"].iloc[2])


def test_model_sizes() -> None:
    record = make_record(arms=("serial_global", "ddp_noop", "ddp"))
    record.arms["ddp"].peak_memory_bytes = [4_000_000, 5_000_000]
    (row,) = estimates.model_size([record]).to_dict("records")
    assert row["peak_memory_bytes"] == 5_000_000
    assert row["params_per_byte"] == row["n_params"] / 5_000_000
    assert row["efficiency"] == pytest.approx(E)


def test_each_round_is_a_dot_whether_disturbed_or_not() -> None:
    record = make_record(rounds=12, noise=0.05, foreign={3: 0.5})
    frame = estimates.per_round([record, empty_arms(make_record(world_size=4, status="failed"))])
    assert len(frame) == 12
    assert frame["disturbed"].sum() == 1
    assert frame["speedup"].tolist() == pytest.approx((2 * frame["efficiency"]).tolist())
    paired = estimates.per_round([make_record(**PAIR)])
    assert paired["efficiency"].isna().all()
    assert paired["overhead"].notna().all()


@pytest.mark.parametrize(("sizes", "rounds"), [((), 12), ((1,), 12), ((2,), 3), ((1, 2), 7), ((1, 2, 4, 8), 12)])
def test_figures_and_tables_take_what_records_give(sizes: tuple[int, ...], rounds: int, tmp_path: Path) -> None:
    common = {"rounds": rounds, "noise": 0.02}
    strong = [make_record(world_size=p, **common) for p in sizes]
    weak = [make_record(**WEAK, world_size=p, global_batch_size=512 * p, **common) for p in sizes]
    comm = [
        make_record(
            **PAIR, world_size=p, bucket_cap_mb=cap, allreduce={1024: [1e-4] * 12, 2**20: [1e-3] * 12}, **common
        )
        for p in sizes
        for cap in (1, 25)
        if p > 1
    ]
    models = [
        make_record(experiment="model_size_scaling", layer_widths=(8, w, 1), arms=("serial_global", "ddp_noop", "ddp"),
                    world_size=p, **common)
        for p in sizes[-1:]
        for w in (8, 64)
    ]  # fmt: skip
    every = estimates.per_round([*strong, *weak, *comm, *models])
    chain = attribution(strong)
    shown: list[tuple[pd.DataFrame, dict]] = [
        (estimates.strong(strong), layouts.STRONG),
        (estimates.weak(weak), layouts.WEAK),
        (estimates.overhead(comm), layouts.OVERHEAD),
        (estimates.allreduce(comm), layouts.ALLREDUCE),
        (estimates.model_size(models), layouts.MODEL_SIZE),
        (estimates.phases(comm), layouts.PHASES),
        (chain, layouts.ATTRIBUTION),
        (identity_check(strong, weak), layouts.IDENTITY),
    ]
    for number, (frame, columns) in enumerate(shown):
        unknown = {name for name in columns if name not in frame}
        assert not unknown, f"the table shows {unknown}, which the frame does not have"
        save_table(frame, columns, tmp_path, f"t{number}", "caption")
    figures = [
        plots.scaling.strong_scaling(shown[0][0], every),
        plots.scaling.weak_scaling(shown[1][0], every),
        plots.waterfall.waterfall(chain),
        plots.communication.overhead(shown[2][0], every),
        plots.communication.allreduce(shown[3][0]),
        plots.model_size.model_size(shown[4][0]),
        plots.scaling.overview(shown[0][0], shown[1][0], chain, every),
    ]
    for number, figure in enumerate(figures):
        figure.savefig(tmp_path / f"f{number}.png", dpi=30)


def test_a_baseline_is_never_taken_from_another_experiment() -> None:
    strong = [make_record(world_size=size) for size in (1, 2)]
    weak = {"experiment": "weak_scaling", "scaling": "weak", "truth": {"ddp": 0.5}}
    others = [make_record(world_size=size, global_batch_size=1024 * size, **weak) for size in (1, 2)]
    alone = estimates.strong(strong)["efficiency_ddp1"]
    together = estimates.strong([*others, *strong])["efficiency_ddp1"]
    assert together.tolist()[-2:] == alone.tolist()
