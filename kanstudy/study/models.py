"""The models of a series' points: the KAN, the MLP with about as many parameters, and controls at batches of their own.

Overhead may be the KAN's, by how its gradients come about edge by edge, or that of any model of its size. An MLP with
the same gradient bytes tells: with the same rows its step is shorter, with a larger batch as long, and its gradients
are those of matrix products either way. Which batch makes the steps equally long depends on the machine; it is given,
not assumed: how equal they are is measured (`kanstudy.analysis.controls`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kanstudy.sizes import matched_layer_widths
from kanstudy.spec import PointSpec, SpecError
from kanstudy.study.datasets.prepare import DatasetInfo
from kanstudy.study.series import CommunicationOverhead, Series, StrongScaling


def models(
    series: Series, data: DatasetInfo, hidden_widths: tuple[int, ...], grid_size: int
) -> Iterator[dict[str, Any]]:
    """The model fields of a point, for the KAN and, if asked for, the MLP with about as many parameters."""
    widths = (data.n_features, *hidden_widths, data.n_targets)
    if "kan" in series.models:
        kan = {"grid_size": grid_size, "spline_order": series.spline_order, "operator": series.operator}
        yield {"model": "kan", "layer_widths": widths, **kan}
    if "mlp" in series.models:
        yield _mlp(series, data, hidden_widths, grid_size)


def controls(
    series: StrongScaling | CommunicationOverhead,
    data: DatasetInfo,
    world_sizes: tuple[int, ...],
    settings: dict[str, Any],
) -> Iterator[PointSpec]:
    """The MLP with about as many parameters as the KAN on every world size above one, at each control batch.

    `settings` are the point's other fields. Raises `ValueError` naming what cannot be a control.
    """
    batches = series.control_batches
    if not batches:
        return
    where = f"control_batches = {list(batches)!r}"
    if len(set(batches)) < len(batches):
        raise ValueError(f"{where}: must be distinct")
    if "kan" not in series.models:
        raise ValueError(f"models = {list(series.models)!r}: must contain 'kan' where there are control_batches")
    if "mlp" in series.models and series.global_batch_size in batches:
        raise ValueError(f"{where}: must not hold {series.global_batch_size}, which the MLP of models measures")
    mlp = _mlp(series, data, series.hidden_widths, series.grid_size)
    for world_size in world_sizes:
        for batch in batches if world_size > 1 else ():
            scale: dict[str, Any] = {"scaling": "strong", "world_size": world_size, "global_batch_size": batch}
            try:
                yield PointSpec(**mlp, **scale, **settings)
            except SpecError as error:
                raise ValueError(f"{where}: {error}") from error


def _mlp(series: Series, data: DatasetInfo, hidden_widths: tuple[int, ...], grid_size: int) -> dict[str, Any]:
    widths = matched_layer_widths((data.n_features, *hidden_widths, data.n_targets), grid_size, series.spline_order)
    return {"model": "mlp", "layer_widths": widths, "grid_size": None, "spline_order": None, "operator": None}
