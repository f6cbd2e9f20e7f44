from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import BSpline
from scipy.optimize import linprog

from kanstudy.model import KAN, KANLayer, grid, load_checkpoint, save_checkpoint
from kanstudy.model.reference import kan_linear

F32, F64 = torch.float32, torch.float64


def seeded(build, seed=0):
    torch.manual_seed(seed)
    return build()


def batch(*shape, seed=3, dtype=F32, half_width=0.95):
    generator = torch.Generator().manual_seed(seed)
    return half_width * (2 * torch.rand(*shape, generator=generator, dtype=dtype) - 1)


def samples(kind: str, rows: int, features: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shape = (rows, features)
    if kind == "mostly one value":
        return np.where(rng.random(shape) < 0.9, 0.25, rng.normal(size=shape))
    return {
        "uniform": lambda: rng.uniform(-1, 1, shape),
        "normal": lambda: rng.normal(size=shape),
        "heavy tails": lambda: rng.standard_cauchy(shape),
        "whole numbers": lambda: rng.integers(0, 10, shape).astype(float),
        "two values": lambda: rng.integers(0, 2, shape).astype(float),
    }[kind]()


KINDS = ["uniform", "normal", "heavy tails", "whole numbers", "two values", "mostly one value"]


def grid_of(layer: KANLayer) -> torch.Tensor:
    return layer.knots[:, layer.spline_order : layer.spline_order + layer.grid_size + 1]


def state_of(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(state, model) -> bool:
    now = model.state_dict()
    return all(torch.equal(tensor, now[name]) for name, tensor in state.items())


@given(
    kind=st.sampled_from(KINDS),
    rows=st.integers(40, 400),
    order=st.integers(0, 5),
    grid_size=st.integers(1, 30),
    grid_eps=st.sampled_from([0, 0.02, 0.5, 1.0]),
    dtype=st.sampled_from([F32, F64]),
    scale=st.sampled_from([1e-6, 1.0, 1e4]),
    offset=st.sampled_from([0.0, -3.0, 100.0]),
    seed=st.integers(0, 5),
)
@settings(max_examples=120)
def test_any_samples_give_a_sound_grid_that_a_second_update_leaves_alone(
    kind, rows, order, grid_size, grid_eps, dtype, scale, offset, seed
):
    layer = seeded(lambda: KANLayer(3, 2, grid_size, order, operator="reference", dtype=dtype), seed)
    before, knots, weight = state_of(layer), layer.knots, layer.weight
    x = torch.from_numpy(samples(kind, rows, 3, seed) * scale + offset * scale).to(dtype)
    layer.update_grid(x, grid_eps=grid_eps)
    assert layer.knots is knots
    assert layer.weight is weight
    gaps = layer.knots.double().diff()
    inner = grid_of(layer).double()
    least = max(grid_eps, grid.LEAST_SHARE) * (inner[:, -1:] - inner[:, :1]) / grid_size
    assert (gaps >= least * (1 - 1e-3)).all()
    assert ((x >= inner[:, 0]) & (x <= inner[:, -1])).all()
    assert layer.out_of_grid_share(x) == 0
    reach = (inner[:, -1] - inner[:, 0]) / (x.amax(0) - x.amin(0))
    assert (reach < 1.021).all()
    assert torch.equal(layer.weight[:, -3:], before["weight"][:, -3:])
    assert not torch.equal(layer.knots, before["knots"])
    assert layer(x).isfinite().all()
    after = state_of(layer)
    layer.update_grid(x, grid_eps=grid_eps)
    assert same(after, layer)


def test_the_grid_is_the_documented_blend():
    layer = KANLayer(2, 1, 4, 3, dtype=F64)
    x = torch.from_numpy(samples("normal", 301, 2, 0))
    layer.update_grid(x, grid_eps=0.3)
    low, high = x.amin(0).numpy(), x.amax(0).numpy()
    low, high = low - 0.01 * (high - low), high + 0.01 * (high - low)
    # as in the module: margins are parts of the samples' range
    low, high = (
        x.amin(0).numpy() - 0.01 * np.ptp(x.numpy(), axis=0),
        x.amax(0).numpy() + 0.01 * np.ptp(x.numpy(), axis=0),
    )
    adaptive = np.quantile(x.numpy(), np.linspace(0, 1, 5), axis=0)
    adaptive[0], adaptive[-1] = low, high
    expected = 0.3 * np.linspace(low, high, 5) + 0.7 * adaptive
    np.testing.assert_allclose(grid_of(layer).T, expected, rtol=0, atol=1e-12)
    mean, gaps = (high - low) / 4, np.diff(expected, axis=0)
    for side, step in (
        (layer.knots[:, :4], np.minimum(gaps[0], mean)),
        (layer.knots[:, -4:], np.minimum(gaps[3], mean)),
    ):
        np.testing.assert_allclose(side.diff(), np.repeat(step[:, None], 3, axis=1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["normal", "heavy tails"])
@pytest.mark.parametrize("order", [3, 5])
def test_coefficients_keep_their_size_beside_wide_intervals(kind, order):
    for seed in range(5):
        layer = seeded(lambda: KANLayer(1, 8, 5, order, (-3, 3), operator="reference"), seed)
        before = layer.weight[:, :-1].abs().max().item()
        layer.update_grid(torch.from_numpy(samples(kind, 1000, 1, seed)).float().clamp(-3.5, 3.5))
        assert layer.weight[:, :-1].abs().max() < 40 * before


def test_whole_knots_are_not_spent_on_one_repeated_value():
    x = torch.cat([torch.zeros(900, 1), torch.linspace(-1, 1, 100)[:, None]])
    layer = KANLayer(1, 1, 10)
    layer.update_grid(x)
    assert (grid_of(layer).diff() > 0.15).all()


def best_uniform_error(values, design):
    """The least possible largest error of the design's splines, by linear programming."""
    count = design.shape[1]
    matrix = np.block([[design, -np.ones((len(values), 1))], [-design, -np.ones((len(values), 1))]])
    bound = np.concatenate([values, -values])
    found = linprog(np.r_[np.zeros(count), 1.0], matrix, bound, bounds=[(None, None)] * count + [(0, None)])
    assert found.status == 0, found.message
    return found.x[-1]


@given(
    kind=st.sampled_from(["uniform", "normal", "mostly one value", "whole numbers"]),
    order=st.integers(1, 5),
    old_size=st.integers(1, 12),
    new_data_scale=st.sampled_from([0.1, 0.5, 1.5]),
    grid_eps=st.sampled_from([0.02, 1.0]),
    seed=st.integers(0, 20),
)
@settings(max_examples=40)
def test_update_keeps_the_function_as_well_as_the_new_grid_can(kind, order, old_size, new_data_scale, grid_eps, seed):
    layer = seeded(lambda: KANLayer(1, 1, old_size, order, operator="reference", dtype=F64), seed)
    with torch.no_grad():
        layer.weight.normal_()
    x = torch.from_numpy(samples(kind, 200, 1, seed)) * new_data_scale
    dense = torch.linspace(x.min().item(), x.max().item(), 400, dtype=F64)[:, None]
    before = layer(dense).detach()
    splines = before - layer.weight.detach()[:, -1] * torch.nn.functional.silu(dense)
    layer.update_grid(x, grid_eps=grid_eps)
    design = BSpline.design_matrix(dense[:, 0].numpy(), layer.knots[0].numpy(), order, extrapolate=True).toarray()
    best = best_uniform_error(splines[:, 0].numpy(), design)
    error = (layer(dense).detach() - before).abs().max().item()
    assert error <= 3 * best + 1e-7  # the linear program is right to about 1e-8


def test_order_0_takes_the_mean_over_each_new_interval():
    layer = seeded(lambda: KANLayer(1, 1, 7, 0, dtype=F64))
    old = BSpline(layer.knots[0].numpy().copy(), layer.weight[0, :-1].detach().numpy().copy(), 0)
    layer.update_grid(batch(100, 1, dtype=F64, half_width=0.9))
    edges = grid_of(layer)[0].numpy()
    means = [old(np.linspace(low, high, 20001)[:-1]).mean() for low, high in pairwise(edges)]
    np.testing.assert_allclose(layer.weight[0, :-1].detach(), means, rtol=0, atol=1e-4)


@given(
    order=st.integers(0, 5),
    grid_size=st.integers(1, 12),
    factor=st.integers(2, 5),
    moved=st.booleans(),
    dtype=st.sampled_from([F32, F64]),
    seed=st.integers(0, 20),
)
@settings(max_examples=60)
def test_a_multiple_of_the_grid_size_keeps_the_function_exactly(order, grid_size, factor, moved, dtype, seed):
    layer = seeded(lambda: KANLayer(3, 2, grid_size, order, operator="reference", dtype=dtype), seed)
    if moved:
        layer.update_grid(torch.from_numpy(samples("normal", 300, 3, seed)).to(dtype))
    with torch.no_grad():
        layer.weight.normal_()
    inner = grid_of(layer)
    x = inner[:, 0] + (inner[:, -1] - inner[:, 0]) * torch.rand(500, 3, dtype=dtype)
    x = x.clamp(inner[:, 0], inner[:, -1])
    before = layer(x).detach()
    layer.refine_grid(factor * grid_size)
    assert torch.equal(grid_of(layer)[:, ::factor], inner)
    # in float32 the sums of coefficients round; a jump of order 0 stays where it was
    assert (layer(x) - before).abs().max() <= (1e-4 if dtype == F32 else 1e-10)


def test_a_function_that_every_grid_holds_survives_any_update():
    for dtype, tolerance in ((F32, 1e-6), (F64, 1e-12)):
        for order in range(1, 6):
            layer = seeded(lambda order=order, dtype=dtype: KANLayer(2, 1, 5, order, (-2, 2), dtype=dtype))
            with torch.no_grad():  # Greville: knot averages are the coefficients of x
                greville = layer.knots.unfold(1, order, 1)[:, 1:-1].mean(-1)
                layer.weight[0, :-2] = (0.3 + 0.2 * greville).t().flatten()
            x = torch.from_numpy(samples("uniform", 200, 2, order)).to(dtype)
            before = layer(x).detach()
            expected = 0.6 + 0.2 * x.sum(1) + torch.nn.functional.silu(x) @ layer.weight[0, -2:]
            torch.testing.assert_close(before[:, 0], expected.detach(), rtol=0, atol=tolerance)
            layer.update_grid(x)
            assert (layer(x) - before).abs().max() < tolerance


@pytest.mark.parametrize("order", [1, 3, 5])
def test_updates_by_ever_new_samples_do_not_drift(order):
    model = seeded(lambda: KAN([2, 3, 1], spline_order=order, dtype=F64))
    x = batch(300, 2, dtype=F64)
    start = model(x).detach()
    changes = []
    for seed in range(20):
        model.update_grid(batch(1000, 2, seed=seed, dtype=F64))
        changes.append((model(x) - start).square().mean().sqrt().item())
    assert 0 < changes[0] < 0.1 * start.std()
    assert changes[-1] < 3 * changes[0]


def test_a_network_is_updated_layer_by_layer():
    model = seeded(lambda: KAN([3, 8, 2], dtype=F64))
    with torch.no_grad():
        model.layers[0].weight.mul_(4)
    x = batch(2000, 3, dtype=F64)
    assert model.out_of_grid_share(x)[1] > 0.1
    by_hand = copy.deepcopy(model)
    model.update_grid(x.unflatten(0, (20, 100)))
    assert model.out_of_grid_share(x) == [0.0, 0.0]
    by_hand.layers[0].update_grid(x)
    by_hand.layers[1].update_grid(by_hand.layers[0](x))
    for name, tensor in by_hand.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], tensor, rtol=0, atol=1e-12)
    after = state_of(model)
    model.update_grid(x)
    assert same(after, model)


@pytest.mark.parametrize("operator", ["auto", "reference"])
def test_operators_notice_the_new_grid(operator):
    model = seeded(lambda: KAN([3, 4, 1], operator=operator))
    x = batch(500, 3)
    model(x)
    for change in (lambda: model.update_grid(x * 0.3), lambda: model.refine_grid(9)):
        change()
        y = x
        for layer in model.layers:
            y = kan_linear(y, layer.knots, layer.weight, layer.spline_order, layer.base_activation)
        torch.testing.assert_close(model(x), y)
        model(x).sum().backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
        model.zero_grad()


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_one_bad_sample_changes_nothing(value):
    model = seeded(lambda: KAN([3, 4, 1]))
    before = state_of(model)
    x = batch(100, 3)
    x[7, 1] = value
    with pytest.raises(ValueError, match="input of layer 0: 1 values are NaN or infinite"):
        model.update_grid(x)
    assert same(before, model)


def test_what_fails_in_a_deep_layer_leaves_all_layers_as_they_were():
    model = seeded(lambda: KAN([3, 4, 4, 1]))
    with torch.no_grad():
        model.layers[1].weight.fill_(3e38)
    before = state_of(model)
    with pytest.raises(ValueError, match="input of layer 2"):
        model.update_grid(batch(100, 3))
    assert same(before, model)
    with torch.no_grad():
        model.layers[1].weight[0, 0] = torch.nan
    before = state_of(model)
    for change in (lambda: model.layers[1].update_grid(batch(100, 4)), lambda: model.refine_grid(8)):
        with pytest.raises(ValueError, match=r"weight of KANLayer.* is not finite"):
            change()
        assert all(before[name].equal(now) or before[name].isnan().any() for name, now in model.state_dict().items())
        assert model.config["grid_size"] == model.layers[0].grid_size == 5


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_too_few_samples_change_nothing(rows):
    model = seeded(lambda: KAN([3, 4, 1]))
    before = state_of(model)
    with pytest.raises(ValueError, match=f"{rows} samples, at least 8 are needed"):
        model.update_grid(batch(rows, 3))
    assert same(before, model)
    model.update_grid(batch(8, 3))
    assert not same(before, model)
    assert model(batch(50, 3)).isfinite().all()


@pytest.mark.parametrize(
    ("dtype", "constant"),
    [
        (F32, torch.zeros(64)),
        (F32, torch.full((64,), 1e6) + torch.linspace(0, 0.5, 64)),
        (F32, torch.tensor([-3e38, 3e38]).repeat(32)),
        (F64, torch.full((64,), 0.1)),
        (F32, 1e-42 * torch.linspace(-1, 1, 64)),
        (F64, torch.tensor([-1.7e308, 1.7e308], dtype=F64).repeat(32)),
    ],
)
def test_a_feature_without_a_usable_range_keeps_its_grid_with_one_warning(dtype, constant):
    layer = seeded(lambda: KANLayer(3, 2, dtype=dtype))
    before = state_of(layer)
    x = batch(64, 3, dtype=dtype)
    x[:, 1] = constant
    with pytest.warns(UserWarning, match="keep their grid: 1 of 3 in layer 0") as caught:
        layer.update_grid(x)
    assert len(caught) == 1
    assert caught[0].filename.endswith("kan.py")
    kept = layer.weight.detach().unflatten(1, (-1, 3))[..., 1]
    assert torch.equal(layer.knots[1], before["knots"][1])
    assert torch.equal(kept, before["weight"].unflatten(1, (-1, 3))[..., 1])
    assert (layer.knots[[0, 2]] != before["knots"][[0, 2]]).any(dim=1).all()
    assert layer.weight.isfinite().all()


def test_zeros_in_every_feature_change_nothing():
    model = seeded(lambda: KAN([3, 4, 1]))
    before = state_of(model)
    with pytest.warns(UserWarning, match="3 of 3 in layer 0, 4 of 4 in layer 1"):
        model.update_grid(torch.zeros(100, 3))
    assert same(before, model)


def test_base_type_and_shape_of_samples_are_checked():
    model = seeded(lambda: KAN([3, 4, 1]))
    before, default = state_of(model), torch.get_default_dtype()
    for x, error in [
        (batch(50, 3, dtype=F64), TypeError),
        (torch.zeros(50, 3, dtype=torch.int64), TypeError),
        (np.zeros((50, 3), dtype=np.float32), TypeError),
        (batch(50, 4), ValueError),
        (torch.empty(50, 3, device="meta"), ValueError),
    ]:
        with pytest.raises(error, match="x "):
            model.update_grid(x)
    for bad in (-0.1, 1.1, float("nan"), "0.5", None):
        with pytest.raises(ValueError, match="grid_eps"):
            model.update_grid(batch(50, 3), grid_eps=bad)
    assert same(before, model)
    assert torch.get_default_dtype() == default


def test_samples_may_be_strided_need_gradients_or_come_under_autocast():
    expected = seeded(lambda: KAN([3, 4, 1]))
    x = batch(3, 200)
    expected.update_grid(x.t().contiguous())
    model = seeded(lambda: KAN([3, 4, 1]))
    leaf = x.t().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model.update_grid(leaf)
    assert same(state_of(expected), model)
    assert leaf.grad is None
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


def test_many_rows_are_sampled_without_losing_range_or_falling_for_a_period(monkeypatch):
    monkeypatch.setattr(grid, "MOST_SAMPLES", 512)
    rows = 64 * 512
    x = torch.from_numpy(np.random.default_rng(0).permutation(np.linspace(-1, 1, rows)))[:, None]
    x = torch.cat([x, x], dim=1)
    x[:, 1] = torch.arange(rows) % 64 / 63  # every 64th row is the same
    x[12345, 0] = 1.5
    layer = KANLayer(2, 1, 10, dtype=F64)
    layer.update_grid(x)
    whole = KANLayer(2, 1, 10, dtype=F64)
    monkeypatch.setattr(grid, "MOST_SAMPLES", rows)
    whole.update_grid(x)
    assert layer.out_of_grid_share(x) == 0
    assert (grid_of(layer) - grid_of(whole)).abs().max() < 0.12
    assert not torch.equal(layer.knots, whole.knots)


def test_another_default_device_does_not_matter():
    model, expected = (seeded(lambda: KAN([3, 4, 1])) for _ in range(2))
    x = batch(200, 3)
    with torch.device("meta"):
        model.update_grid(x)
        model.refine_grid(9)
    expected.update_grid(x)
    expected.refine_grid(9)
    assert same(state_of(expected), model)


def test_a_computed_weight_is_refused_since_what_is_written_to_it_is_lost():
    model = seeded(lambda: KAN([3, 4, 1]))
    torch.nn.utils.parametrizations.weight_norm(model.layers[1])
    before = state_of(model)
    for change in (lambda: model.update_grid(batch(50, 3)), lambda: model.refine_grid(9)):
        with pytest.raises(TypeError, match=r"weight of KANLayer.* is computed: remove its parametrization first"):
            change()
    assert same(before, model)


def test_refinement_changes_sizes_config_and_checkpoint(tmp_path):
    model = seeded(lambda: KAN([3, 4, 1]))
    x = batch(500, 3)
    model.update_grid(x)
    old = list(model.parameters())
    model.layers[1].weight.requires_grad_(False)
    before = model(x).detach()
    model.refine_grid(15)
    assert model.config["grid_size"] == 15
    for layer, parameter in zip(model.layers, old, strict=True):
        assert layer.grid_size == 15
        assert layer.weight is not parameter
        assert layer.weight.requires_grad == parameter.requires_grad
        assert layer.weight.shape == (layer.out_features, 19 * layer.in_features)
        assert layer.knots.shape == (layer.in_features, 22)
        assert layer.knots.dtype == layer.weight.dtype == F32
    assert dict(model.named_parameters()).keys() == {"layers.0.weight", "layers.1.weight"}
    torch.testing.assert_close(model(x), before, rtol=0, atol=2e-6)
    save_checkpoint(model, tmp_path / "model.pt")
    loaded = load_checkpoint(tmp_path / "model.pt")
    assert json.dumps(loaded.config) == json.dumps(model.config)
    assert torch.equal(loaded(x), model(x))
    model.refine_grid(4)  # coarser again, and trained on
    assert (model(x) - before).abs().max() < 0.1
    optimizer = torch.optim.Adam(model.parameters())
    model(x).square().mean().backward()
    optimizer.step()
    assert model(x).isfinite().all()


@pytest.mark.parametrize("size", [0, -3, 2.5, "8", None, True])
def test_a_bad_grid_size_is_named(size):
    model = seeded(lambda: KAN([3, 1]))
    before = state_of(model)
    with pytest.raises(ValueError, match="new_grid_size"):
        model.refine_grid(size)
    assert same(before, model)


def test_a_grid_too_fine_for_the_type_or_the_checkpoint_is_refused():
    model = KAN([1, 1], grid_range=(1000.0, 1001.0))
    before = state_of(model)
    with pytest.raises(ValueError, match=r"new_grid_size = 1000: .*float32"):
        model.refine_grid(1000)
    model.update_grid(torch.linspace(-1, 1, 100)[:, None])
    with pytest.raises(ValueError, match="100000 intervals"):  # fine around 0, but not where the grid was built
        model.refine_grid(100000)
    assert model.layers[0].knots.shape == before["layers.0.knots"].shape


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_same_grids_and_coefficients():
    for dtype, tolerance in ((F32, 1e-4), (F64, 1e-10)):
        model = seeded(lambda dtype=dtype: KAN([3, 8, 2], operator="reference", dtype=dtype))
        there = copy.deepcopy(model).cuda()
        x = batch(1000, 3, dtype=dtype)
        for change in (lambda m, x: m.update_grid(x), lambda m, x: m.refine_grid(9)):
            change(model, x)
            change(there, x.cuda())
            for name, tensor in model.state_dict().items():
                assert there.state_dict()[name].is_cuda
                torch.testing.assert_close(there.state_dict()[name].cpu(), tensor, rtol=0, atol=tolerance)


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory) -> dict[str, object]:
    """What two ranks found (one launch serves all tests of this file)."""
    output = tmp_path_factory.mktemp("grid") / "found.json"
    script = Path(__file__).parent / "grid_ddp_checks.py"
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script, output],
        env=os.environ
        | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(output.read_text())


@pytest.mark.parametrize("shards", ["equal", "unequal", "empty", "sampled"])
def test_ranks_leave_with_the_same_bits_and_as_one_process_would(two_ranks, shards):
    found = two_ranks[shards]
    assert found["shards_differ"]
    assert found["identical"]
    assert found["moved"] > 0.01
    assert found["against_one_process"] < 1e-10


def test_replicas_stay_identical_in_training_after_an_update(two_ranks):
    assert two_ranks["trained_identical"]
    assert two_ranks["trained_moved"] > 1e-4


def test_ranks_refine_to_the_same_bits_once_the_old_wrapper_is_gone(two_ranks):
    assert all("wrap anew" in error for error in two_ranks["wrapped"])
    assert two_ranks["refined_identical"]
    assert two_ranks["refined_difference"] < 1e-10
    assert two_ranks["refined_trained_identical"]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("nan_of_one_rank", "1 values are NaN or infinite"),
        ("too_few_in_all", "6 samples, at least 8"),
        ("wrong_shape_on_one_rank", "x "),
        ("bad_grid_eps_on_one_rank", "grid_eps"),
        ("bad_size_on_one_rank", "new_grid_size"),
        ("other_size_on_one_rank", "which ask for [8, 9]"),
    ],
)
def test_all_ranks_refuse_what_is_wrong_on_one(two_ranks, case, words):
    found = two_ranks[case]
    assert all(words in error for error in found["errors"])
    assert found["unchanged"]
    if not case.endswith("on_one_rank"):
        assert len(set(found["errors"])) == 1


def test_a_subgroup_acts_alone(two_ranks):
    assert two_ranks["subgroup_differs"]
    assert two_ranks["subgroup_alone"] == 0
    assert "not in it" in two_ranks["outsider"]


def test_only_the_first_rank_warns(two_ranks):
    assert two_ranks["warnings"] == [1, 0]
