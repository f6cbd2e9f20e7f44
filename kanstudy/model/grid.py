"""Grids that follow the data: knots moved to the samples, grids made finer, and the edges' functions kept.

The knots follow Liu et al. 2024, "KAN: Kolmogorov-Arnold Networks", arXiv 2404.19756: a blend of the samples' quantiles
and a uniform grid over their range (`grid_eps`). The spline of an edge is then replaced by the nearest one on the new
grid (`refit`), so that a second update by the same samples changes nothing. What no layer can keep is the spline
outside the new grid, and any detail finer than the new grid's intervals. All of it is computed on the CPU, for a GPU
too.

A grid reaches from the least sample to the greatest: heavy tails stretch its outer intervals, and its least spacing
with them, until the bulk has few knots left. Normalise or clip such inputs first.

Distributed: with a group, or torch.distributed initialised, both functions are collective and every rank of the group
must call them. Samples are those of all ranks, in shards of any size, and all ranks leave with the same bits in knots
and weights, or with an error and nothing changed.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parallel import DistributedDataParallel

from kanstudy.model.bspline import matching_input, uniform_knots
from kanstudy.model.ranks import Ranks
from kanstudy.model.refit import refitted
from kanstudy.sizes import whole_number

if TYPE_CHECKING:
    from kanstudy.model.kan import KANLayer

GRID_EPS = 0.02
"""Share of the uniform grid in the blend, as the paper's authors set it."""
LEAST_SHARE = 1e-3
"""The smallest share taken: no interval is narrower than this part of a uniform one."""
FINEST_GAP = 32
"""No interval is narrower than this many roundings of the largest knot, so that values in it can be told apart."""
MARGIN = 0.01
"""How far the grid reaches beyond the samples on each side, as a part of their range."""
MOST_SAMPLES = 2**15
"""Rows, of all ranks together, from which quantiles are taken. By chance alone a quantile is then wrong by at most
0.3 % of the rows (a standard error), little against the 20 % of an interval of 5 and enough for 200, and a layer of
784 inputs needs 100 MB. Ranges and the search for NaN take every row."""
_ROWS_AT_ONCE = 8192


@torch.no_grad()
def update_grids(layers: Sequence[KANLayer], x: Tensor, grid_eps: float, group: dist.ProcessGroup | None) -> None:
    """Move the knots of a chain of layers to the samples x (..., in) of this rank, and keep what the layers compute.

    Layer by layer: each gets the outputs of the already updated layers before it. Knots and weights are written in
    place, and only when all layers are done. Base weights stay as they are, and so does a feature whose samples are
    constant, or so near to it that their type cannot hold a grid over their range: a warning on the group's first rank
    says how many. Gradients and an optimizer's moments belong to the old coefficients and are not touched: call it
    between steps. Where `grid_eps` is 1 the grid is uniform, at 0 it follows the quantiles; where quantiles coincide,
    as with many zeros, they are those of the distinct values.

    Raises `TypeError` for an x of another type, `ValueError` for another shape or device, non-finite samples, fewer
    samples than grid_size + spline_order, non-finite weights and a bad `grid_eps`; nothing is changed then.
    """
    ranks = Ranks(group, layers[0].knots.device)
    x = ranks.all_or_none("x or grid_eps", lambda: _rows_of(x, layers, grid_eps))
    moved: list[dict[str, Tensor]] = []
    kept = []
    with torch.autocast(x.device.type, enabled=False):
        for index, layer in enumerate(layers):
            if index:
                x = torch.cat(
                    [functional_call(layers[index - 1], moved[-1], (rows,)) for rows in x.split(_ROWS_AT_ONCE)]
                )
            samples, low, high = _statistics(x, layer.grid_size + layer.spline_order, f"input of layer {index}", ranks)
            old = layer.knots.cpu()
            knots, usable = _knots_of_data(samples, low, high, layer.grid_size, layer.spline_order, grid_eps)
            knots = torch.where(usable[:, None], knots, old)
            kept.append(int((~usable).sum()))
            changed = (knots != old).any(dim=1)
            weight = layer.weight.cpu().clone()
            edges = weight.unflatten(1, (-1, layer.in_features))
            edges[:, :, changed] = refitted(edges[:, :, changed], old[changed], knots[changed], layer.spline_order)
            moved.append(ranks.agreed(knots, weight, layer))
    for layer, state in zip(layers, moved, strict=True):
        layer.knots.copy_(state["knots"])
        layer.weight.copy_(state["weight"])
    if any(kept) and ranks.rank == 0:
        counts = ", ".join(f"{n} of {layers[i].in_features} in layer {i}" for i, n in enumerate(kept) if n)
        warnings.warn(f"features with (nearly) constant samples keep their grid: {counts}", stacklevel=3)


@torch.no_grad()
def refine_grids(layers: Sequence[KANLayer], new_grid_size: int, group: dist.ProcessGroup | None) -> None:
    """Give every layer `new_grid_size` intervals over each feature's present range, and keep what the layers compute.

    New knots are the old ones read as a function of their index, linear in between: a non-uniform grid keeps its shape,
    and a multiple of the old size keeps every old knot, so that the function stays the same to rounding inside the
    grid. A smaller size is allowed.

    `weight` becomes a new parameter of another shape: make the optimizer and DDP anew afterwards. The old ones would go
    on with the old weights, without an error: an old wrapper would train every rank by itself. Hence `RuntimeError`
    where one is still alive on any rank.

    Raises `ValueError` for a size that is no whole number >= 1 or that the layers' type cannot hold over the range, and
    for non-finite weights. Nothing is changed by a call that raises.
    """
    ranks = Ranks(group, layers[0].knots.device)
    size = ranks.all_or_none("new_grid_size", lambda: _size_of(new_grid_size, layers))
    if len(sizes := set(ranks.of_each(size))) > 1:
        raise ValueError(f"new_grid_size = {size}: must be the same on all ranks, which ask for {sorted(sizes)}")
    if any(ranks.of_each(ranks.distributed and _is_wrapped(layers))):
        raise RuntimeError("DistributedDataParallel still wraps this model: delete the wrapper, refine, and wrap anew")
    refined = []
    for layer in layers:
        order, old = layer.spline_order, layer.knots.cpu()
        uniform_knots(layer.grid_range, size, order, old.dtype)  # else a checkpoint could not be loaded
        knots = _extended(_at_even_indices(old[:, order : order + layer.grid_size + 1], size + 1), order).to(old.dtype)
        if not _resolved(knots).all():
            raise ValueError(f"new_grid_size = {size}: {old.dtype} cannot tell so many knots apart in a layer's range")
        edges = layer.weight.cpu().unflatten(1, (-1, layer.in_features))
        weight = refitted(edges, old, knots, order).flatten(1)
        refined.append(ranks.agreed(knots, weight, layer))
    for layer, state in zip(layers, refined, strict=True):
        layer.grid_size = size
        layer.knots = state["knots"]
        layer.weight = nn.Parameter(state["weight"], requires_grad=layer.weight.requires_grad)


def _is_wrapped(layers: Sequence[KANLayer]) -> bool:
    """Whether a DDP wrapper of a layer is alive. A module does not know its wrappers: look at every object there is."""
    gc.collect()  # wrappers that are garbage already
    wrappers = [thing for thing in gc.get_objects() if issubclass(type(thing), DistributedDataParallel)]
    return any(part is layer for wrapper in wrappers for part in wrapper.modules() for layer in layers)


def _rows_of(x: Tensor, layers: Sequence[KANLayer], grid_eps: float) -> Tensor:
    """x as rows for the first layer; `TypeError` and `ValueError` name what cannot be."""
    if not (isinstance(grid_eps, int | float) and 0 <= grid_eps <= 1):
        raise ValueError(f"grid_eps = {grid_eps!r}: must be a number from 0 to 1")
    _check_parameters(layers)
    x = matching_input(x, layers[0].knots).detach().reshape(-1, layers[0].in_features)
    if x.device != layers[0].knots.device:
        raise ValueError(f"x is on {x.device}, the layer on {layers[0].knots.device}")
    return x


def _size_of(new_grid_size: int, layers: Sequence[KANLayer]) -> int:
    _check_parameters(layers)
    return whole_number("new_grid_size", new_grid_size, 1)


def _check_parameters(layers: Sequence[KANLayer]) -> None:
    for layer in layers:
        if not isinstance(layer.weight, nn.Parameter):  # what is written to a computed one is lost
            raise TypeError(f"weight of KANLayer({layer.extra_repr()}) is computed: remove its parametrization first")


def _statistics(x: Tensor, fewest: int, name: str, ranks: Ranks) -> tuple[Tensor, Tensor, Tensor]:
    """Of the rows of all ranks, as if they lay one after the other: some, and each feature's least and greatest value.

    Same on every rank, on the CPU; `ValueError` where there are fewer than `fewest` or one is not finite.
    """
    low, high = x.aminmax(dim=0) if len(x) else (x.new_full(x.shape[1:], edge) for edge in (torch.inf, -torch.inf))
    # extremes pass NaN on, so that only bad rows are looked at one by one
    finite = bool((low.isfinite() & high.isfinite()).all())
    spoilt = ranks.of_each(0 if finite or not len(x) else int((~x.isfinite()).sum()))
    rows = ranks.of_each(len(x))
    if any(spoilt):
        raise ValueError(f"{name}: {sum(spoilt)} values are NaN or infinite; no grid was changed")
    if sum(rows) < fewest:
        raise ValueError(f"{name}: {sum(rows)} samples, at least {fewest} are needed; no grid was changed")
    negative_low, high = ranks.reduced(torch.stack([-low, high]), maximum=True).double().cpu()

    start, stop = sum(rows[: ranks.rank]), sum(rows[: ranks.rank + 1])
    chosen = _spread(sum(rows)).to(x.device)
    here = (chosen >= start) & (chosen < stop)
    samples = x.new_zeros(len(chosen), x.shape[1])
    samples[here] = x[chosen[here] - start]
    return ranks.reduced(samples).cpu(), -negative_low, high  # each row comes from one rank, the others add zeros


def _spread(rows: int) -> Tensor:
    """All row numbers, or MOST_SAMPLES of them spread evenly by multiples of the golden ratio: unlike a fixed stride
    they keep no step with rows that repeat a pattern."""
    if rows <= MOST_SAMPLES:
        return torch.arange(rows, device="cpu")
    turns = torch.arange(MOST_SAMPLES, dtype=torch.float64, device="cpu") * ((5**0.5 - 1) / 2)
    return (turns.frac() * rows).long()


def _knots_of_data(
    samples: Tensor, low: Tensor, high: Tensor, grid_size: int, spline_order: int, grid_eps: float
) -> tuple[Tensor, Tensor]:
    """Knots (in, grid_size + 2·spline_order + 1) in the type of samples (rows, in), whose ranges low and high (in,)
    are float64; and where they are usable (in,)."""
    ordered = samples.t().contiguous().sort(dim=1).values
    quantiles = _at_even_indices(ordered, grid_size + 1)
    for feature in (quantiles.diff() <= 0).any(dim=1).nonzero().flatten().tolist():
        quantiles[feature] = _at_even_indices(ordered[feature].unique_consecutive(), grid_size + 1)
    margin = MARGIN * (high - low)
    low, high = low - margin, high + margin
    quantiles[:, 0], quantiles[:, -1] = low, high
    uniform = low[:, None] + (high - low)[:, None] * torch.arange(grid_size + 1, device="cpu").double() / grid_size
    largest = low.abs().maximum(high.abs()) + spline_order * (high - low)
    # twice the finest: what is left after rounding is the finest still
    finest = 2 * FINEST_GAP * torch.finfo(samples.dtype).eps * largest
    share = (finest * grid_size / (high - low)).clamp(min=max(grid_eps, LEAST_SHARE))[:, None]
    knots = _extended(share * uniform + (1 - share) * quantiles, spline_order).to(samples.dtype)
    return knots, (share[:, 0] <= 1) & _resolved(knots)


def _at_even_indices(values: Tensor, count: int) -> Tensor:
    """Values (..., n) read as a function of their index, linear in between, at `count` equal steps from the first to
    the last; float64. Quantiles, where the values are in order."""
    last = values.shape[-1] - 1
    position = torch.arange(count, dtype=torch.float64, device="cpu") * last / (count - 1)
    below = position.floor().long()
    left, right = values[..., below].double(), values[..., (below + 1).clamp(max=last)].double()
    return left + (position - below) * (right - left)


def _extended(grid: Tensor, spline_order: int) -> Tensor:
    """The grid (in, n) with spline_order more knots on each side, in equal steps: of the outermost interval, or of the
    mean one where that is narrower. Longer steps beside a narrow interval would leave the outermost basis functions
    almost nothing inside the grid, and those beside a wide one make their coefficients large for nothing."""
    mean = (grid[:, -1:] - grid[:, :1]) / (grid.shape[1] - 1)
    steps = torch.arange(1, spline_order + 1, dtype=grid.dtype, device="cpu")
    left = grid[:, :1] - (grid[:, 1:2] - grid[:, :1]).minimum(mean) * steps.flip(0)
    right = grid[:, -1:] + (grid[:, -1:] - grid[:, -2:-1]).minimum(mean) * steps
    return torch.cat([left, grid, right], dim=1)


def _resolved(knots: Tensor) -> Tensor:
    """Where the span of knots (in, m) is finite and no interval is narrower than the finest."""
    limits = torch.finfo(knots.dtype)
    finest = (FINEST_GAP * limits.eps * knots.abs().amax(1)).clamp(min=limits.tiny)
    return (knots[:, -1] - knots[:, 0]).isfinite() & (knots.double().diff().amin(1) >= finest)
