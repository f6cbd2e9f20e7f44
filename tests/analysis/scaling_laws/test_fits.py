from __future__ import annotations

import frames
import numpy as np
import pandas as pd
import pytest
from fabricate import make_point, make_record
from simulated import one_node, simulate

from kanstudy.analysis import estimates, plots
from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.scaling_laws import fits
from kanstudy.analysis.scaling_laws.models import ALPHA_BETA, AMDAHL, GUSTAFSON, USL
from kanstudy.analysis.tables.view import shown

SIZES = (1, 2, 4, 8, 16, 32)


def series(name: str = "KAN", model=AMDAHL, values=(1.0, 0.05), sizes=SIZES, **fields) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    speedup = model.curve(np.array(values), np.array(sizes, dtype=float)) * np.exp(
        0.01 * rng.standard_normal(len(sizes))
    )
    frame = pd.DataFrame({"world_size": sizes, "speedup": speedup, "speedup_low": 0.97 * speedup})
    head = {"experiment": "strong_scaling", "series": name, "source": "measured", "surroundings": "a"} | fields
    points = [f"{name}-w{size}" for size in sizes]
    return frame.assign(speedup_high=1.03 * speedup, oversubscribed=False, point_id=points, **head)


def one(found: list[fits.SeriesFit], law: str) -> fits.SeriesFit:
    (only,) = [item for item in found if item.fit.model.name == law]
    return only


def test_each_series_is_fitted_with_the_laws_of_its_scaling() -> None:
    frame = pd.concat([series("a"), series("b", values=(1.0, 0.2))], ignore_index=True)
    found = fits.strong(frame)
    assert [(item.key["series"], item.fit.model) for item in found] == [
        ("a", AMDAHL),
        ("a", USL),
        ("b", AMDAHL),
        ("b", USL),
    ]
    assert one(found[:2], "Amdahl").fit.parameters["serial_fraction"].value == pytest.approx(0.05, rel=0.1)
    assert one(found[2:], "Amdahl").fit.parameters["serial_fraction"].value == pytest.approx(0.2, rel=0.1)
    weak = fits.weak(series(model=GUSTAFSON, values=(1.0, 0.1)))
    assert [item.fit.model for item in weak] == [GUSTAFSON, USL]
    assert weak[0].fit.parameters["serial_fraction"].value == pytest.approx(0.1, rel=0.1)


@pytest.mark.parametrize("name", ["experiment", "source", "surroundings", "series"])
def test_points_of_different_sources_or_conditions_are_never_in_one_fit(name: str) -> None:
    frame = pd.concat([series(), series(values=(1.0, 0.3), **({} if name == "series" else {name: "other"}))])
    if name == "series":
        frame = pd.concat([series(), series("other", values=(1.0, 0.3))])
    found = [item for item in fits.strong(frame.reset_index(drop=True)) if item.fit.model is AMDAHL]
    assert [item.fit.parameters["serial_fraction"].value for item in found] == pytest.approx([0.05, 0.3], rel=0.15)
    assert [len(item.fit.x) for item in found] == [6, 6]


def test_too_few_points_of_each_condition_are_refused_though_together_they_were_enough() -> None:
    frame = series()
    frame.loc[3:, "surroundings"] = "b"
    found = fits.strong(frame)
    assert len(found) == 4
    assert all(item.fit.refused for item in found)
    assert "no point of one rank" in found[2].reason


def test_more_ranks_than_cores_are_never_fitted() -> None:
    frame = series()
    frame.loc[frame["world_size"] == 32, ["oversubscribed", "speedup"]] = [True, 3.0]
    found = one(fits.strong(frame), "Amdahl")
    assert list(found.fit.x) == [1, 2, 4, 8, 16]
    assert found.fit.parameters["serial_fraction"].value == pytest.approx(0.05, rel=0.1)
    assert found.reason == "left out: 32 ranks (more ranks than cores)"
    assert found.point_ids == ("KAN-w1", "KAN-w2", "KAN-w4", "KAN-w8", "KAN-w16")


def test_without_one_rank_nothing_is_fitted() -> None:
    found = fits.strong(series(sizes=(2, 4, 8, 16, 32, 64)))
    assert all(item.fit.refused for item in found)
    assert {item.reason for item in found} == {"not fitted: no point of one rank"}


def test_a_point_that_failed_is_named_and_does_not_make_a_series_of_its_own() -> None:
    frame = series()
    frame.loc[2, ["speedup", "surroundings"]] = [np.nan, None]
    found = fits.strong(frame)
    assert len(found) == 2
    assert list(found[0].fit.x) == [1, 2, 8, 16, 32]
    assert found[0].reason == "left out: 4 ranks (not measured)"


def test_tables_of_others_need_no_more_than_world_sizes_and_speedups() -> None:
    (amdahl, usl) = fits.strong(series()[["world_size", "speedup"]])
    assert amdahl.key == {}
    assert not amdahl.fit.refused
    table = fits.table([amdahl, usl])
    assert list(table["model"]) == ["Amdahl", "USL"]
    assert fits.strong(pd.DataFrame(columns=["world_size", "speedup"])) == []


def test_the_all_reduce_is_fitted_by_world_size() -> None:
    frame = frames.messages((1, 2, 4))
    found = fits.allreduce(frame)
    assert [item.key["world_size"] for item in found] == [1, 2, 4]
    assert found[0].reason == "not fitted: one rank: nothing moves"
    for item, p in zip(found[1:], (2, 4), strict=True):
        assert item.fit.parameters["latency_s"].value == pytest.approx(50e-6 * p)
        assert item.fit.parameters["bandwidth_bytes_per_s"].value == pytest.approx(4e9)
    few = fits.allreduce(frame[frame["message_bytes"] > 2**19])
    assert "3 message sizes: 2 parameters need at least 4" in few[1].reason


def test_the_table_has_a_row_a_fit_and_compares_the_laws_of_one_series() -> None:
    frame = pd.concat([series("a", USL, (1.0, 0.05, 2e-3), (*SIZES, 64, 128)), series("b", sizes=(1, 2))])
    table = fits.table(fits.strong(frame.reset_index(drop=True)))
    assert list(table["series"]) == ["a", "a", "b", "b"]
    assert list(table["fitted"]) == [True, True, False, False]
    assert table["weight"][:2].sum() == pytest.approx(1)
    assert table["weight"][1] > 0.9
    assert table["aicc"][1] < table["aicc"][0]
    assert table["weight"][2:].isna().all()
    assert table["serial_fraction_low"][0] < table["serial_fraction"][0] < table["serial_fraction_high"][0]
    cells = shown(table, fits.SCALING_FITS)
    assert "[" in cells["coherency κ (10⁻³)"][1]
    assert cells["fitted"].tolist() == ["yes", "yes", "no", "no"]
    assert "2 world sizes: 2 parameters need at least 4" in cells["note"][2]
    assert cells["points of"][2] == "b-w1 b-w2"


def test_two_cores_refuse_every_scaling_law_and_say_so() -> None:
    strong = [make_record(world_size=p, noise=0.01, noise_seed=p) for p in (1, 2)]
    kind = {"scaling": "weak", "experiment": "weak_scaling"}
    weak = [make_record(world_size=p, global_batch_size=1024 * p, noise=0.01, **kind) for p in (1, 2)]
    found = fits.strong(estimates.strong(strong)) + fits.weak(estimates.weak(weak))
    assert len(found) == 4
    assert all(item.fit.refused and "2 world sizes" in item.reason for item in found)
    figure = plots.scaling_laws.scaling_fits(found, estimates.strong(strong))
    assert not figure.axes
    assert "No law is fitted" in figure.texts[0].get_text()


def test_records_of_a_simulated_machine_are_fitted_and_give_back_its_link() -> None:
    machine = MachineModel(network=one_node(2e-5, 1e9), launch_s=2e-4)
    messages = tuple(2**n for n in range(10, 25, 2))
    points = [
        make_point(world_size=p, global_batch_size=4096, allreduce_bytes=messages if p > 1 else ()) for p in SIZES
    ]
    records = simulate(points, machine, rounds=6)
    strong = estimates.strong(records)
    amdahl, usl = fits.strong(strong)
    assert not amdahl.fit.refused
    assert amdahl.key["source"] == "simulated"
    assert np.isfinite([amdahl.fit.aicc]).all()
    for item in fits.allreduce(estimates.allreduce(records)):
        p = item.key["world_size"]
        assert item.fit.parameters["latency_s"].value == pytest.approx(2 * (p - 1) * 2e-5, rel=1e-4)
        assert item.fit.parameters["bandwidth_bytes_per_s"].value == pytest.approx(1e9 * p / (2 * (p - 1)), rel=1e-4)
    assert plots.scaling_laws.scaling_fits([amdahl, usl], strong).axes


def strong_of(machine: MachineModel) -> dict[str, fits.SeriesFit]:
    """The fits of a machine of one bucket, whose all-reduce is therefore wholly exposed."""
    points = [make_point(world_size=p, global_batch_size=4096) for p in (*SIZES, 64)]
    found = fits.strong(estimates.strong(simulate(points, machine, rounds=6)))
    return {item.fit.model.name: item for item in found}


def test_what_does_not_shrink_with_the_batch_is_amdahls_serial_fraction() -> None:
    machine = MachineModel(launch_s=3e-4)
    step_s = sum(machine.phases_s(make_point(world_size=1, global_batch_size=4096), 4096))
    found = strong_of(machine)["Amdahl"].fit
    assert found.parameters["serial_fraction"].value == pytest.approx(3e-4 / step_s, rel=1e-4)
    assert found.parameters["scale"].value == pytest.approx(1, rel=1e-4)


def test_contention_and_a_ring_s_latency_are_those_of_the_universal_law() -> None:
    """T(p) = T1/p (1 + c (p - 1)) + 2 (p - 1) α, so that σ = c and κ = 2 α/T1, and Amdahl's law cannot follow."""
    machine = MachineModel(contention=0.02, network=one_node(1e-5))
    step_s = sum(machine.phases_s(make_point(world_size=1, global_batch_size=4096), 4096))
    found = strong_of(machine)
    universal = found["USL"].fit
    assert universal.parameters["contention"].value == pytest.approx(0.02, rel=1e-3)
    assert universal.parameters["coherency"].value == pytest.approx(2e-5 / step_s, rel=1e-3)
    assert universal.aicc < found["Amdahl"].fit.aicc
    assert found["Amdahl"].fit.residual_sd > 100 * universal.residual_sd


def test_a_frame_that_does_not_tell_series_apart_is_refused() -> None:
    frame = pd.concat([series("a"), series("b")])[["world_size", "speedup"]].reset_index(drop=True)
    for item in fits.strong(frame):
        assert item.reason == "not fitted: several points at 1, 2, 4, 8, 16, 32 ranks: of several series"
    messages = pd.concat([frames.messages()] * 2)
    assert "of several series" in fits.allreduce(messages)[0].reason


def test_points_that_are_not_trusted_are_fitted_and_named() -> None:
    frame = series().assign(trusted=[True, True, False, True, True, True])
    found = one(fits.strong(frame), "Amdahl")
    assert len(found.fit.x) == 6
    assert found.reason == "untrusted among the points: 4 ranks"


def test_a_line_is_whole_where_it_interpolates_and_dashed_in_a_band_beyond() -> None:
    frame = series()
    frame.loc[frame["world_size"] == 32, "oversubscribed"] = True
    found = fits.strong(frame)
    assert [item.fit.refused for item in found].count(True) <= 1
    figure = plots.scaling_laws.scaling_fits(found[:1], frame)
    (axis,) = figure.axes
    lines = {line.get_linestyle(): line.get_xdata() for line in axis.lines if len(line.get_xdata()) > 20}
    assert lines["-"][[0, -1]] == pytest.approx([1, 16])
    assert lines["--"][[0, -1]] == pytest.approx([16, 64])
    (band,) = axis.collections
    reach = band.get_paths()[0].vertices[:, 0]
    assert (reach.min(), reach.max()) == pytest.approx((16, 64))
    hollow = [line for line in axis.lines if line.get_markerfacecolor() == "white"]
    assert [line.get_xdata()[0] for line in hollow] == [32]


def test_refused_fits_are_not_drawn() -> None:
    frame = pd.concat([series("long"), series("short", sizes=(1, 2, 4))], ignore_index=True)
    figure = plots.scaling_laws.scaling_fits(fits.strong(frame), frame)
    assert [axis.get_title() for axis in figure.axes] == ["long"]
    measured = frames.messages((1, 2, 4))
    link = plots.scaling_laws.allreduce_fits(fits.allreduce(measured), measured)
    labels = [text.get_text() for text in link.legends[0].get_texts()]
    assert labels == ["2 ranks", "4 ranks", "fitted: α + n/B"]
    assert "Nothing" in plots.scaling_laws.allreduce_fits([], measured).texts[0].get_text()


def test_links_of_several_series_are_told_apart() -> None:
    measured = frames.messages((2,), ("KAN", "MLP"))
    link = plots.scaling_laws.allreduce_fits(fits.allreduce(measured), measured)
    labels = [text.get_text() for text in link.legends[0].get_texts()]
    assert labels[:2] == ["2 ranks, series KAN", "2 ranks, series MLP"]


def test_the_columns_for_reading_are_those_of_the_parameters() -> None:
    names = {item.name for model in (AMDAHL, GUSTAFSON, USL) for item in model.parameters}
    assert names == set(fits.SCALING)
    assert {item.name for item in ALPHA_BETA.parameters} == set(fits.LINK)
    assert all("point_ids" in columns for columns in (fits.SCALING_FITS, fits.ALLREDUCE_FITS))
