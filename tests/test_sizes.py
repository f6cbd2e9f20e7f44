from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanstudy import sizes
from kanstudy.sizes import matched_hidden_width, matched_layer_widths, mlp_parameters

WIDTHS = st.lists(st.integers(1, 40), min_size=2, max_size=5)


def test_counts_by_hand():
    # 2·3 + 3·1 edges, 5 + 3 + 1 weights on each
    assert sizes.kan_parameters([2, 3, 1], 5, 3) == 9 * 9
    # 2·3 + 3 and 3·1 + 1
    assert sizes.mlp_parameters([2, 3, 1]) == 13
    # forward 2 operations a weight, backward twice as many
    assert sizes.kan_flops_per_sample([2, 3, 1], 5, 3) == 3 * 2 * 9 * 9
    assert sizes.mlp_flops_per_sample([2, 3, 1]) == 3 * 2 * 9


@given(WIDTHS.filter(lambda widths: len(widths) > 2), st.integers(1, 30), st.integers(0, 5))
def test_no_width_is_nearer_than_the_matched_one(widths, grid_size, spline_order):
    match = matched_hidden_width(widths, grid_size, spline_order)
    assert match.kan_params == sizes.kan_parameters(widths, grid_size, spline_order)
    assert match.mlp_params == mlp_parameters(matched_layer_widths(widths, grid_size, spline_order))
    assert match.difference == match.mlp_params - match.kan_params

    def distance(width):
        return abs(mlp_parameters([widths[0], *[width] * (len(widths) - 2), widths[-1]]) - match.kan_params)

    nearest = min(range(1, 3 * match.hidden_width + 3), key=distance)  # of equals the smallest
    assert match.hidden_width == nearest


def test_matched_mlp_keeps_inputs_outputs_and_depth():
    widths = matched_layer_widths((32, 64, 48, 2), 5, 3)
    assert (widths[0], widths[-1], len(widths)) == (32, 2, 4)
    assert widths[1] == widths[2]


def test_a_kan_without_hidden_layer_has_no_width_to_match():
    with pytest.raises(ValueError, match="layer_widths"):
        matched_hidden_width((4, 1), 5, 3)


@pytest.mark.parametrize("widths", [[], [3], [3, 0], [3, -1], [3, 2.5], [3, True], "32", 3, None, [3, "2"]])
def test_bad_widths_are_named(widths):
    with pytest.raises(ValueError, match="layer_widths"):
        mlp_parameters(widths)


@pytest.mark.parametrize(
    ("name", "grid_size", "spline_order"),
    [("grid_size", 0, 3), ("grid_size", 1.5, 3), ("spline_order", 5, -1), ("spline_order", 5, 6)],
)
def test_bad_splines_are_named(name, grid_size, spline_order):
    with pytest.raises(ValueError, match=name):
        sizes.kan_parameters([2, 3, 1], grid_size, spline_order)


def test_sizes_need_no_torch():
    code = "import sys, kanstudy.sizes; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
