"""All guidelines of a study in one frame, each with its number, interval, source and points."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from kanstudy.analysis import controls_words
from kanstudy.analysis.complementarity import UNTOLD
from kanstudy.analysis.guidelines.losses import compression, largest_loss, least_local_batch, local_batch
from kanstudy.analysis.guidelines.ranks import ranks, topology
from kanstudy.analysis.guidelines.sentences import COLUMNS
from kanstudy.analysis.guidelines.settings import bucket_cap, buffers
from kanstudy.analysis.guidelines.sizes import grid_size, model_size


def guidelines(
    strong: pd.DataFrame,
    weak: pd.DataFrame,
    overhead: pd.DataFrame,
    sizes: pd.DataFrame,
    factors: pd.DataFrame,
    verdicts: pd.DataFrame,
    operators: pd.DataFrame | None = None,
    controls: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """One row a guideline: topic, told (whether the data decide it), sentence, source, point_ids.

    The frames are those of `kanstudy.analysis.estimates`, of `attribution`, of `verdict`, for the operators of
    `complementarity`, and of `controls`; empty ones give no sentence.
    """
    rows = [
        *ranks(strong, "strong scaling"),
        *ranks(weak, "weak scaling"),
        *topology(strong),
        *largest_loss(verdicts),
        *local_batch(factors),
        *least_local_batch(factors, strong),
        *compression(factors),
        *bucket_cap(overhead),
        *buffers(overhead),
        *grid_size(sizes),
        *model_size(sizes),
        *(_operators(operators) if operators is not None else ()),
        *(_controls(controls) if controls is not None else ()),
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _operators(pairs: pd.DataFrame) -> Iterator[dict]:
    """Whether a faster operator and more ranks give together what they promise one by one."""
    for _, row in pairs.iterrows():
        points = " ".join(name for name in (row["point_id"], row["faster_point_id"]) if isinstance(name, str))
        found = {"topic": "operators", "told": row["verdict"] != UNTOLD, "sentence": row["sentence"]}
        yield found | {"source": row["source"], "point_ids": points}


def _controls(pairs: pd.DataFrame) -> Iterator[dict]:
    """Whether the exposed communication is the KAN's."""
    for _, row in pairs.iterrows():
        found = {"topic": "controls", "told": row["verdict"] != UNTOLD}
        points = f"{row['point_id']} {row['control_point_id']}"
        yield found | {"sentence": controls_words.sentence(row), "source": row["source"], "point_ids": points}
