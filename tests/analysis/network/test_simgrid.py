"""The closed forms against SimGrid, which sends every message of the same collective over the same links.

Optional: Debian's python3-simgrid and libsimgrid-dev. `pytest -rP` shows the table of agreement. Trees and NCCL's
choice are not among the collectives: their formulas are a limit of small pieces, and another tool's own model.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from kanstudy.analysis.network.network import Link, Network
from kanstudy.layout import layout_text

SCRIPT = Path(__file__).resolve().parents[2] / "simgrid_collectives.py"
INSIDE, BETWEEN = Link(latency_s=5e-6, bytes_per_s=1e10), Link(latency_s=2e-5, bytes_per_s=4e9)
COLLECTIVES = ("ring", "halving_doubling", "hierarchical", "broadcast")
EVEN = [(2,), (3,), (8,), (1, 1), (1, 1, 1), (2, 2), (4, 4), (3, 3, 3), (4, 4, 4, 4)]
UNEVEN = [(2, 2, 1), (4, 1), (3, 2)]
SIZES = (1000, 10**6, 25 * 10**6)


@cache
def interpreter() -> str | None:
    """A Python that has SimGrid."""
    for python in (sys.executable, "/usr/bin/python3"):
        command = [python, "-c", "import os, simgrid; os._exit(0)"]
        if Path(python).exists() and subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return python
    return None


def cases() -> list[dict]:
    """All collectives on all layouts; hierarchical rings are told as messages only where nodes have as many ranks."""
    links = {f"{tier}_{name}": getattr(link, name) for tier, link in (("inside", INSIDE), ("between", BETWEEN))
             for name in ("latency_s", "bytes_per_s")}  # fmt: skip
    return [
        links | {"algorithm": algorithm, "layout": layout, "message_bytes": size}
        for algorithm, layout, size in itertools.product(COLLECTIVES, [*EVEN, *UNEVEN], SIZES)
        if algorithm != "hierarchical" or layout in EVEN
    ]


def closed_form_s(case: dict) -> float:
    algorithm = case["algorithm"]
    if algorithm == "broadcast":
        return Network(inside=INSIDE, between=BETWEEN).broadcast_s(case["message_bytes"], case["layout"])
    network = Network(inside=INSIDE, between=BETWEEN, algorithm=algorithm)
    return network.allreduce_s(case["message_bytes"], case["layout"])


@pytest.fixture(scope="module")
def agreement() -> pd.DataFrame:
    python = interpreter()
    if python is None:
        pytest.skip("no Python here has SimGrid (apt-get install python3-simgrid libsimgrid-dev)")
    asked = cases()
    done = subprocess.run(
        [python, str(SCRIPT)], input=json.dumps(asked), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    table = pd.DataFrame(asked).assign(simulated_s=json.loads(done.stdout.splitlines()[-1]))
    table["closed_form_s"] = [closed_form_s(case) for case in asked]
    table["ratio"] = table["closed_form_s"] / table["simulated_s"]
    table["layout"] = table["layout"].map(layout_text)
    print(
        table.pivot_table(index=["algorithm", "layout"], columns="message_bytes", values="ratio").round(4).to_string()
    )
    return table


def test_collectives_of_nodes_with_as_many_ranks_take_the_time_of_their_messages(agreement):
    even = agreement[~agreement["layout"].str.contains(r"\+") & ~_folded(agreement)]
    assert len(even) > 80
    assert even["ratio"].between(0.999, 1.001).all()


def test_where_ranks_are_left_over_halving_and_doubling_is_an_upper_bound(agreement):
    """Not every step waits for all pairs of the one before."""
    others = agreement[agreement["layout"].str.contains(r"\+") | _folded(agreement)]
    is_bound = others["algorithm"] == "halving_doubling"
    assert others.loc[~is_bound, "ratio"].between(0.999, 1.001).all()
    assert others.loc[is_bound, "ratio"].between(0.999, 1.4).all()


def _folded(table: pd.DataFrame) -> pd.Series:
    """Halving and doubling where the world size is no power of two."""
    return (table["algorithm"] == "halving_doubling") & table["layout"].isin(["1x3", "3x1", "3x3"])
