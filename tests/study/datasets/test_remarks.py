"""What is odd about rows is told where it matters, and only there."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from kanstudy.study import experiments, launch
from kanstudy.study.datasets.prepare import describe
from kanstudy.study.datasets.remarks import remarks
from kanstudy.study.datasets.rows import Rows
from kanstudy.study.jobs import costs
from kanstudy.study.profile import load_profile

N = 1000
RANDOM = np.random.default_rng(0)
EVEN = RANDOM.uniform(-3, 3, N)


def rows(y: np.ndarray = EVEN, held_out: int = 200, **features: np.ndarray) -> Rows:
    """The first `held_out` rows are held out."""
    x, y = np.column_stack([*features.values()]), y[:, None]
    return Rows(
        x_train=x[held_out:],
        y_train=y[held_out:],
        x_holdout=x[:held_out],
        y_holdout=y[:held_out],
        feature_names=tuple(features),
        target_names=("y",),
        origin="a test",
    )


def with_value(place: int, value: float) -> np.ndarray:
    column = EVEN.copy()
    column[place] = value
    return column


@pytest.mark.parametrize("place", [0, 999], ids=["held out", "trained on"])
@pytest.mark.parametrize("value", [1e9, -1e9, 1e99])
def test_one_huge_value_is_told_with_what_it_does_to_the_others(place, value):
    (found,) = remarks(rows(a=EVEN, price=with_value(place, value)))
    assert found.startswith("of 'price' 980 of 1000 rows lie in ")
    assert f"{value:g}" in found
    assert "a grid over that range hardly tells them apart; clip such values, or take logarithms" in found


def test_one_huge_target_is_told_too():
    (found,) = remarks(rows(with_value(999, 1e9), a=EVEN))
    assert "of 'y' 980 of 1000 rows lie in 5.9e-07 % of the range from -2.99" in found
    assert "the loss is that of the few others" in found


@pytest.mark.parametrize(
    "column",
    [
        EVEN,
        RANDOM.normal(size=N),
        RANDOM.exponential(size=N),
        RANDOM.lognormal(size=N),
        RANDOM.standard_t(5, size=N),
        RANDOM.integers(0, 3, N),
        np.arange(N) == 500,  # a rare category
        np.where(np.arange(N) % 300 == 0, 7.0, 0.0),
        1e12 + RANDOM.uniform(size=N),
    ],
)
def test_what_is_common_in_tables_is_not_odd(column):
    assert remarks(rows(a=np.asarray(column, float))) == ()


def test_a_heavy_tail_is_odd():
    assert "take logarithms" in remarks(rows(a=np.exp(4 * RANDOM.normal(size=N))))[0]


def test_a_constant_feature_is_named_also_where_hold_out_rows_differ():
    columns = {"c": np.full(N, 5.0), "d": np.where(np.arange(N) < 200, 1.0, 0.0)}
    assert remarks(rows(a=EVEN, **columns)) == (
        "'c', 'd' are each the same in every training row: take out what says nothing",
    )


def test_many_odd_columns_are_one_sentence():
    columns = {f"f{number}": with_value(999, 1e9 + number) for number in range(30)}
    (found,) = remarks(rows(**columns))
    assert "and likewise 'f1', 'f2'" in found
    assert "and 21 more" in found


@pytest.mark.parametrize("count", [10, 11, 50])
def test_few_rows_are_looked_at_too(count):
    column = np.arange(count, dtype=float)
    assert remarks(rows(column, held_out=2, a=column)) == ()
    column[-1] = 1e6
    assert "of 'a' " in remarks(rows(np.arange(count, dtype=float), held_out=2, a=column))[0]


def test_the_plan_the_launch_and_the_submission_say_it(tmp_path, capsys):
    table = pd.DataFrame({"price": with_value(999, 1e9), "y": EVEN})
    table.to_csv(tmp_path / "own.csv", index=False)
    (tmp_path / "mine.toml").write_text(
        "[study]\n[[study.strong_scaling]]\ndataset = 'file:own.csv:y'\nhidden_widths = [3]\n"
        "global_batch_size = 8\n[machine]\ndevice = 'cpu'\n"
        "[cluster]\nnodes = 1\nranks_per_node = 2\ntime_limit = '01:00:00'\n"
    )
    profile = load_profile(tmp_path / "mine.toml")
    plan = experiments.plan(profile, "strong_scaling", launcher="none")
    (remark,) = plan.remarks
    assert remark.startswith("own.csv: of 'price' 980 of 1000 rows")
    assert remark in describe(f"file:{tmp_path / 'own.csv'}:y").remarks
    launch.run(plan, tmp_path / "r", "none")
    assert f"Note: {remark}\n" in capsys.readouterr().out
    assert costs.plan_text({"strong_scaling": plan, "again": plan}, profile).count(f"Note: {remark}\n") == 1
