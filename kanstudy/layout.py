"""The layout of a group of ranks: how many of them lie on each of its nodes, such as (2, 2, 1).

Standard library only: the plan, the worker and every cost model speak of it.
"""

from __future__ import annotations

from collections.abc import Sequence


def layout_of(world_size: int, placement: str, ranks_per_node: int, nodes: int) -> tuple[int, ...]:
    """The layout of so many ranks where a node takes at most `ranks_per_node`, and there are `nodes`.

    `packed` fills node after node, however many that takes; `spread` takes as many nodes as there are (2 ranks on 2
    nodes, 4 ranks on 4), each with as many ranks as another or one less.
    """
    if placement == "packed":
        full, rest = divmod(world_size, ranks_per_node)
        return (ranks_per_node,) * full + ((rest,) if rest else ())
    count = min(world_size, nodes)
    return tuple(world_size // count + (node < world_size % count) for node in range(count))


def layout_text(layout: Sequence[int]) -> str:
    """The layout as text: "2x1" is two nodes with one rank each, "2+2+1" five ranks on three nodes."""
    if len(set(layout)) == 1:
        return f"{len(layout)}x{layout[0]}"
    return "+".join(map(str, layout))
