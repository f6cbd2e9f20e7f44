"""Which algorithm and protocol serves which message on which nodes, as a model of the network has it.

A choice that changes with the placement makes the time of one and the same bucket rise and fall with the world size,
and with it the share of the step that communication takes.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from kanstudy.analysis.network.network import Network
from kanstudy.layout import layout_text


def choices(network: Network, sizes: Sequence[int], layouts: Sequence[Sequence[int]]) -> pd.DataFrame:
    """What serves messages of `sizes` bytes on each layout, a row each: layout (text), world_size, message_bytes,
    choice, time_s, network, basis; source "predicted"."""
    rows = [_row(network, size, layout) for layout in layouts for size in sizes]
    columns = ["layout", "world_size", "message_bytes", "choice", "time_s", "network", "basis", "source"]
    return pd.DataFrame(rows, columns=columns)


def _row(network: Network, size: int, layout: Sequence[int]) -> dict[str, object]:
    best = network.choice(size, layout)
    return {
        "layout": layout_text(layout),
        "world_size": sum(layout),
        "message_bytes": size,
        "choice": str(best),
        "time_s": best.time_s,
        "network": network.name,
        "basis": network.basis,
        "source": "predicted",
    }
