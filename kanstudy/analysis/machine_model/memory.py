"""A rank's memory in a step, in closed form: what is held throughout, and what is needed when most is held.

Counted from what torch's autograd keeps for each operator: the fused one a layer's input, from which it expands again;
the reference its expansion and every step of the recurrence; an MLP what is before and after each activation. What
torch.compile keeps is its own decision: it is taken as the reference's, an upper bound (on a CPU it was 0.55 to 0.75 of
it), and so is an operator `auto`. The fused operator's scratch memory, at most 6 MiB a thread, is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise

from kanstudy.analysis.machine_model.work import buffer_bytes, layer_bytes, rows, tensor_bytes, terms, word_bytes
from kanstudy.spec import PointSpec

_MOMENTS = {"adam": 2, "sgd": 0}


def peak_memory_bytes(point: PointSpec, arm: str, stepped_bytes: Sequence[int] | None = None) -> int:
    """The most bytes that tensors hold on a rank during a step of the arm, the batch included.

    `stepped_bytes` are the tensors whose optimizer state the rank keeps, where that is not all of them.

    The largest of four moments: a layer expands in forward, the loss is made, a layer's backward has its gradients, the
    optimizer works. Throughout it holds parameters, moments, knots, the batch and DDP's buckets, which stay beside the
    gradients.
    """
    word, gradients, n_rows = word_bytes(point), layer_bytes(point), rows(point, arm)
    stepped = list(chain(*tensor_bytes(point))) if stepped_bytes is None else stepped_bytes
    held = sum(gradients) * (1 + arm.startswith("ddp")) + sum(stepped) * _MOMENTS[point.optimizer]
    inputs, outputs = point.layer_shapes[0][0], point.layer_shapes[-1][1]
    held += buffer_bytes(point) + word * n_rows * (inputs + outputs)
    output = word * n_rows * outputs  # kept until the step ends
    moments: list[float] = [output + sum(gradients) + _optimizer_bytes(point, stepped)]
    saved = 0.0
    for layer, (width, _) in enumerate(point.layer_shapes):
        moments.append(saved + word * n_rows * width * _expanding(point, layer))
        saved += word * n_rows * width * _saved(point, layer)
        backward = word * n_rows * _differentiating(point, layer)
        moments.append(saved + backward + sum(gradients[layer:]) + output)
    moments.append(saved + 3 * output)
    return round(held + max(moments))


def _saved(point: PointSpec, layer: int) -> float:
    """Numbers that a layer's forward keeps for backward, an input and row; the first layer's inputs are the batch."""
    if point.model == "mlp":
        return 2 if layer else 0
    if point.operator == "fused":
        return 1 if layer else 0
    knots, order = _knots(point)
    if layer == 0:
        return terms(point)
    # the steps, each divided by its widths; and offsets, which the first step, whose basis is constant, does not need
    recurrence = sum(knots - step for step in range(1, order + 1)) + (knots if order > 1 else 0)
    return terms(point) + recurrence + 1 + 1 / word_bytes(point)  # a byte for what lies outside the grid


def _expanding(point: PointSpec, layer: int) -> float:
    """The same, of what is held in the middle of forward: the recurrence's first step."""
    if point.model == "mlp" or point.operator == "fused":
        return 0
    knots, _ = _knots(point)
    own = 1 + 1 / word_bytes(point) if layer else 0
    return knots + 2 * (knots - 1) + 3 * (knots - 2) + knots / word_bytes(point) + 1 + own


def _differentiating(point: PointSpec, layer: int) -> float:
    """Numbers a row that a layer's backward holds beyond what was kept: gradients of its outputs and inputs."""
    width, after = point.layer_shapes[layer]
    if layer == 0:
        return after
    if point.model == "mlp" or point.operator == "fused":
        return after + width
    knots, order = _knots(point)
    return width * (knots + 3 * (knots - 1 - order) + 1)


def _optimizer_bytes(point: PointSpec, stepped: Sequence[int]) -> int:
    """Temporaries of torch's Adam on a CPU, tensor after tensor: two of its size beside one of the tensor before.

    On a GPU, where all tensors go at once, it is one of the size of all.
    """
    if point.optimizer != "adam":
        return 0
    return max(2 * size + before for before, size in pairwise([0, *stepped]))


def _knots(point: PointSpec) -> tuple[int, int]:
    """Knots an input of a KAN, and its spline order."""
    order: int = point.spline_order  # type: ignore[assignment]  # whole in a KAN's point
    return terms(point) + order, order
