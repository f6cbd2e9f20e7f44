"""Values that nobody expects, and what is whole spoilt by them."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
ODD = [None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, 10**40, 0.0, -0.5, 1.5, 1e-300, 1e300, math.nan, math.inf]
ODD += ["", "x", "1", "../x", "a b", "é\n", "\x00", [], [1], [None], ["x"], [[]], {}, {"x": 1}]
ODD_VALUES = st.sampled_from(ODD) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The path of everything in nested tables and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def spoilt(values: Any, draw: st.DataObject, most: int = 3) -> Any:
    """The same with some things in it replaced, removed or added."""
    values = copy.deepcopy(values)
    for _ in range(draw.draw(st.integers(1, most))):
        found = list(places(values))
        if not found:
            break
        *path, last = draw.draw(st.sampled_from(found))
        parent = values
        for key in path:
            parent = parent[key]
        how = draw.draw(st.sampled_from(["replace", "replace", "remove", "add"]))
        if how == "replace":
            parent[last] = draw.draw(ODD_VALUES)
        elif how == "remove":
            del parent[last]
        elif isinstance(parent, dict):
            parent[draw.draw(st.text(max_size=5))] = draw.draw(ODD_VALUES)
        else:
            parent.append(draw.draw(ODD_VALUES))
    return values
