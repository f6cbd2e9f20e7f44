from __future__ import annotations

import pytest
from calibrated import exact, strong_point
from fabricate import make_point

from kanstudy.analysis.calibration.domain import NotCovered, domain_of


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"world_size": 1024}, "world size 1024: local_batch_size = 2: calibrated are 4 to 4096"),
        ({"world_size": 1024}, "add 2 to local_batch_sizes of [[study.calibration]]"),
        ({"global_batch_size": 8192}, "global_batch_size = 8192: its baseline: calibrated are 4 to 4096"),
        ({"layer_widths": (32, 256, 256, 1)}, "layer_widths 32-256-256-1: parameters = 665856: calibrated are 7056 to"),
        ({"layer_widths": (32, 64, 1)}, "layer_widths 32-64-1: layers = 2: calibrated are 3 to 3"),
        ({"grid_size": 1, "layer_widths": (32, 16, 16, 1)}, "parameters = 3920: calibrated are 7056"),
        ({"dtype": "float64"}, "dtype = 'float64': the calibration is of 'float32'"),
        ({"optimizer": "sgd"}, "optimizer = 'sgd': the calibration is of 'adam'"),
        ({"operator": "reference"}, "operator = 'reference': the calibration is of 'fused'"),
        ({"model": "mlp"}, "model = 'mlp': the calibration is of 'kan'"),
    ],
)
def test_what_is_not_covered_is_refused_with_value_range_and_what_to_measure(changes: dict, words: str) -> None:
    point = make_point(**({"world_size": 2} | changes))
    with pytest.raises(NotCovered) as raised:
        exact().domain.check(point, needs_global_batch=True)
    assert words in str(raised.value)


def test_what_lies_within_is_covered() -> None:
    exact().domain.check(strong_point(512), needs_global_batch=True)
    exact().domain.check(make_point(world_size=2, global_batch_size=8192), needs_global_batch=False)


def test_a_calibration_is_of_one_kind() -> None:
    points = [make_point(world_size=1), make_point(world_size=1, optimizer="sgd")]
    with pytest.raises(NotCovered, match="optimizer adam, sgd: a calibration must be of one"):
        domain_of(points)
