"""The fused operator against the reference: values, gradients, and everything PyTorch lets a layer go through."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
import threading
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from kanstudy.model import KAN, KANLayer, fused
from kanstudy.model.fused import FEWEST_MULTIPLICATIONS, kan_linear_fused
from kanstudy.model.reference import ACTIVATIONS

ORDERS = range(1, 6)
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-11}


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def pair(*arguments, seed=0, **options):
    """The same layer or network, fused and by the reference."""
    build = KANLayer if isinstance(arguments[0], int) else KAN
    torch.manual_seed(seed)
    model = build(*arguments, operator="fused", **options)
    truth = build(*arguments, operator="reference", **options)
    truth.load_state_dict(model.state_dict())
    return model, truth


def results(model, x, gradient=None):
    """Output, gradient of x and those of all parameters."""
    x = x.clone().requires_grad_()
    y = model(x)
    gradients = torch.autograd.grad(y, [x, *model.parameters()], normal(*y.shape, dtype=y.dtype, seed=5))
    return [y.detach(), *gradients]


def assert_same(found, expected, tolerance=None):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        scale = max(1.0, b.abs().nan_to_num(0).max().item()) if b.numel() else 1
        torch.testing.assert_close(a, b, rtol=0, atol=(tolerance or TOLERANCE[b.dtype]) * scale, equal_nan=True)


@pytest.fixture
def two_threads():
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


# --- the same function


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("grid_size", [1, 5, 20, 200])
@pytest.mark.parametrize("order", ORDERS)
def test_value_and_gradients_equal_the_reference(order, grid_size, dtype):
    model, truth = pair(5, 4, grid_size, order, dtype=dtype)
    x = 1.5 * normal(300, 5, dtype=dtype)
    # a fine grid's knots are rounded in float32, which the reference follows and the closed form smooths
    tolerance = TOLERANCE[dtype] if grid_size < 200 else 20 * TOLERANCE[dtype]
    assert_same(results(model, x), results(truth, x), tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("order", [1, 3])
def test_every_activation(order, activation, dtype):
    model, truth = pair(3, 4, 5, order, base_activation=activation, dtype=dtype)
    x = 2 * normal(50, 3, dtype=dtype)
    assert_same(results(model, x), results(truth, x))


@settings(max_examples=60)
@given(
    rows=st.integers(0, 1100),
    features=st.integers(1, 6),
    outputs=st.integers(1, 5),
    grid_size=st.integers(1, 9),
    order=st.integers(1, 5),
    seed=st.integers(0, 99),
    moved=st.booleans(),
)
def test_any_shape(rows, features, outputs, grid_size, order, seed, moved):
    model, truth = pair(features, outputs, grid_size, order, seed=seed, dtype=torch.float64)
    if moved:
        shift = 0.3 * torch.rand_like(model.knots).cumsum(1)
        for layer in (model, truth):
            layer.knots.add_(shift)
    x = 1.2 * normal(rows, features, seed=seed, dtype=torch.float64)
    assert_same(results(model, x), results(truth, x))


@pytest.mark.parametrize("rows", [1, 127, 128, 129, 511, 512, 513, 1000, 1024, 1025])
def test_batches_around_the_edges_of_chunks(rows):
    model, truth = pair(3, 2, dtype=torch.float64)
    x = normal(rows, 3, dtype=torch.float64)
    assert_same(results(model, x), results(truth, x))


def test_so_wide_that_a_chunk_has_the_fewest_rows():
    model, truth = pair(1500, 2)
    x = normal(300, 1500)
    assert fused.BUFFER_ELEMENTS // model.weight.shape[1] < fused.FEWEST_ROWS
    assert_same(results(model, x), results(truth, x), 1e-4)


@pytest.mark.parametrize("shape", [(4,), (0, 4), (1, 4), (2, 3, 4), (2, 0, 4), (2, 1, 3, 4)])
def test_leading_dimensions(shape):
    model, truth = pair(4, 3, dtype=torch.float64)
    x = normal(*shape, dtype=torch.float64)
    assert_same(results(model, x), results(truth, x))


@pytest.mark.parametrize(
    "x",
    [
        normal(4, 300).t(),
        normal(600, 8)[::2, ::2],
        normal(2, 4, 300).permute(2, 0, 1),
        normal(1, 4).expand(300, 4),
        normal(300, 1).expand(300, 4),
        normal(1201)[1:].view(300, 4),
    ],
)
def test_input_of_any_strides(x):
    model, truth = pair(4, 3)
    assert_same(results(model, x), results(truth, x))


def test_gradients_and_weights_of_any_strides():
    model, truth = pair(4, 3, dtype=torch.float64)
    x = normal(300, 4, dtype=torch.float64)
    for layer in (model, truth):
        layer.weight.data = layer.weight.data.t().contiguous().t()
        layer.x = x.clone().requires_grad_()
        layer(layer.x).sum().backward()  # the gradient of a sum has stride 0
        layer(layer.x).t().contiguous().pow(2).sum().backward()
    assert_same([model.x.grad, model.weight.grad], [truth.x.grad, truth.weight.grad])


# --- extreme values


@pytest.mark.parametrize("order", ORDERS)
def test_nan_spoils_its_own_row_and_infinities_leave_the_base_term(order):
    model, truth = pair(3, 4, 5, order)
    x = normal(200, 3)
    x[7, 1], x[50, 2], x[51, 0], x[52, 1] = torch.nan, torch.inf, -1e38, 3e38
    y = model(x)
    assert y[7].isnan().all()
    clean = torch.arange(200) != 7
    assert not y[clean].isnan().any()
    torch.testing.assert_close(y, truth(x), rtol=1e-5, atol=1e-5, equal_nan=True)
    tanh, tanh_truth = pair(3, 4, 5, order, base_activation="tanh")
    x[50, 2] = -torch.inf
    far = torch.full((1, 3), torch.inf)
    torch.testing.assert_close(tanh(far), torch.ones(1, 3) @ tanh.weight[:, -3:].T)
    assert_same(results(tanh, x), results(tanh_truth, x))


def test_nan_and_zero_weights_act_as_in_the_reference():
    model, truth = pair(3, 4)
    with torch.no_grad():
        for layer in (model, truth):
            layer.weight[2, 5] = torch.nan
            layer.weight[:, 7] = 0
            layer.weight[0] = 1e-42  # denormal
    x = normal(40, 3).clamp(-2, 2)  # farther out 0 · NaN is a matter of taste
    found, expected = results(model, x), results(truth, x)
    assert found[0][:, 2].isnan().all()
    assert_same(found, expected)


@pytest.mark.parametrize("order", ORDERS)
def test_at_knots(order):
    model, truth = pair(2, 3, 4, order, (-1.0, 1.0), dtype=torch.float64)
    x = model.knots[0].unsqueeze(1).repeat(1, 2)
    x = x if order == 1 else x + 0  # higher orders have one derivative there
    found, expected = results(model, x), results(truth, x)
    assert_same(found, expected)


# --- knots that change


def test_knots_written_in_any_way_are_followed():
    model, truth = pair(3, 2, dtype=torch.float64)
    x = normal(60, 3, dtype=torch.float64)
    model(x)

    def raw_write(knots):
        knots.numpy()[:] *= 0.8  # what a collective does: no version is counted

    for write in (
        lambda knots: knots.copy_(2 * knots),
        lambda knots: knots[1].add_(0.1),
        lambda knots: knots.data.mul_(0.9),
        raw_write,
        lambda knots: knots[:, 5:].add_(0.3),
    ):
        before = model(x)
        for layer in (model, truth):
            write(layer.knots)
        assert (model(x) - before).abs().max() > 1e-6
        assert_same(results(model, x), results(truth, x))


def test_knots_follow_types_state_and_copies():
    model, truth = pair([3, 4, 2])
    x = normal(60, 3)
    model(x)
    for network in (model, truth):
        network.to(torch.float64)
    assert_same(results(model, x.double()), results(truth, x.double()))
    for network in (model, truth):
        network.to(torch.float32)
    assert_same(results(model, x), results(truth, x))
    copied = copy.deepcopy(model)
    other, _ = pair([3, 4, 2], seed=8, grid_range=(-2.0, 0.5))
    expected = results(other, x)
    model.load_state_dict(other.state_dict())
    assert_same(results(model, x), expected)
    assert_same(results(copied, x), results(truth, x))  # not moved with it
    with torch.no_grad():
        model.layers[0].knots = model.layers[0].knots * 1.5
        other.layers[0].knots.mul_(1.5)
    assert_same(results(model, x), results(other, x))


def test_backward_belongs_to_the_knots_of_its_forward():
    model, truth = pair(3, 2, dtype=torch.float64)
    x = normal(60, 3, dtype=torch.float64)
    for create_graph in (False, True):
        gradients = []
        for layer in (model, truth):
            y = layer(x)
            layer.knots.add_(0.1)
            gradients += torch.autograd.grad(y.sum(), layer.weight, create_graph=create_graph)
        assert_same(gradients[:1], gradients[1:])


def test_tables_leave_with_their_layer():
    fused._bases.clear()
    for _ in range(3):
        KANLayer(3, 2, operator="fused")(normal(5, 3))
    assert len(fused._bases) == 0


# --- autograd


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("moved", [False, True])
def test_gradcheck_and_gradgradcheck(order, moved):
    model, _ = pair(2, 3, 3, order, dtype=torch.float64)
    if moved:
        model.knots.copy_(model.knots + 0.1 * model.knots**2)
    x = (0.9 * normal(5, 2, seed=order, dtype=torch.float64)).requires_grad_()
    weight = model.weight.detach().requires_grad_()

    def layer(x, weight):
        return kan_linear_fused(x, model.knots, weight, order, "silu")

    assert torch.autograd.gradcheck(layer, (x, weight))
    if order > 1:
        assert torch.autograd.gradgradcheck(layer, (x, weight))
        assert torch.autograd.gradgradcheck(lambda x: layer(x, weight.detach()), (x,))
    assert torch.autograd.gradgradcheck(lambda weight: layer(x.detach(), weight), (weight,))


def test_gradients_of_only_what_asks_for_them():
    model, truth = pair(3, 2, dtype=torch.float64)
    x = normal(20, 3, dtype=torch.float64)
    for layer in (model, truth):
        layer.weight.requires_grad_(False)
        assert not layer(x).requires_grad
        layer.x = x.clone().requires_grad_()
        layer(layer.x).pow(2).sum().backward()
        assert layer.weight.grad is None
        layer.weight.requires_grad_(True)
        layer(x).pow(2).sum().backward()
    assert_same([model.x.grad, model.weight.grad], [truth.x.grad, truth.weight.grad])
    with torch.no_grad():
        assert not model(x).requires_grad


@pytest.mark.parametrize("create_graph", [False, True])
def test_one_layer_several_times_in_a_graph(create_graph):
    """With create_graph too: the second call's input has come from the same weight."""
    gradients = []
    for layer in pair(3, 3, dtype=torch.float64):
        x = normal(20, 3, dtype=torch.float64).requires_grad_()
        y = layer(layer(x)) + layer(x)
        found = torch.autograd.grad(y.pow(2).sum(), [x, layer.weight], create_graph=create_graph)
        if create_graph:
            found += torch.autograd.grad(sum(g.pow(2).sum() for g in found), [x, layer.weight])
        gradients.append(found)
    assert_same(*gradients)


def test_gradient_penalty_trains():
    gradients = []
    for model in pair([2, 4, 1], dtype=torch.float64):
        x = normal(30, 2, dtype=torch.float64).requires_grad_()
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        slope.pow(2).mean().backward()
        gradients.append([x.grad, *(parameter.grad for parameter in model.parameters())])
    assert_same(*gradients)


def test_retained_graph_gives_the_same_twice_and_a_freed_one_an_error():
    model, _ = pair([3, 4, 2])
    x = normal(20, 3).requires_grad_()
    loss = model(x).pow(2).sum()
    first = torch.autograd.grad(loss, [x, *model.parameters()], retain_graph=True)
    second = torch.autograd.grad(loss, [x, *model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_weight_or_input_written_before_backward_is_an_error():
    for written in ("weight", "x"):
        model, _ = pair(3, 2)
        x = normal(20, 3)
        loss = model(x.requires_grad_(written == "weight")).sum()
        with torch.no_grad():
            (model.weight if written == "weight" else x).mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


@pytest.mark.parametrize("threads", [1, 2])
def test_inference_mode_leaves_nothing_behind(threads):
    torch.set_num_threads(threads)
    try:
        model, truth = pair(64, 128)
        x = normal(2048, 64)
        found = {}
        started = threading.Thread(target=lambda: found.update(inside(model, x)))  # with no scratch memory yet
        started.start()
        started.join()
        assert_same([found["y"], found["z"]], [truth(x).detach()] * 2, 1e-5)
        assert_same(found["gradients"], results(truth, x), 1e-4)
    finally:
        torch.set_num_threads(1)


def inside(model, x):
    with torch.inference_mode():
        y = model(x)
        z = model(x + 0)  # an inference tensor as input
    return {"y": y.clone(), "z": z.clone(), "gradients": results(model, x)}


def test_a_layer_made_in_inference_mode():
    with torch.inference_mode():
        model, truth = pair(3, 2)
        x = normal(20, 3)
        assert_same([model(x)], [truth(x)])
        for layer in (model, truth):
            layer.knots.mul_(1.5)
        assert_same([model(x)], [truth(x)])


def test_checkpointing_and_saved_tensor_hooks():
    model, truth = pair([3, 4, 2])
    x = normal(20, 3)
    assert_same(results_of(lambda x: checkpoint(model, x, use_reentrant=False), model, x), results(truth, x))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().copy(), torch.from_numpy):
        assert_same(results(model, x), results(truth, x))


def results_of(function, model, x):
    x = x.clone().requires_grad_()
    y = function(x)
    gradients = torch.autograd.grad(y, [x, *model.parameters()], normal(*y.shape, dtype=y.dtype, seed=5))
    return [y.detach(), *gradients]


def test_a_gradient_that_itself_asks_for_one(two_threads):
    model, truth = pair(64, 128)
    x = normal(2048, 64).requires_grad_()
    gradient = normal(2048, 128, seed=3).requires_grad_()
    found = [torch.autograd.grad(layer(x), x, gradient) for layer in (model, truth)]
    assert_same(*found, 1e-4)


def test_what_kernels_cannot_do_goes_by_the_reference():
    model, truth = pair(3, 2, dtype=torch.float64)
    x = normal(6, 3, dtype=torch.float64)
    assert_same([torch.func.vmap(model)(x)], [truth(x)])
    jacobians = [torch.func.vmap(torch.func.jacrev(layer))(x) for layer in (model, truth)]
    assert_same(jacobians[:1], jacobians[1:])
    hessians = [torch.func.hessian(lambda x, layer=layer: layer(x).sum())(x[0]) for layer in (model, truth)]
    assert_same(hessians[:1], hessians[1:])
    for layer in (model, truth):
        layer.knots.requires_grad_()
        layer(x).pow(2).sum().backward()
    assert model.knots.grad.abs().sum() > 0
    assert_same([model.knots.grad, model.weight.grad], [truth.knots.grad, truth.weight.grad])


@pytest.mark.filterwarnings("ignore")
def test_a_trace_holds_the_function_not_its_values():
    model, truth = pair([3, 4, 2])
    traced = torch.jit.trace(model, normal(20, 3))
    x = normal(33, 3, seed=2)
    assert_same([traced(x)], [truth(x)])


def test_a_traced_graph_holds_the_function_and_a_counter_sees_its_products():
    model, truth = pair([3, 4, 2])
    x, z = normal(20, 3), normal(20, 3, seed=2)
    assert_same([make_fx(model)(x)(z)], [truth(z)])
    counts = []
    for network in (model, truth):
        with FlopCounterMode(display=False) as counter:
            network(x).sum().backward()
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0


def test_forward_mode_gradients_and_negated_views():
    model, truth = pair(3, 2)
    x, direction = normal(20, 3), normal(20, 3, seed=2)
    slopes = []
    for layer in (model, truth):
        with forward_ad.dual_level():
            slopes.append(forward_ad.unpack_dual(layer(forward_ad.make_dual(x, direction))).tangent)
    assert_same(slopes[:1], slopes[1:])
    negated = torch.complex(x, x).conj().imag
    assert negated.is_neg()
    assert_same([model(negated)], [truth(negated)])


def test_mixed_types_are_refused_as_by_the_reference():
    for layer in pair(3, 2):
        layer.weight.data = layer.weight.data.double()
        with pytest.raises(RuntimeError, match="dtype"):
            layer(normal(5, 3))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_batch_of_gradients_at_once(create_graph, threads):
    torch.set_num_threads(threads)
    try:
        model, truth, x = large()
        x.requires_grad_()
        gradients = normal(3, len(x), 128, seed=2)
        found = [
            torch.autograd.grad(
                layer(x), [x, layer.weight], gradients, is_grads_batched=True, create_graph=create_graph
            )
            for layer in (model, truth)
        ]
        assert_same(*found, 1e-4)
    finally:
        torch.set_num_threads(1)


def test_another_default_device_does_not_matter():
    model, truth, x = large()
    fused._scratch.buffers.clear()
    fused._scratch.chunks.clear()
    with torch.device("meta"):
        y = model(x)
        y.sum().backward()
    truth(x).sum().backward()
    assert_same([y.detach(), model.weight.grad], [truth(x).detach(), truth.weight.grad], 1e-4)


def test_input_on_another_device_is_refused_as_by_the_reference():
    for layer in pair(3, 2):
        with pytest.raises(RuntimeError, match="device"):
            layer(torch.empty(5, 3, device="meta"))


# --- autocast


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("lowered", [torch.bfloat16, torch.float16])
def test_autocast_lowers_the_products_alone(lowered, threads):
    torch.set_num_threads(threads)
    try:
        outcomes = []
        for model in pair([64, 128, 2], grid_size=8):
            x = normal(2048, 64).requires_grad_()
            with torch.autocast("cpu", dtype=lowered):
                y = model(x)
            assert y.dtype == lowered
            y.float().sum().backward()  # autocast is left before
            gradients = [x.grad, *(parameter.grad for parameter in model.parameters())]
            assert all(gradient.dtype == torch.float32 for gradient in gradients)
            outcomes.append([y.detach().float(), *gradients])
        for found, expected in zip(*outcomes, strict=True):
            assert (found - expected).norm() < 0.02 * expected.norm()
    finally:
        torch.set_num_threads(1)


def test_autocast_backward_inside_and_gradients_of_gradients():
    outcomes = []
    for layer in pair(8, 4):
        x = normal(300, 8).requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            lowered = layer(x.bfloat16())
            assert lowered.dtype == torch.bfloat16
            (slope,) = torch.autograd.grad(layer(x).float().sum(), x, create_graph=True)
            slope.pow(2).sum().backward()
        outcomes.append([slope.detach(), x.grad, layer.weight.grad])
    for found, expected in zip(*outcomes, strict=True):
        assert found.dtype == torch.float32
        assert (found - expected).norm() < 0.05 * expected.norm()


def test_autocast_leaves_float64_alone():
    model, truth = pair(3, 2, dtype=torch.float64)
    x = normal(20, 3, dtype=torch.float64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_same([model(x)], [truth(x)])


# --- copies and wrappers


def test_copies_compute_and_train_on_their_own():
    model, truth = pair([3, 4, 2])
    x = normal(20, 3)
    results(model, x)  # with tables made and memory taken
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), loaded):
        assert copied.operator == "fused"
        assert_same(results(copied, x), results(truth, x))


DDP = """
import os, sys, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from kanstudy.model import KAN
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
model, truth = KAN([3, 4, 2], operator="fused"), KAN([3, 4, 2], operator="reference")
truth.load_state_dict(model.state_dict())
x, z = torch.randn(20, 3), torch.randn(20, 3)
for network in (DistributedDataParallel(model), truth):  # which broadcasts the knots at every forward
    (network(x) + network(z)).pow(2).sum().backward()
same = [torch.allclose(a.grad, b.grad, atol=1e-5) for a, b in zip(model.parameters(), truth.parameters())]
os._exit(0 if same == [True, True] else 3)
"""


def test_ddp_forwards_twice_before_backward(tmp_path):
    command = [sys.executable, "-c", DDP, str(tmp_path / "rendezvous")]
    assert subprocess.run(command, timeout=120, check=False).returncode == 0


@pytest.mark.slow
def test_compiling_the_whole_model_is_given_the_reference():
    model, truth = pair([3, 4, 2])
    x = normal(20, 3)
    compiled = torch.compile(model, fullgraph=True)
    assert_same(results_of(compiled, model, x), results(truth, x))


# --- threads


def large(seed=0):
    model, truth = pair(64, 128, seed=seed)
    x = normal(2048, 64)
    assert fused._multiplications(x, model.weight) > FEWEST_MULTIPLICATIONS
    return model, truth, x


def test_two_threads_give_the_same_every_time(two_threads):
    model, truth, x = large()
    found = results(model, x)
    for _ in range(5):
        assert all(torch.equal(a, b) for a, b in zip(results(model, x), found, strict=True))
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    assert_same(found, results(model, x), 1e-5)
    assert_same(found, results(truth, x), 1e-4)


@pytest.mark.parametrize("threads", [2, 3])
def test_no_more_threads_work_than_torch_may_use(threads, monkeypatch):
    model, _, x = large()
    working, most, inner = set(), [], set()
    lock, all_at_once = threading.Lock(), threading.Event()
    expand = fused._expand

    def watched(*arguments):
        with lock:
            working.add(threading.get_ident())
            most.append(len(working))
            inner.add(torch.get_num_threads())
            if len(working) == threads:
                all_at_once.set()
        all_at_once.wait(10)  # the first waits for the others, however busy the machine
        expand(*arguments)
        with lock:
            working.discard(threading.get_ident())

    monkeypatch.setattr(fused, "_expand", watched)
    torch.set_num_threads(threads)
    try:
        before = threading.active_count()
        for _ in range(3):
            results(model, x)
        assert max(most) == threads  # they did share
        assert inner == {1}  # and their products are serial
        assert threading.active_count() <= before + threads
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(1)


def test_number_of_threads_may_change_between_calls():
    model, _, x = large()
    torch.set_num_threads(1)
    expected = results(model, x)
    try:
        for threads in (2, 1, 3, 2, 4, 1, 2):
            torch.set_num_threads(threads)
            assert_same(results(model, x), expected, 1e-5)
            assert torch.get_num_threads() == threads
        deadline = time.monotonic() + 10  # pools of other sizes are given up
        while sum(t.name.startswith("kan_linear") for t in threading.enumerate()) > 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert sum(t.name.startswith("kan_linear") for t in threading.enumerate()) == 2
    finally:
        torch.set_num_threads(1)


def test_several_callers_at_once(two_threads):
    model, _, x = large()
    expected = results(model, x)
    found = []
    callers = [threading.Thread(target=lambda: found.append(results(model, x))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert len(found) == 4
    for result in found:
        assert_same(result, expected, 1e-5)


def test_an_error_in_a_thread_reaches_the_caller(two_threads, monkeypatch):
    model, _, x = large()

    def fails(*_):
        raise MemoryError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(fused, "_expand", fails)
        with pytest.raises(MemoryError, match="no room"):
            model(x)
    assert model(x).isfinite().all()


FORK = """
import os, sys, torch
from kanstudy.model import KANLayer
torch.set_num_threads(2)
torch.manual_seed(0)
layer, x = KANLayer(64, 128, operator="fused"), torch.randn(2048, 64)
expected = layer(x)
child = os.fork()
if child == 0:
    torch.set_num_threads(2)
    y = layer(x)
    y.sum().backward()
    os._exit(0 if torch.allclose(y, expected, atol=1e-5) and layer.weight.grad.isfinite().all() else 3)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert torch.equal(layer(x), expected)
sys.exit(status)
"""


def test_works_in_a_forked_process():
    assert subprocess.run([sys.executable, "-c", FORK], timeout=120, check=False).returncode == 0


# --- memory

PEAK = """
import resource, sys, torch
from kanstudy.model import KAN
torch.set_num_threads(1)
model, x = KAN([128, 256, 256, 1], operator=sys.argv[1]), torch.randn(2048, 128)
model(x[:256]).sum().backward()  # kernels, buffers and gradients
open("/proc/self/clear_refs", "w").write("5")
status = lambda name: next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(name))
before = status("VmRSS")
model(x).sum().backward()
print(1024 * (status("VmHWM") - before))
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="no resettable high-water mark")
def test_a_step_does_not_store_the_expansion():
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(2**20)}
    peak = {
        operator: int(
            subprocess.run(
                [sys.executable, "-c", PEAK, operator], env=environment, capture_output=True, text=True, check=True
            ).stdout
        )
        for operator in ("fused", "reference")
    }
    expansions = 4 * 2048 * 9 * (128 + 256 + 256)
    assert peak["reference"] > expansions  # what is measured is what it should be
    assert peak["fused"] < expansions / 3
