from __future__ import annotations

import copy
import json
import pickle

import pytest
import torch
from torch import nn

from kanstudy.model import KAN, MLP, count_parameters, matched_mlp


def test_layers_with_the_activation_between():
    torch.manual_seed(0)
    model = MLP([3, 5, 4, 2], activation=torch.tanh)
    plain = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2))
    plain.load_state_dict({f"{2 * int(k.split('.')[1])}.{k.split('.')[2]}": v for k, v in model.state_dict().items()})
    x = torch.randn(7, 3)
    assert torch.equal(model(x), plain(x))
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(copied(x), model(x))
    assert model(torch.empty(0, 3)).shape == (0, 2)


def test_every_parameter_gets_a_gradient():
    model = MLP([3, 4, 4, 2])
    model(torch.randn(64, 3)).pow(2).mean().backward()
    assert all((parameter.grad != 0).any() for parameter in model.parameters())


@pytest.mark.parametrize(("widths", "grid_size"), [((32, 64, 64, 1), 5), ((2, 3, 1), 1), ((5, 8, 8, 8, 3), 20)])
def test_matched_mlp_reports_the_true_difference(widths, grid_size):
    kan = KAN(widths, grid_size)
    mlp, difference = matched_mlp(kan)
    assert count_parameters(mlp) - count_parameters(kan) == difference
    assert len(mlp.layers) == len(kan.layers)
    assert (mlp.layer_widths[0], mlp.layer_widths[-1]) == (widths[0], widths[-1])
    from_config, same = matched_mlp(kan.config, dtype=torch.float64)
    assert (from_config.layer_widths, same) == (mlp.layer_widths, difference)
    assert next(from_config.parameters()).dtype == torch.float64


def test_configuration_is_json_and_builds_the_same_architecture():
    config = json.loads(json.dumps(MLP([3, 4, 1], "gelu").config))
    assert config.pop("model") == "mlp"
    assert MLP(**config).config == MLP([3, 4, 1], "gelu").config


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="layer_widths"):
        MLP([3])
    with pytest.raises(ValueError, match="activation"):
        MLP([3, 1], activation=lambda x: x)
    with pytest.raises(TypeError, match="dtype"):
        MLP([3, 1], dtype=torch.float16)
    with pytest.raises(ValueError, match="hidden layer"):
        matched_mlp(KAN([3, 1]))
    for wrong in (MLP([3, 2, 1]), {"layer_widths": [3, 2, 1]}, None):
        with pytest.raises(TypeError, match="kan = "):
            matched_mlp(wrong)
