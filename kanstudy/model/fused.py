"""The fused operator: a KAN layer on the CPU that never stores its expansion.

A chunk of rows is expanded into a scratch buffer that stays in cache and multiplied there; backward expands again
instead of remembering, so that only the input and the weight are kept for it. Kernels are serial and a product runs on
one thread: the chunks are what `torch.get_num_threads()` threads share, never more of them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad
from torch.nn import functional
from torch.utils.weak import WeakTensorKeyDictionary

from kanstudy.model.kernels import Basis
from kanstudy.model.reference import kan_linear
from kanstudy.model.scratch import Chunk, Scratch, writable

FEWEST_ROWS, MOST_ROWS = 128, 1024
"""Rows of a chunk. In fewer the product's own packing of the weight shows; more were not measured."""
FEWEST_MULTIPLICATIONS = 10**8
"""A product, about 2 ms on a core, below which waking threads costs more than sharing brings."""
BUFFER_ELEMENTS = 3 * 2**19
"""How many elements of the expansion a chunk has, where its rows allow: 6 MiB of float32 stay in the last cache."""

_aten = torch.ops.aten
_WRITE_BASE: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "silu": lambda x, out: _aten.silu.out(x, out=out),
    "gelu": lambda x, out: out.copy_(functional.gelu(x)),  # gelu.out leaves a strided float32 plane as it was
    "tanh": lambda x, out: torch.tanh(x, out=out),
    "identity": lambda x, out: out.copy_(x),
}
"""Activations, written into a plane: a temporary of a chunk's size would cost a pass through the cache."""
_WRITE_BASE_GRADIENT: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "silu": lambda gradient, x, out: _aten.silu_backward.grad_input(gradient, x, grad_input=out),
    "gelu": lambda gradient, x, out: _aten.gelu_backward.grad_input(gradient, x, grad_input=out),
    "tanh": lambda gradient, x, out: _aten.tanh_backward.grad_input(gradient, x.tanh(), grad_input=out),
    "identity": lambda gradient, x, out: out.copy_(gradient),
}
_bases = WeakTensorKeyDictionary()


_scratch = Scratch()


def kan_linear_fused(x: Tensor, knots: Tensor, weight: Tensor, spline_order: int, base_activation: str) -> Tensor:
    """`reference.kan_linear` on the CPU, for spline_order >= 1: x (..., in) to (..., out); arguments taken as checked.

    Under autocast the products are of its type, the basis of the input's. What the kernels cannot do goes by the
    reference: gradients of gradients and of knots, forward-mode ones, torch.func's transforms, and whatever watches
    torch's operations, such as a trace.
    """
    mixed = weight.dtype != x.dtype or weight.device != x.device  # which it refuses
    if mixed or knots.requires_grad or _is_watched():
        return kan_linear(x, knots, weight, spline_order, base_activation)
    product_type = x.dtype
    if torch.is_autocast_enabled("cpu") and x.dtype == torch.float32:
        product_type = torch.get_autocast_dtype("cpu")
    rows = x.reshape(-1, x.shape[-1]).resolve_neg()
    y = _KANLinear.apply(rows, knots, weight, spline_order, base_activation, product_type)
    return y.reshape(*x.shape[:-1], weight.shape[0])


def _is_watched() -> bool:
    """Whether something sees torch's operations that would not see those of the kernels."""
    return (
        torch._C._are_functorch_transforms_active()
        or torch._C._is_tracing()
        or torch._C._len_torch_dispatch_stack() > 0
        or forward_ad._current_level >= 0
    )


class _KANLinear(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, knots: Tensor, weight: Tensor, order: int, activation: str, product_type: torch.dtype
    ) -> Tensor:
        basis = _basis_of(knots, order)
        ctx.save_for_backward(x, weight)
        ctx.settings = (basis, activation, product_type)
        x = x.detach().contiguous()
        transposed = weight.detach().to(product_type).t()
        y = writable(product_type, x.shape[0], weight.shape[0])

        def multiply(start: int, stop: int) -> None:
            for rows, chunk in _chunks(start, stop, x, weight, product_type):
                _expand(basis, x[rows], activation, chunk)
                torch.mm(chunk.product, transposed, out=y[rows])

        _share_rows(x.shape[0], _multiplications(x, weight), multiply)
        return y

    @staticmethod
    def backward(ctx: Any, y_gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        basis, activation, product_type = ctx.settings
        needs_x, _, needs_weight, *_ = ctx.needs_input_grad
        create_graph = torch.is_grad_enabled()  # the gradient itself is to be differentiated
        if create_graph or _is_watched() or torch._C._functorch.is_legacy_batchedtensor(y_gradient):
            autocast = torch.autocast("cpu", dtype=product_type, enabled=product_type != x.dtype)
            with torch.enable_grad(), autocast:
                # as tensors of this layer alone: x may have come from the same weight
                x, weight = x.view_as(x), weight.view_as(weight)
                y = kan_linear(x, torch.from_numpy(basis.knots), weight, basis.order, activation)
            wanted = [tensor for tensor, needed in ((x, needs_x), (weight, needs_weight)) if needed]
            found = list(torch.autograd.grad(y, wanted, y_gradient, create_graph=create_graph))
            return found.pop(0) if needs_x else None, None, found.pop(0) if needs_weight else None, None, None, None
        x, y_gradient = x.detach().contiguous(), y_gradient.detach().contiguous()
        multiplied = weight.detach().to(product_type)
        x_gradient = torch.empty_like(x) if needs_x else None

        def differentiate(start: int, stop: int) -> Tensor | None:
            """The gradient of x in these rows; that of the weight is these rows' share."""
            share = torch.zeros_like(weight) if needs_weight else None
            for rows, chunk in _chunks(start, stop, x, weight, product_type):
                some_x, some_gradient = x[rows], y_gradient[rows]
                if share is not None:
                    _expand(basis, some_x, activation, chunk)
                    _add_product(share, some_gradient.t(), chunk.product)
                if x_gradient is not None:
                    some_x_gradient = x_gradient[rows]
                    torch.mm(some_gradient, multiplied, out=chunk.product)
                    _copy(chunk.product, chunk.planes)
                    _WRITE_BASE_GRADIENT[activation](chunk.base, some_x, some_x_gradient)
                    basis.contract(some_x.numpy(), chunk.array, some_x_gradient.numpy())
            return share

        total, *shares = _share_rows(x.shape[0], _multiplications(x, weight), differentiate)
        if shares and total is not None:
            # not by this thread: torch's own threads, once woken, keep spinning beside those of the next layer
            _pool(torch.get_num_threads(), os.getpid()).submit(_add_all, total, shares).result()
        return x_gradient, None, total, None, None, None


def _expand(basis: Basis, x: Tensor, activation: str, chunk: Chunk) -> None:
    basis.expand(x.numpy(), chunk.array)
    _WRITE_BASE[activation](x, chunk.base)
    _copy(chunk.planes, chunk.product)


def _copy(source: Tensor, target: Tensor) -> None:
    if target is not source:
        target.copy_(source)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:  # sums of many chunks stay in the higher type
        total += left @ right


def _add_all(total: Tensor, shares: list[Tensor]) -> None:
    for share in shares:
        total += share


def _multiplications(x: Tensor, weight: Tensor) -> int:
    """The work of one product; evaluating an element of the expansion costs about as much as 32 multiplications."""
    return x.shape[0] * weight.shape[1] * (weight.shape[0] + 32)


def _chunks(
    start: int, stop: int, x: Tensor, weight: Tensor, product_type: torch.dtype
) -> Iterator[tuple[slice, Chunk]]:
    """Slices of nearly equal length of the rows from start to stop, with scratch memory for each."""
    columns = weight.shape[1]
    most = min(max(BUFFER_ELEMENTS // columns, FEWEST_ROWS), MOST_ROWS)
    number = -(-(stop - start) // most)
    for index in range(number):
        rows = slice(start + (stop - start) * index // number, start + (stop - start) * (index + 1) // number)
        yield rows, _scratch.chunk(rows.stop - rows.start, columns, x.shape[1], x.dtype, product_type)


def _share_rows(rows: int, multiplications: int, work: Callable[[int, int], Any]) -> list[Any]:
    """work(start, stop) on all rows, shared among as many threads as torch may use; its results in order of rows."""
    threads = min(torch.get_num_threads(), rows // FEWEST_ROWS)
    if threads < 2 or multiplications < FEWEST_MULTIPLICATIONS:
        return [work(0, rows)]
    edges = [rows * index // threads for index in range(threads + 1)]
    return list(_pool(torch.get_num_threads(), os.getpid()).map(work, edges[:-1], edges[1:]))


@lru_cache(maxsize=1)
def _pool(threads: int, process_id: int) -> ThreadPoolExecutor:
    """Threads whose products run on one thread each; `process_id` gives a forked process its own."""
    all_started = threading.Barrier(threads)

    def start() -> None:
        torch.get_num_threads()  # torch overwrites what is set before its own first look
        torch.set_num_threads(1)
        all_started.wait()

    pool = ThreadPoolExecutor(threads, "kan_linear", initializer=start)
    for _ in range(threads):
        pool.submit(int)
    list(pool.map(int, range(threads)))
    torch.set_num_threads(threads)  # a thread's setting is also the default of threads that torch starts later
    return pool


def _basis_of(knots: Tensor, order: int) -> Basis:
    """The `Basis` of a layer's knots, made anew when their values are others: a look at them costs microseconds, and
    not every write is counted as a new version."""
    values = knots.detach().numpy()
    basis = _bases.get(knots)
    if basis is None or not basis.is_of(values, order):
        basis = _bases[knots] = Basis(values, order)
        basis.compile()
    return basis
