"""What to measure: the specification of a point.

A *point* is the unit of the study: (experiment, world size, placement, batch, model, data). Its identity is a
hash of everything that decides what is measured; how often it is measured (rounds, launches), where the files
lie and what the profile is called do not belong to it.

Standard library only: both the planner (no torch) and the worker (torch) import this module.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar, get_type_hints

from kanstudy import emulated_link
from kanstudy import injection as injections
from kanstudy.sizes import MAX_SPLINE_ORDER
from kanstudy.strict_json import fits

ARMS = ("serial_global", "serial_local", "concurrent", "ddp_noop", "ddp")
"""The five arms in the order of the attribution's chain; neighbours differ in one thing."""

SCALINGS = ("strong", "weak")
MODELS = ("kan", "mlp")
NAMED_OPERATORS = ("reference", "compiled", "fused")
"""The operators of a KAN layer, the slowest first; `auto` is the best of them that works."""
OPERATORS = ("auto", *NAMED_OPERATORS)
OPTIMIZERS = ("adam", "sgd")
DTYPES = ("float32", "float64")
PLACEMENTS = ("packed", "spread")
COMM_HOOKS = ("none", "allreduce")

_LONGEST_BLOCK_S = 3600
_T = TypeVar("_T")


class SpecError(ValueError):
    """A specification that cannot be measured; the message names the field, its value and what is allowed."""


def require(condition: bool, field: str, value: object, allowed: str) -> None:
    """Raise `SpecError` unless the condition holds."""
    if not condition:
        raise SpecError(f"{field} = {value!r}: must be {allowed}")


def require_one_of(field: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise `SpecError` unless the value is one of those allowed."""
    require(value in allowed, field, value, "one of " + ", ".join(allowed))


def _parsed(field: str, text: str, parse: Callable[[str], _T]) -> _T:
    """What a text stands for, whichever of its forms: 0.1 and 0.10 are one point."""
    try:
        return parse(text)
    except (ValueError, AttributeError, TypeError) as error:
        allowed = str(error) if isinstance(error, ValueError) else "text"
        raise SpecError(f"{field} = {text!r}: must be {allowed}") from error


def is_whole(value: object, minimum: float = -math.inf) -> bool:
    """Whether a value is a whole number from `minimum` on; True and 2.0 are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum


def is_number(value: object, minimum: float = -math.inf) -> bool:
    """Whether a value is a finite number from `minimum` on; True is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= minimum


@dataclass(frozen=True, kw_only=True)
class PointSpec:
    """One point of one experiment.

    `global_batch_size` rows are trained a step by `world_size` ranks, `local_batch_size` by each. `arms` are
    measured interleaved, in blocks of about `block_s` seconds after at least `warmup_steps` steps and `warmup_s`
    seconds. `phase_steps` instrumented steps an arm give phases, bucket times and memory; `train_steps` steps of
    real training give the losses. `allreduce_bytes` are the message sizes of the blocking all-reduce benchmark.
    `injection` is a cause of lost efficiency to be put in, `CAUSE:DOSE` of `kanstudy.injection`; empty: none, the point
    is measured as it is. `link` is the emulated link between any two ranks, `RATE:LATENCY` of `kanstudy.emulated_link`;
    empty: ranks reach each other as they lie.

    Raises `SpecError` on any value outside what is allowed.
    """

    experiment: str
    scaling: str
    world_size: int
    global_batch_size: int
    dataset: str
    n_samples: int
    layer_widths: tuple[int, ...]
    arms: tuple[str, ...]
    model: str = "kan"
    grid_size: int | None = 5
    spline_order: int | None = 3
    operator: str | None = "auto"
    placement: str = "packed"
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    dtype: str = "float32"
    tf32: bool = False
    bucket_cap_mb: float = 25.0
    comm_hook: str = "none"
    sync_buffers: bool = False
    allreduce_bytes: tuple[int, ...] = ()
    train_steps: int = 0
    phase_steps: int = 10
    block_s: float = 1.0
    warmup_steps: int = 5
    warmup_s: float = 0.5
    seed: int = 0
    injection: str = ""
    link: str = ""

    def __post_init__(self) -> None:
        for name in ("layer_widths", "arms", "allreduce_bytes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("learning_rate", "bucket_cap_mb", "block_s", "warmup_s"):  # 25 and 25.0 are one point
            if is_whole(getattr(self, name), 0):
                object.__setattr__(self, name, float(getattr(self, name)))
        require(self.experiment.isidentifier(), "experiment", self.experiment, "a name of letters, digits and _")
        require_one_of("scaling", self.scaling, SCALINGS)
        require_one_of("model", self.model, MODELS)
        require_one_of("placement", self.placement, PLACEMENTS)
        require_one_of("optimizer", self.optimizer, OPTIMIZERS)
        require_one_of("dtype", self.dtype, DTYPES)
        require_one_of("comm_hook", self.comm_hook, COMM_HOOKS)
        require(len(self.arms) == len(set(self.arms)) and bool(self.arms), "arms", self.arms, "distinct, at least one")
        for arm in self.arms:
            require_one_of("arms", arm, ARMS)
        for name in ("world_size", "global_batch_size", "n_samples", "warmup_steps"):
            require(is_whole(getattr(self, name), 1), name, getattr(self, name), "a whole number >= 1")
        require(is_whole(self.seed, 0) and self.seed < 2**63, "seed", self.seed, "a whole number from 0 to 2^63 - 1")
        for name in ("train_steps", "phase_steps"):
            require(is_whole(getattr(self, name), 0), name, getattr(self, name), "a whole number >= 0")
        for name in ("learning_rate", "bucket_cap_mb", "block_s"):
            require(is_number(getattr(self, name), 1e-12), name, getattr(self, name), "a number > 0")
        require(is_number(self.warmup_s, 0), "warmup_s", self.warmup_s, "a number >= 0")
        for name in ("block_s", "warmup_s"):
            require(getattr(self, name) <= _LONGEST_BLOCK_S, name, getattr(self, name), f"at most {_LONGEST_BLOCK_S} s")
        require(
            len(self.layer_widths) >= 2 and all(is_whole(width, 1) for width in self.layer_widths),
            "layer_widths",
            self.layer_widths,
            "at least two whole numbers >= 1",
        )
        require(
            all(is_whole(size, 1) for size in self.allreduce_bytes),
            "allreduce_bytes",
            self.allreduce_bytes,
            "whole numbers >= 1",
        )
        if self.model == "kan":
            require(is_whole(self.grid_size, 1), "grid_size", self.grid_size, "a whole number >= 1")
            require(
                is_whole(self.spline_order, 0) and self.spline_order <= MAX_SPLINE_ORDER,  # type: ignore[operator]  # checked whole
                "spline_order",
                self.spline_order,
                f"0 to {MAX_SPLINE_ORDER}",
            )
            require_one_of("operator", self.operator, OPERATORS)
        else:
            for name in ("grid_size", "spline_order", "operator"):
                require(getattr(self, name) is None, name, getattr(self, name), "absent for an MLP")
        nearest = max(1, round(self.global_batch_size / self.world_size)) * self.world_size
        require(
            self.global_batch_size % self.world_size == 0,
            "global_batch_size",
            self.global_batch_size,
            f"divisible by the world size {self.world_size}, such as {nearest}, or the ranks' mean gradients are not"
            " the global mean",
        )
        require(
            self.n_samples >= self.global_batch_size,
            "n_samples",
            self.n_samples,
            f"at least one global batch ({self.global_batch_size} rows)",
        )
        if self.link != "":
            object.__setattr__(self, "link", str(_parsed("link", self.link, emulated_link.parse)))
        if self.injection != "":
            self._check_injection()

    def _check_injection(self) -> None:
        injected = _parsed("injection", self.injection, injections.parse)
        object.__setattr__(self, "injection", str(injected))
        require(self.world_size > 1, "injection", self.injection, "empty at world size 1, which has no chain")
        require(
            self.comm_hook == "allreduce" or injected.cause not in injections.IN_HOOK,
            "comm_hook",
            self.comm_hook,
            f"allreduce for the injection {self.injection}, which needs a hook in every arm of DDP",
        )

    @property
    def layer_shapes(self) -> tuple[tuple[int, int], ...]:
        """Inputs and outputs of each layer, input to output."""
        return tuple(pairwise(self.layer_widths))

    @property
    def local_batch_size(self) -> int:
        """Rows a rank trains in one step."""
        return self.global_batch_size // self.world_size

    def global_batch_at(self, world_size: int) -> int:
        """The global batch of the same curve on so many ranks: it stays in strong scaling, the local one in weak."""
        return self.global_batch_size if self.scaling == "strong" else self.local_batch_size * world_size

    def with_batch(self, global_batch_size: int, **others: Any) -> PointSpec:
        """The point with another global batch, and `others` of its fields; data of which there are too few rows are
        taken to be as many as needed. Raises `SpecError` where that is no point."""
        rows = max(self.n_samples, global_batch_size)
        return dataclasses.replace(self, global_batch_size=global_batch_size, n_samples=rows, **others)

    def at(self, world_size: int, placement: str) -> PointSpec:
        """The point of the same curve on so many ranks; otherwise as `with_batch`."""
        return self.with_batch(self.global_batch_at(world_size), world_size=world_size, placement=placement)

    @property
    def point_id(self) -> str:
        """Readable name plus a hash of the specification, such as `strong_w4_b4096-3fa1c2`; never parsed."""
        values = dataclasses.asdict(self)
        for name in ("injection", "link"):  # points without keep the names they had before there were others
            if not values[name]:
                del values[name]
        digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
        return f"{self.scaling}_w{self.world_size}_b{self.global_batch_size}-{digest[:8]}"

    @property
    def blocks_per_round(self) -> int:
        """Timed blocks in one round of this point: an arm is one, except `serial_local`, one a rank."""
        return sum(self.world_size if arm == "serial_local" else 1 for arm in self.arms)


def build(cls: type[_T], values: dict[str, Any]) -> _T:
    """The specification from its dictionary; `SpecError` on an unknown or missing field or a bad value."""
    names = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]  # both are dataclasses
    unknown = sorted(set(values) - names)
    if unknown:
        raise SpecError(f"{cls.__name__}: unknown field {unknown[0]!r}")
    hints = get_type_hints(cls)
    for name, value in values.items():
        require(fits(value, hints[name]), name, value, str(hints[name]))
    try:
        return cls(**values)
    except TypeError as error:
        raise SpecError(f"{cls.__name__}: {error}") from error


def point_from_dict(values: dict[str, Any]) -> PointSpec:
    """A `PointSpec` from its dictionary; `SpecError` on an unknown or missing field or a bad value."""
    return build(PointSpec, values)
