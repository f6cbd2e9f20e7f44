"""The record of an operator benchmark: what was asked for, and everything measured, units in the field names.

One JSON file, `<results>/bench/operator.json`. Missing is null, with a reason beside it. Raw block times are kept; what
can be derived (medians, ratios) is not stored. Standard library only.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kanstudy.files import write_atomically
from kanstudy.sizes import widths
from kanstudy.strict_json import RecordError, as_list, as_object, build_strictly, rounded, without_nan

SCHEMA_VERSION = 1
FLOOR = "floor"
OPERATORS = {
    FLOOR: "floor: matrix products",
    "fused": "fused",
    "fused_bf16": "fused, bfloat16 products",
    "fused_moved": "fused, moved grid",
    "compiled": "compiled",
    "reference": "reference",
    "mlp": "MLP, as many parameters",
}
"""Candidates of this package, and how tables and figures call them."""
PEERS = {"inkan": "inkan", "flashkan": "flashkan", "pykan": "kan"}
"""Other packages' layers: the name of the package, and of the module that it installs."""
STATUSES = ("ok", "absent", "failed", "oom", "timeout", "slow", "not measured")
"""Of a part: measured; not installed; raised or died; had no memory; took too long; not timed, since one step takes
too long to be repeated; not come to yet."""
DEFAULT_SHAPES = ("64,64,64,1:1024", "784,64,10:1024", "128,256,256,1:2048", "256,512,512,1:4096")
ACCURACY_GRIDS = (5, 20, 200)
GRID_SIZE, SPLINE_ORDER, LEARNING_RATE = 5, 3, 1e-3


@dataclass(frozen=True)
class Shape:
    """Layer widths and the rows of a batch, written `64,64,64,1:1024`."""

    layer_widths: tuple[int, ...]
    batch_size: int

    def __str__(self) -> str:
        return f"{','.join(map(str, self.layer_widths))}:{self.batch_size}"


def shape_of(text: str) -> Shape:
    """A shape from its text; `ValueError` says what is wrong with it. At least one hidden layer, for the MLP."""
    before, _, after = text.partition(":")
    try:
        layer_widths = widths([int(width) for width in before.split(",")])
        batch_size = int(after)
    except ValueError:
        layer_widths, batch_size = (), 0
    if len(layer_widths) < 3 or batch_size < 1:
        raise ValueError(
            f"shape {text!r}: must be at least three layer widths, a colon and the rows of a batch, as in "
            f"{DEFAULT_SHAPES[0]}"
        )
    return Shape(layer_widths, batch_size)


@dataclass(frozen=True, kw_only=True)
class Request:
    """What one process is asked for: `task` is first_step, memory, accuracy (each of one candidate) or timing (of all,
    interleaved). It writes its answer, a JSON object, to the file `answer`; `progress` takes its events."""

    task: str
    candidates: list[str]
    added: dict[str, str]
    shape: str | None
    threads: int
    cores: list[int] | None
    seed: int
    rounds: int
    block_s: float
    answer: str
    progress: str


@dataclass(kw_only=True)
class Part:
    """How one part of the measurement went: `status` is one of `STATUSES`, `reason` says why it is not ok."""

    status: str = "not measured"
    reason: str | None = None


@dataclass(kw_only=True)
class Timing(Part):
    """One block a round: `block_times_s[r]` is the time of `steps_per_block` steps, `places[r]` the block's place among
    all blocks of its round, from 0."""

    steps_per_block: int | None = None
    block_times_s: list[float] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


@dataclass(kw_only=True)
class Memory(Part):
    """A fresh process: `peak_bytes` is the most memory of one step above what was resident before the model's first
    step; `step_times_s` are its few steps."""

    peak_bytes: int | None = None
    step_times_s: list[float] = field(default_factory=list)


@dataclass(kw_only=True)
class Cell:
    """One candidate at one shape. `first_step_cold_s` and `first_step_warm_s` run from before the model is built to the
    end of its first training step, imports and compilation included, with empty and with filled compiler caches.
    `losses` are those of the first steps (only where precisions are compared)."""

    shape: str
    candidate: str
    n_params: int | None = None
    first_step_cold_s: float | None = None
    first_step_warm_s: float | None = None
    losses: list[float] | None = None
    memory: Memory = field(default_factory=Memory)
    timing: Timing = field(default_factory=Timing)


@dataclass(kw_only=True)
class Accuracy(Part):
    """A candidate's basis functions against SciPy's: `max_errors[i]` is the largest difference at grid `grids[i]`."""

    candidate: str
    grids: list[int] = field(default_factory=lambda: list(ACCURACY_GRIDS))
    max_errors: list[float] | None = None


@dataclass(kw_only=True)
class BenchRecord:
    """Everything measured. `candidates` is name to label; `added` is name to `FILE.py:CLASS`; `versions` name to the
    peer's version; `cores` the logical CPUs that the processes were pinned to, null where the system cannot."""

    schema_version: int = SCHEMA_VERSION
    kind: str = "operator"
    source: str = "measured"
    profile: str | None
    status: str = "partial"
    seed: int
    threads: int
    cores: list[int] | None
    rounds_planned: int
    block_s: float
    dtype: str = "float32"
    grid_size: int = GRID_SIZE
    spline_order: int = SPLINE_ORDER
    learning_rate: float = LEARNING_RATE
    shapes: list[str]
    candidates: dict[str, str]
    added: dict[str, str]
    versions: dict[str, str | None]
    cells: list[Cell] = field(default_factory=list)
    accuracy: list[Accuracy] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)

    def cell(self, shape: str, candidate: str) -> Cell:
        """The cell of a candidate at a shape; `KeyError` where there is none."""
        for cell in self.cells:
            if (cell.shape, cell.candidate) == (shape, candidate):
                return cell
        raise KeyError((shape, candidate))

    def parts(self) -> list[Part]:
        """Every part of the measurement, with its status."""
        return [part for cell in self.cells for part in (cell.memory, cell.timing)] + list(self.accuracy)


def record_path(results_dir: Path | str) -> Path:
    """Where the record of a results folder lies."""
    return Path(results_dir) / "bench" / "operator.json"


def write_bench(record: BenchRecord, results_dir: Path | str) -> Path:
    """Write the record to its place, atomically. Returns the path; raises `OSError` where that fails."""
    path = record_path(results_dir)
    values = dataclasses.asdict(record)
    values |= {name: rounded(values[name]) for name in ("cells", "accuracy")}
    write_atomically(path, json.dumps(without_nan(values), separators=(",", ":"), allow_nan=False))
    return path


def read_bench(results_dir: Path | str) -> BenchRecord:
    """Read and check a results folder's record.

    Raises `RecordError` naming file and field where it is not JSON, not of this schema, or inconsistent in itself;
    `OSError` where it cannot be read.
    """
    path = record_path(results_dir)
    try:
        return _from_values(json.loads(path.read_text(encoding="utf-8")))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: not JSON: {error}") from error
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error


def _from_values(values: object) -> BenchRecord:
    version = as_object(values, "record").get("schema_version")
    if version != SCHEMA_VERSION:
        raise RecordError(f"schema_version {version!r}: this version of kanstudy reads {SCHEMA_VERSION}")
    record: BenchRecord = build_strictly(BenchRecord, values, "record")
    if record.kind != "operator":
        raise RecordError(f"kind {record.kind!r}: must be operator")
    record.cells = [_cell(item) for item in as_list(record.cells, "cells")]
    record.accuracy = [build_strictly(Accuracy, item, "accuracy") for item in as_list(record.accuracy, "accuracy")]
    for part in record.parts():
        if part.status not in STATUSES:
            raise RecordError(f"status {part.status!r}: must be one of {', '.join(STATUSES)}")
    wanted = [(shape, candidate) for shape in record.shapes for candidate in record.candidates]
    if sorted((cell.shape, cell.candidate) for cell in record.cells) != sorted(wanted):
        raise RecordError("cells: must be one for each candidate at each shape")
    if [item.candidate for item in record.accuracy] != list(record.candidates):
        raise RecordError("accuracy: must be one for each candidate")
    for shape in record.shapes:
        timings = [cell.timing for cell in record.cells if cell.shape == shape and cell.timing.status == "ok"]
        if len({len(timing.block_times_s) for timing in timings}) > 1:
            raise RecordError(f"cells of {shape}: hold different rounds, so they cannot be compared pair by pair")
    return record


def _cell(values: object) -> Cell:
    cell: Cell = build_strictly(Cell, values, "cells")
    cell.memory = build_strictly(Memory, cell.memory, "cells.memory")
    cell.timing = build_strictly(Timing, cell.timing, "cells.timing")
    if len(cell.timing.places) != len(cell.timing.block_times_s):
        raise RecordError("cells.timing.places: one entry a block")
    return cell
