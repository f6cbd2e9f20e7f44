"""What the ranks of a strategy send each other in one training step, collective by collective, and what they keep.

A message's size is what torch's call is handed or fills: the tensor of an all-reduce or a broadcast, all slices
together of an all-gather or a reduce-scatter. Slices that are not equal are padded to the largest.

- Gradients: one all-reduce a bucket (Li et al. 2020, PyTorch DDP). With the optimizer sharded by slices one
  reduce-scatter a bucket in its place and an all-gather of its new parameters, together as much as the all-reduce
  (Rajbhandari et al. 2020, section 7); torch's sharding by whole tensors keeps the all-reduce and broadcasts each
  tensor from its owner, half as much again.
- Activations of b rows (Shoeybi et al. 2019, section 3; Kahira et al. 2021, filter and channel parallelism). A column
  layer all-gathers its outputs in forward and all-reduces its inputs' gradients in backward; a row layer all-reduces
  its outputs in forward and all-gathers its inputs' gradients in backward; inside a pair nothing travels. The
  network's own inputs need no gradient, and a row layer takes its slice of them for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from kanstudy.analysis.machine_model.buckets import gradient_buckets
from kanstudy.analysis.machine_model.work import buffer_bytes, layer_bytes, word_bytes
from kanstudy.analysis.strategies.strategy import Held, Strategy, largest_slice

COLLECTIVES = ("allreduce", "reduce_scatter", "allgather", "broadcast")


@dataclass(frozen=True)
class Message:
    """One call of a collective among `ranks` ranks, of so many bytes."""

    collective: str
    message_bytes: int
    ranks: int

    @property
    def sent_bytes(self) -> float:
        """Bytes that a rank sends, and receives, where the collective runs as a ring: (p-1)/p · S, an all-reduce twice
        that (Patarasuk & Yuan 2009); of a pipelined broadcast the mean over ranks."""
        return (1 + (self.collective == "allreduce")) * (self.ranks - 1) / self.ranks * self.message_bytes


@dataclass(frozen=True)
class StepMessages:
    """The messages of one step: `activations` among the ranks that hold a model together, in forward and backward, on
    the critical path; among replicas `buffers` before forward, `gradients` while backward goes on, `parameters` after
    the optimizer."""

    activations: tuple[Message, ...]
    buffers: tuple[Message, ...]
    gradients: tuple[Message, ...]
    parameters: tuple[Message, ...]

    @property
    def all(self) -> tuple[Message, ...]:
        """All messages of the step."""
        return self.activations + self.buffers + self.gradients + self.parameters


def step_messages(held: Held, strategy: Strategy) -> StepMessages:
    """What a rank that holds `held` under the strategy takes part in."""
    replicas = held.world_size
    if replicas == 1:
        return StepMessages(_activations(held, strategy), (), (), ())
    buckets = gradient_buckets(held)
    gradients = [Message("allreduce", size, replicas) for size in buckets]
    parameters = []
    if strategy.sharding == "slices":
        gradients = [Message("reduce_scatter", _padded(held, size), replicas) for size in buckets]
        parameters = [Message("allgather", _padded(held, size), replicas) for size in buckets]
    elif strategy.sharding == "tensors":
        parameters = [Message("broadcast", size, replicas) for size in layer_bytes(held)]
    buffers = [Message("broadcast", buffer_bytes(held), replicas)] * held.sync_buffers
    return StepMessages(_activations(held, strategy), tuple(buffers), tuple(gradients), tuple(parameters))


def stepped_bytes(held: Held, strategy: Strategy) -> list[int]:
    """Bytes of each tensor, or slice of a bucket, that the optimizer steps on the rank where it steps most.

    Whole tensors go, the largest first, to the rank that has least so far, as in torch's `ZeroRedundancyOptimizer`.
    """
    if strategy.sharding == "slices":
        return [_padded(held, size) // held.world_size for size in gradient_buckets(held)]
    if strategy.sharding == "none":
        return layer_bytes(held)
    shares: list[list[int]] = [[] for _ in range(held.world_size)]
    for size in sorted(layer_bytes(held), reverse=True):
        min(shares, key=sum).append(size)
    return max(shares, key=sum)


def _activations(held: Held, strategy: Strategy) -> tuple[Message, ...]:
    widths, ranks = held.layer_widths, strategy.tensor_ranks
    splits = strategy.splits(len(widths) - 1)
    column_bytes = held.local_batch_size * word_bytes(held)

    def gathered(width: int) -> Message:
        return Message("allgather", column_bytes * ranks * largest_slice(width, ranks), ranks)

    def reduced(width: int) -> Message:
        return Message("allreduce", column_bytes * width, ranks)

    forward, backward = [], []
    for layer, split in enumerate(splits):
        sliced = layer > 0 and splits[layer - 1] == "column"
        if split == "column":
            forward += [gathered(widths[layer])] * sliced
            backward += [reduced(widths[layer])] * (layer > 0)
        elif split == "row":
            forward += [reduced(widths[layer + 1])]
            backward += [gathered(widths[layer])] * (layer > 0 and not sliced)
    if splits[-1] == "column":
        forward += [gathered(widths[-1])]  # the loss needs all outputs
    return (*forward, *reversed(backward))


def _padded(held: Held, size: int) -> int:
    """Bytes of a bucket with which every replica has a slice of as many numbers."""
    word = word_bytes(held)
    return word * held.world_size * largest_slice(size // word, held.world_size)
