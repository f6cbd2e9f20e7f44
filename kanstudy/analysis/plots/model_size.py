"""The figure of model sizes: what width and grid size cost in time and memory."""

from __future__ import annotations

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from kanstudy.analysis.plots.axes import estimate, has, legend, panels, plain_log_axis
from kanstudy.analysis.plots.style import STYLE, line_of, message, series_looks
from kanstudy.analysis.series import WORK_KEYS, source_suffix, told_apart

_SIZE_PANELS = (
    ("step_time_s", 1e3, "step time (ms)"),
    ("peak_memory_bytes", 1 / 2**20, "peak memory a rank (MiB)"),
    ("params_per_byte", 2**20, "parameters per MiB"),
)


def model_size(estimates: pd.DataFrame) -> Figure:
    """Step time, peak memory and parameters per byte over the number of parameters, a line for all widths of the same
    work and grid size."""
    if not has(estimates, "step_time_s"):
        return message("No model size is measured")
    work = [name for name in WORK_KEYS if name != "layer_widths"]
    names = estimates["model"].str.upper() + estimates["grid_size"].map(
        lambda g: "" if pd.isna(g) else f", grid {g:.0f}"
    )
    names += source_suffix(estimates)
    estimates = estimates.assign(line=told_apart(names, estimates[[*work, "global_batch_size", "world_size"]]))
    with matplotlib.rc_context(STYLE):
        figure, axes = panels(3, height=2.4)
        for label, look in series_looks(estimates["line"], estimates["model"]).items():
            rows = estimates[estimates["line"] == label].sort_values("n_params")
            for axis, (column, scale, _) in zip(axes, _SIZE_PANELS, strict=True):
                axis.plot(rows["n_params"], rows[column] * scale, line_of(rows), color=look.colour, zorder=2)
                axis.plot([], [], line_of(rows), color=look.colour, marker=look.marker, label=label)
                for _, row in rows.iterrows():
                    estimate(axis, row["n_params"], row, column, look, scale=scale)
        for axis, (_, _, title) in zip(axes, _SIZE_PANELS, strict=True):
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xlabel("parameters")
            axis.set_title(title)
            axis.grid(visible=True, which="major")
            plain_log_axis(axis.yaxis, (1.0, 2.0, 5.0))
            plain_log_axis(axis.xaxis, (1.0, 3.0))
        legend(figure, axes[0])
    return figure
