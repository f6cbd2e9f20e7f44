from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
import torch

from kanstudy import sizes
from kanstudy.model import KAN, MLP, build_model, count_parameters, flops_per_sample, model_from_config
from kanstudy.spec import PointSpec

POINT = PointSpec(
    experiment="strong_scaling",
    scaling="strong",
    world_size=2,
    global_batch_size=8,
    dataset="synthetic:3:1",
    n_samples=64,
    layer_widths=(3, 6, 1),
    arms=("ddp",),
    grid_size=4,
    spline_order=2,
    seed=7,
)
MLP_POINT = dataclasses.replace(POINT, model="mlp", grid_size=None, spline_order=None, operator=None)


def test_builds_what_the_point_says():
    kan = build_model(dataclasses.replace(POINT, dtype="float64"))
    assert isinstance(kan, KAN)
    assert kan.config | {"layer_widths": [3, 6, 1], "grid_size": 4, "spline_order": 2} == kan.config
    assert {tensor.dtype for tensor in kan.state_dict().values()} == {torch.float64}
    mlp = build_model(MLP_POINT)
    assert isinstance(mlp, MLP)
    assert mlp.layer_widths == (3, 6, 1)


@pytest.mark.parametrize("point", [POINT, MLP_POINT], ids=["kan", "mlp"])
def test_the_seed_alone_decides_the_weights(point):
    torch.manual_seed(1)
    first = build_model(point)
    following = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(following, torch.rand(3))  # the caller's random state is left alone
    second = build_model(point)
    other = build_model(dataclasses.replace(point, seed=8))
    torch.manual_seed(point.seed)
    by_hand = model_from_config(first.config)
    for a, b, c, d in zip(*(model.parameters() for model in (first, second, other, by_hand)), strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, d)
        assert not torch.equal(a, c)


def test_an_unknown_operator_is_named():
    with pytest.raises(ValueError, match="operator"):
        build_model(dataclasses.replace(POINT, operator="magic"))


def test_sizes_agree_with_the_models():
    kan, mlp = build_model(POINT), build_model(MLP_POINT)
    assert count_parameters(kan) == sizes.kan_parameters((3, 6, 1), 4, 2) == (18 + 6) * 7
    assert count_parameters(mlp) == sizes.mlp_parameters((3, 6, 1)) == 18 + 6 + 6 + 1
    assert flops_per_sample(kan) == 6 * sum(layer.weight.numel() for layer in kan.layers)
    assert flops_per_sample(mlp) == 6 * sum(layer.weight.numel() for layer in mlp.layers)
    kan.layers[0].weight.requires_grad_(False)
    assert count_parameters(kan) == 6 * 7
    with pytest.raises(TypeError, match="Linear"):
        flops_per_sample(torch.nn.Linear(2, 1))


def test_the_room_imports_torch_and_numpy_only():
    code = (
        "import sys, torch, numpy; before = set(sys.modules); import kanstudy.model; "
        "new = {m.split('.')[0] for m in set(sys.modules) - before}; "
        "heavy = new - set(sys.stdlib_module_names) - {'kanstudy'}; assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
