"""What grid and width cost in memory. Memory is counted, not timed, so it has no interval.

Frames are those of `estimates.model_size`; a guideline is a row of `sentences.COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from kanstudy.analysis.guidelines.sentences import but, by, of_kans, sentence

_COUNTED = "counted, so without interval"


def grid_size(sizes: pd.DataFrame) -> Iterator[dict]:
    """Parameters per byte over grid sizes, of the same widths."""
    for _, group in by(of_kans(sizes), but("grid_size")):
        group = group.dropna(subset="params_per_byte").sort_values("grid_size")
        if group["grid_size"].nunique() < 2:
            continue
        first, last = group.iloc[0], group.iloc[-1]
        before, after = first["params_per_byte"], last["params_per_byte"]
        text = (
            f"widths {first['layer_widths']}: from grid {first['grid_size']:.0f} to {last['grid_size']:.0f} the "
            f"parameters per byte of peak memory go from {before:.4f} to {after:.4f} ({after / before:.2f} times; "
            f"{_COUNTED})"
        )
        yield sentence("grid size", True, text, group)


def model_size(sizes: pd.DataFrame) -> Iterator[dict]:
    """The largest of the measured widths that a rank's memory held, with all else alike, and which did not fit."""
    for _, group in by(of_kans(sizes), but("layer_widths")):
        group = group.sort_values("n_params")
        held, over = group.dropna(subset="peak_memory_bytes"), group[group["status"] == "oom"]
        if held.empty or held["layer_widths"].nunique() + len(over) < 2:
            continue
        last = held.iloc[-1]
        text = (
            f"grid {last['grid_size']:.0f}, {last['local_batch_size']} rows a rank: a rank's memory held widths "
            f"{last['layer_widths']} ({last['n_params']:.0f} parameters) in {last['peak_memory_bytes'] / 2**20:.0f} MiB"
        )
        if len(held) > 1:
            first = held.iloc[0]
            grown = last["params_per_byte"] / first["params_per_byte"]
            text += f", {grown:.2f} times the parameters per byte of widths {first['layer_widths']}"
        text += f"; {', '.join(map(str, over['layer_widths']))} did not fit" if len(over) else "; all measured ones fit"
        yield sentence("model size", True, f"{text} ({_COUNTED})", pd.concat([held, over]))
