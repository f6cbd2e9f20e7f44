"""How large a training step is: rows, tensors, floating-point operations, activations. Sizes only, no time."""

from __future__ import annotations

from kanstudy.sizes import kan_flops_per_sample, kan_terms, mlp_flops_per_sample
from kanstudy.spec import PointSpec


def rows(point: PointSpec, arm: str) -> int:
    """Rows that a rank trains in a step of the arm."""
    return point.global_batch_size if arm == "serial_global" else point.local_batch_size


def word_bytes(point: PointSpec) -> int:
    """Bytes of a number."""
    return 4 if point.dtype == "float32" else 8


def terms(point: PointSpec) -> int:
    """Weights an edge: a KAN's basis functions and its base term, one of an MLP."""
    return kan_terms(point.grid_size, point.spline_order) if point.model == "kan" else 1  # type: ignore[arg-type]


def tensor_bytes(point: PointSpec) -> list[list[int]]:
    """Bytes of each layer's parameters, input to output, tensor by tensor: a KAN's weight; an MLP's weight and bias."""
    weights = [word_bytes(point) * before * after * terms(point) for before, after in point.layer_shapes]
    if point.model == "kan":
        return [[weight] for weight in weights]
    biases = [word_bytes(point) * after for _, after in point.layer_shapes]
    return [list(tensors) for tensors in zip(weights, biases, strict=True)]


def layer_bytes(point: PointSpec) -> list[int]:
    """Bytes of each layer's gradients, input to output."""
    return [sum(tensors) for tensors in tensor_bytes(point)]


def n_parameters(point: PointSpec) -> int:
    """Trainable parameters of the model."""
    return sum(layer_bytes(point)) // word_bytes(point)


def buffer_bytes(point: PointSpec) -> int:
    """Bytes of a KAN's knots, which DDP can broadcast in every forward: grid + 2·order + 1 an input."""
    if point.model != "kan":
        return 0
    knots = point.grid_size + 2 * point.spline_order + 1  # type: ignore[operator]  # whole in a KAN's point
    return word_bytes(point) * knots * sum(before for before, _ in point.layer_shapes)


def flops_per_sample(point: PointSpec) -> int:
    """Floating-point operations of the matrix products of forward and backward for one row, as a record has them."""
    if point.model != "kan":
        return sum(mlp_flops_per_sample(shape) for shape in point.layer_shapes)
    size, order = point.grid_size, point.spline_order
    layers = [kan_flops_per_sample(shape, size, order) for shape in point.layer_shapes]  # type: ignore[arg-type]
    return sum(layers)


def activation_bytes_per_sample(point: PointSpec) -> int:
    """Bytes that all that works element by element writes and reads for one row, in forward and backward.

    What the weights multiply is written and read in forward, once more in backward, and so is its gradient: 6 times a
    KAN's inputs expanded to their terms, or an MLP's inputs. The reference operator writes and reads every step of its
    recurrence, too.
    """
    return sum(layer_activation_bytes(point))


def layer_activation_bytes(point: PointSpec) -> list[int]:
    """The same of each layer, input to output."""
    elements = _of_reference(point) if point.operator == "reference" else 6 * terms(point)
    return [word_bytes(point) * elements * before for before, _ in point.layer_shapes]


def _of_reference(point: PointSpec) -> int:
    """Elements an input that the recurrence moves: a quotient, two products and a difference a step; backward moves
    twice as many as forward."""
    order: int = point.spline_order  # type: ignore[assignment]  # whole in a KAN's point
    knots = terms(point) + order
    steps = sum(2 * (knots - step) + 9 * (knots - 1 - step) for step in range(1, order + 1))
    return 3 * (2 * knots + steps + 2 * terms(point))


def layer_backward_flops(point: PointSpec) -> list[int]:
    """Floating-point operations of each layer's backward for one row: the gradients of weights and of inputs, 2 a
    weight each; the first layer's inputs are data and need none."""
    first, *others = (before * after * terms(point) for before, after in point.layer_shapes)
    return [2 * first, *(4 * edges for edges in others)]


def kernels(point: PointSpec) -> int:
    """Kernels that a GPU is given in forward and backward, about: counted in the operator's code, its backward and the
    loss. Of the reference each step of the recurrence is several; a compiled layer is its products and what surrounds
    them."""
    if point.model == "mlp":
        own = 6
    elif point.operator == "reference":
        own = 26 + 24 * point.spline_order  # type: ignore[operator]  # whole in a KAN's point
    else:
        own = 8
    return own * len(point.layer_shapes) + 5
