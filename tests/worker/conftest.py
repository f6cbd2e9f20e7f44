"""A tiny data set and a tiny plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import ROWS

from kanstudy.run_spec import RunSpec, data_key, to_json
from kanstudy.spec import PointSpec


@pytest.fixture(scope="session")
def data_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of a smooth target, 3 inputs, 2 targets."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (ROWS + 40, 3)).astype(np.float32)
    y = np.stack([np.sin(x.sum(1)), np.prod(x, 1)], 1).astype(np.float32)
    path = tmp_path_factory.mktemp("data") / "tiny.npz"
    np.savez(path, x_train=x[:ROWS], y_train=y[:ROWS], x_holdout=x[ROWS:], y_holdout=y[ROWS:], meta=np.array("{}"))
    return path


@pytest.fixture
def plan(data_file: Path, tmp_path: Path) -> Callable[..., Path]:
    """Write a plan of the given points; its path. Results go to `tmp_path/results`."""

    def write(*points: PointSpec, rounds: int | dict[str, int] = 2, **changes: Any) -> Path:
        values: dict[str, Any] = {
            "profile": "tiny",
            "experiment": "strong_scaling",
            "points": points,
            "data_files": {data_key(point): str(data_file) for point in points},
            "results_dir": str(tmp_path / "results"),
            "progress_file": str(tmp_path / "progress.jsonl"),
            "rounds": rounds if isinstance(rounds, dict) else {point.point_id: rounds for point in points},
            "collective_timeout_s": 30.0,
        }
        path = tmp_path / "plan.json"
        path.write_text(to_json(RunSpec(**(values | changes))))
        return path

    return write
