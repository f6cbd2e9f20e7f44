"""Strategies: what each rank of a parallel training step holds, and up to how many ranks there is something to hold.

- *Data parallel*: every rank holds the model and trains its share of the rows (PyTorch DDP).
- *Optimizer sharding*: the same, each rank keeping the optimizer's state of a share of the parameters (ZeRO-1,
  Rajbhandari et al. 2020): of equal slices of each gradient bucket, or of whole tensors as torch's
  `ZeroRedundancyOptimizer` deals them out.
- *Layers split*: `tensor_ranks` ranks hold one model together and train the same rows (Shoeybi et al. 2019). A KAN
  layer sums over its edges, so it can be cut as a linear layer can: by its outputs (*column*: a rank needs all inputs,
  and expands all of them), or by its inputs (*row*: a rank expands its own inputs only, and the outputs are summed over
  the ranks). In *pairs* a column layer gives a row layer its slice of inputs: nothing travels between.
- *Hybrids*: replicas of split models, each training its share of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from kanstudy.spec import PointSpec

SPLITS = ("none", "column", "row", "pairs")
SHARDINGS = ("none", "slices", "tensors")
_NAMES = {
    ("none", "none"): "data parallel",
    ("none", "slices"): "ZeRO-1, slices",
    ("none", "tensors"): "ZeRO-1, whole tensors",
    ("column", "none"): "split by output (column)",
    ("row", "none"): "split by input (row)",
    ("pairs", "none"): "split in pairs (column, row)",
}


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """Groups of `tensor_ranks` ranks hold a model together, its layers cut as `split` says; all groups share the rows.
    `sharding` says what a rank keeps of the optimizer's state.

    Raises `ValueError` naming field, value and what is allowed.
    """

    split: str = "none"
    tensor_ranks: int = 1
    sharding: str = "none"

    def __post_init__(self) -> None:
        if (self.split, self.sharding) not in _NAMES:
            allowed = " or ".join(f"{split!r} with sharding = {sharding!r}" for split, sharding in _NAMES)
            raise ValueError(f"split = {self.split!r} with sharding = {self.sharding!r}: must be {allowed}")
        whole = isinstance(self.tensor_ranks, int) and not isinstance(self.tensor_ranks, bool)
        if not whole or (self.tensor_ranks > 1) != (self.split != "none"):
            allowed = "1 where layers are not split" if self.split == "none" else "a whole number >= 2"
            raise ValueError(f"tensor_ranks = {self.tensor_ranks!r}: must be {allowed}")

    def name(self, world_size: int) -> str:
        """The strategy in words, a hybrid where there are several groups of `tensor_ranks`."""
        own = _NAMES[self.split, self.sharding]
        return own if self.tensor_ranks in (1, world_size) else f"data x {own}"

    def splits(self, layers: int) -> tuple[str, ...]:
        """How each layer is cut, input to output: none, column or row. Pairs end with a row layer: outputs are few."""
        if self.split != "pairs":
            return (self.split,) * layers
        return tuple("row" if (layers - layer) % 2 else "column" for layer in range(layers))


@dataclass(frozen=True, kw_only=True)
class Held(PointSpec):
    """What one rank trains, as a point over the replicas: layers of the largest slices, rows of its own."""

    shapes: tuple[tuple[int, int], ...]

    @property
    def layer_shapes(self) -> tuple[tuple[int, int], ...]:
        """Inputs and outputs of each layer's slice, input to output."""
        return self.shapes


def strategies(world_size: int) -> list[Strategy]:
    """All strategies for so many ranks: the splits over every divisor of them, the largest first."""
    if world_size == 1:
        return [Strategy()]
    divisors = [ranks for ranks in range(world_size, 1, -1) if world_size % ranks == 0]
    whole = [Strategy(sharding=sharding) for sharding in SHARDINGS]
    return whole + [Strategy(split=split, tensor_ranks=ranks) for split in SPLITS[1:] for ranks in divisors]


def held(point: PointSpec, strategy: Strategy, world_size: int, global_batch_size: int) -> Held:
    """What the rank with the largest slices trains, of `point` at another world size and batch."""
    ranks, found = strategy.tensor_ranks, []
    for (before, after), split in zip(point.layer_shapes, strategy.splits(len(point.layer_shapes)), strict=True):
        found.append(
            (
                largest_slice(before, ranks) if split == "row" else before,
                largest_slice(after, ranks) if split == "column" else after,
            )
        )
    part = point.with_batch(global_batch_size, world_size=world_size // ranks, injection="")
    return Held(**{item.name: getattr(part, item.name) for item in fields(PointSpec)}, shapes=tuple(found))


def largest_slice(width: int, ranks: int) -> int:
    """The largest of `ranks` slices of a width that are as equal as whole numbers allow."""
    return -(-width // ranks)


def obstacle(point: PointSpec, strategy: Strategy, world_size: int, global_batch_size: int) -> str:
    """Why so many ranks cannot share the work so, empty where they can (Kahira et al. 2021, limits of scaling).

    Rows that do not divide are refused as in a `PointSpec`: the replicas' mean would not be the global mean.
    """
    replicas, rest = divmod(world_size, strategy.tensor_ranks)
    if rest:
        return f"{world_size} ranks are no whole number of groups of {strategy.tensor_ranks}"
    if global_batch_size % replicas:
        return f"{global_batch_size} rows cannot be shared evenly by {replicas} replicas"
    splits = strategy.splits(len(point.layer_shapes))
    cut = [
        (after, number, "outputs") if split == "column" else (before, number, "inputs")
        for number, ((before, after), split) in enumerate(zip(point.layer_shapes, splits, strict=True), 1)
    ]
    width, number, what = min(cut)
    if width < strategy.tensor_ranks:
        return f"fewer {what} than ranks: layer {number} has {width} for {strategy.tensor_ranks}"
    return ""
