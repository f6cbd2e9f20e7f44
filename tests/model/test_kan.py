from __future__ import annotations

import copy
import io
import json
import math
import pickle

import numpy as np
import pytest
import torch
from scipy.interpolate import BSpline
from torch.nn import functional as F

from kanstudy.model import KAN, KANLayer
from kanstudy.model.kan import ACTIVATIONS


def seeded(build, seed=0):
    torch.manual_seed(seed)
    return build()


def batch(*shape, seed=3, dtype=torch.float32, half_width=0.95):
    generator = torch.Generator().manual_seed(seed)
    return half_width * (2 * torch.rand(*shape, generator=generator, dtype=dtype) - 1)


@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize("grid_size", [1, 5])
def test_layer_is_the_sum_over_edges_in_the_documented_column_order(order, grid_size):
    layer = seeded(lambda: KANLayer(3, 2, grid_size, order, (-2.0, 1.0), dtype=torch.float64))
    x = torch.tensor([[-2.0, 0.3, 1.0], [-1.1, 0.9, 0.0]], dtype=torch.float64)
    n = grid_size + order
    assert layer.weight.shape == (2, (n + 1) * 3)
    assert layer.knots.shape == (3, grid_size + 2 * order + 1)
    weight = layer.weight.detach().numpy()
    expected = np.zeros((2, 2))
    for row in range(2):
        for o in range(2):
            for i in range(3):
                coefficients = [weight[o, j * 3 + i] for j in range(n)]
                spline = BSpline(layer.knots[i].numpy(), coefficients, order)
                value = x[row, i].item()
                silu = value / (1 + math.exp(-value))
                expected[row, o] += spline(value) + weight[o, n * 3 + i] * silu
    np.testing.assert_allclose(layer(x).detach(), expected, rtol=0, atol=1e-12)
    edges = layer.edges(x)
    assert edges.shape == (2, 2, 3)
    np.testing.assert_allclose(edges.sum(-1).detach(), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose((layer.expansion(x) @ layer.weight.T).detach(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", [(3,), (0, 3), (7, 3), (2, 5, 3), (2, 0, 3)])
def test_any_leading_dimensions(shape):
    model = seeded(lambda: KAN([3, 4, 2]))
    y = model(batch(*shape))
    assert y.shape == (*shape[:-1], 2)
    assert y.isfinite().all()
    torch.testing.assert_close(y.reshape(-1, 2), model(batch(*shape).reshape(-1, 3)))


def test_an_empty_batch_has_zero_gradients():
    model = KAN([3, 2])
    model(torch.empty(0, 3)).sum().backward()
    assert (model.layers[0].weight.grad == 0).all()


def test_input_may_be_non_contiguous():
    model = seeded(lambda: KAN([7, 2]))
    x = batch(7, 5).t()
    assert not x.is_contiguous()
    torch.testing.assert_close(model(x), model(x.contiguous()))
    permuted = batch(4, 7, 2).permute(0, 2, 1)
    torch.testing.assert_close(model(permuted), model(permuted.contiguous()))


def test_nan_spoils_only_its_own_row():
    model = seeded(lambda: KAN([3, 4, 2]))
    x = batch(3, 3)
    clean = model(x)
    x[1, 2] = torch.nan
    spoilt = model(x)
    assert spoilt[1].isnan().all()
    torch.testing.assert_close(spoilt[[0, 2]], clean[[0, 2]])


def test_far_outside_the_grid_only_the_base_term_is_left():
    layer = seeded(lambda: KANLayer(2, 3))
    x = torch.tensor([[50.0, -60.0]])
    torch.testing.assert_close(layer(x), F.silu(x) @ layer.weight[:, -2:].T)
    layer(x).sum().backward()
    assert (layer.weight.grad[:, :-2] == 0).all()
    assert (layer.weight.grad[:, -2:] != 0).any()


@pytest.mark.parametrize("order", [0, 1, 3])
def test_every_parameter_gets_a_gradient(order):
    model = seeded(lambda: KAN([3, 4, 4, 2], spline_order=order, grid_size=3))
    model(batch(512, 3)).pow(2).mean().backward()
    assert len(list(model.parameters())) == 3
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert (parameter.grad != 0).any(), name
    assert (model.layers[0].weight.grad != 0).all()  # the data reach every basis function of the first layer


def test_gradcheck_of_the_network():
    model = seeded(lambda: KAN([2, 3, 1], grid_size=3, dtype=torch.float64))
    x = batch(4, 2, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(model, x)
    loss = model(x).sum()
    loss.backward()
    weight = model.layers[1].weight
    step = torch.zeros_like(weight)
    step[0, 5] = 1e-6
    with torch.no_grad():
        weight += step
    assert ((model(x).sum() - loss) / 1e-6 - weight.grad[0, 5]).abs() < 1e-7


def test_autocast_lowers_the_product_and_keeps_the_basis():
    layer = seeded(lambda: KANLayer(4, 3, grid_size=50))
    x = batch(8, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer.expansion(x).dtype == torch.float32
        assert torch.equal(layer.expansion(x), KANLayer.expansion(layer, x.float()))
        y = layer(x)
        assert layer(x.bfloat16()).dtype == torch.bfloat16
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), layer(x), rtol=0.05, atol=0.02)
    model = seeded(lambda: KAN([4, 3, 1]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(x).float().pow(2).mean()
    loss.backward()
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in model.parameters())


def test_same_seed_same_weights_and_no_global_type_changed():
    before = torch.get_default_dtype()
    first, second = seeded(lambda: KAN([3, 4, 1])), seeded(lambda: KAN([3, 4, 1]))
    other = seeded(lambda: KAN([3, 4, 1]), seed=1)
    for a, b, c in zip(first.parameters(), second.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
    KAN([2, 1], dtype=torch.float64)
    assert torch.get_default_dtype() == before


def test_initial_weights_have_the_documented_sizes():
    layer = seeded(lambda: KANLayer(100, 80))
    coefficients, base = layer.weight[:, :-100], layer.weight[:, -100:]
    assert abs(coefficients.std().item() / (0.1 / math.sqrt(100)) - 1) < 0.02
    assert abs(coefficients.mean().item()) < 1e-3
    bound = math.sqrt(6 / (100 + 80))
    assert 0.99 * bound < base.abs().max().item() <= bound


def test_moves_to_another_type_with_its_grids():
    model = seeded(lambda: KAN([3, 4, 1]))
    x = batch(5, 3)
    doubled = copy.deepcopy(model).to(torch.float64)
    assert {t.dtype for t in doubled.state_dict().values()} == {torch.float64}
    torch.testing.assert_close(doubled(x.double()).float(), model(x))
    for wrong_model, wrong_x in [(model, x.double()), (doubled, x)]:
        with pytest.raises(TypeError, match="convert x or the model"):
            wrong_model(wrong_x)
    with pytest.raises(TypeError, match="autocast"):
        copy.deepcopy(model).half()(x.half())
    assert {t.device.type for t in KAN([3, 2], device="meta").state_dict().values()} == {"meta"}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_moves_to_a_gpu_with_its_grids():
    model = seeded(lambda: KAN([3, 4, 1], dtype=torch.float64))
    x = batch(5, 3, dtype=torch.float64)
    there = copy.deepcopy(model).to("cuda")
    torch.testing.assert_close(there(x.cuda()).cpu(), model(x))


def test_round_trips_by_state_dict_deepcopy_and_pickle():
    model = seeded(lambda: KAN([3, 4, 1], base_activation=torch.tanh))
    x = batch(5, 3)
    y = model(x)
    y.sum().backward()
    fresh = seeded(lambda: KAN([3, 4, 1], base_activation="tanh"), seed=9)
    assert not torch.equal(fresh(x), y)
    fresh.load_state_dict(model.state_dict())
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    for copied in (fresh, copy.deepcopy(model), pickle.loads(pickle.dumps(model)), loaded):
        assert torch.equal(copied(x), y)


def test_a_state_without_grids_or_of_another_grid_is_refused():
    model = KAN([3, 1])
    state = model.state_dict()
    assert set(state) == {"layers.0.weight", "layers.0.knots"}
    del state["layers.0.knots"]
    with pytest.raises(RuntimeError, match=r"layers\.0\.knots"):
        model.load_state_dict(state)
    with pytest.raises(RuntimeError, match="size mismatch"):
        model.load_state_dict(KAN([3, 1], grid_size=7).state_dict())


def test_configuration_is_json_and_builds_the_same_architecture():
    model = KAN((3, 4, 1), 7, 2, (-2, 2), F.gelu, "reference")
    config = json.loads(json.dumps(model.config))
    assert config.pop("model") == "kan"
    again = KAN(**config)
    assert again.config == model.config
    assert [t.shape for t in again.state_dict().values()] == [t.shape for t in model.state_dict().values()]
    assert model.operator == "reference"
    assert "operator='reference'" in repr(model)


def test_base_activation_is_applied():
    x = batch(6, 2)
    for name, function in ACTIVATIONS.items():
        layer = KANLayer(2, 1, base_activation=name)
        torch.testing.assert_close(layer.expansion(x)[:, -2:], function(x))
    torch.testing.assert_close(KANLayer(2, 1).expansion(x)[:, -2:], F.silu(x))


def test_out_of_grid_share_counts_each_layer():
    layer = KANLayer(2, 1)
    assert layer.out_of_grid_share(torch.tensor([[-1.0, 1.0], [0.0, 0.5]])) == 0.0
    assert layer.out_of_grid_share(torch.tensor([[-1.1, 1.0], [0.0, torch.nan]])) == 0.5
    assert layer.out_of_grid_share(torch.tensor([[torch.inf, 1.01]])) == 1.0
    assert math.isnan(layer.out_of_grid_share(torch.empty(0, 2)))
    model = seeded(lambda: KAN([2, 3, 1]))
    with torch.no_grad():
        model.layers[0].weight.mul_(1e3)
    x = batch(64, 2)
    shares = model.out_of_grid_share(x)
    hidden = model.layers[0](x)
    assert shares == [0.0, (hidden.abs() > 1).double().mean().item()]
    assert shares[1] > 0.5


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("in_features", 0),
        ("in_features", 2.0),
        ("in_features", "2"),
        ("out_features", -1),
        ("out_features", None),
        ("grid_size", 0),
        ("grid_size", 2.5),
        ("grid_size", True),
        ("spline_order", -1),
        ("spline_order", 6),
        ("spline_order", None),
        ("grid_range", (1.0, -1.0)),
        ("grid_range", (1.0, 1.0)),
        ("grid_range", (0.0, math.inf)),
        ("grid_range", (math.nan, 1.0)),
        ("grid_range", (0.0, 1.0, 2.0)),
        ("grid_range", 1.0),
        ("grid_range", ("a", "b")),
        ("grid_range", (1e6, 1e6 + 0.1)),  # float32 cannot tell the knots apart
        ("grid_range", (-3e38, 3e38)),  # the outer knots overflow
        ("base_activation", lambda x: x),
        ("base_activation", "swish2"),
        ("base_activation", None),
        ("operator", "magic"),
    ],
)
def test_bad_arguments_are_named(argument, value):
    with pytest.raises(ValueError, match=argument):
        KANLayer(**{"in_features": 2, "out_features": 2, argument: value})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, "float32"])
def test_bad_types_are_named(dtype):
    with pytest.raises(TypeError, match="dtype"):
        KAN([2, 1], dtype=dtype)


@pytest.mark.parametrize("widths", [[], [3], [3, 0], "32", 3])
def test_bad_widths_are_named(widths):
    with pytest.raises(ValueError, match="layer_widths"):
        KAN(widths)


def test_bad_input_is_named():
    model = KAN([3, 1])
    with pytest.raises(ValueError, match="last dimension must be 3"):
        model(torch.zeros(5, 2))
    with pytest.raises(TypeError, match="int64"):
        model(torch.zeros(5, 3, dtype=torch.int64))
    with pytest.raises(TypeError, match="ndarray"):
        model(np.zeros((5, 3), dtype=np.float32))


def test_learns_a_smooth_function():
    model = seeded(lambda: KAN([2, 4, 1], dtype=torch.float64))
    x = batch(256, 2, dtype=torch.float64)
    y = torch.sin(3 * x[:, :1]) * x[:, 1:]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.01 * losses[0]


def test_is_built_and_filled_where_the_default_device_says():
    with torch.device("meta"):
        empty = KAN([3, 4, 1])
    assert all(tensor.is_meta for tensor in empty.state_dict().values())
    model = seeded(lambda: KAN([3, 4, 1]))
    filled = empty.to_empty(device="cpu")
    filled.load_state_dict(model.state_dict())
    x = batch(20, 3)
    assert torch.equal(filled(x), model(x))
