"""What a profile may say: the keys of `[study]`, of each experiment's series, and of `[machine]`, with defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kanstudy.spec import DTYPES, MODELS, NAMED_OPERATORS, OPERATORS, OPTIMIZERS
from kanstudy.study.strict import key


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Keys that `[study]` gives for every series and a series may give for itself.

    `rounds` are complete rounds of a launch; with 0 they are adaptive: 20 to 100, until the 95 % interval of E is no
    wider than `target_width` (0.05: ±2.5 %), see `kanstudy.stopping`. `models` may add the parameter-matched control,
    `["kan", "mlp"]`.
    The others are fields of `kanstudy.spec.PointSpec`.
    """

    seed: int = key(0, least=0)
    rounds: int = key(12, least=0)
    target_width: float = key(0.05, above=0)
    block_s: float = key(1.0, above=0)
    warmup_steps: int = key(5)
    warmup_s: float = key(0.5, least=0)
    phase_steps: int = key(10, least=0)
    train_steps: int = key(0, least=0)
    models: tuple[str, ...] = key(("kan",), one_of=MODELS, may_be_empty=False)
    grid_size: int = key(5)
    spline_order: int = key(3, least=0)
    operator: str = key("auto", one_of=OPERATORS)
    optimizer: str = key("adam", one_of=OPTIMIZERS)
    learning_rate: float = key(1e-3, above=0)
    bucket_cap_mb: float = key(25.0, above=0)
    dtype: str = key("float32", one_of=DTYPES)
    tf32: bool = key(False)


@dataclass(frozen=True, kw_only=True)
class Series(Settings):
    """One series of an experiment: a data set, a model, a batch.

    `n_samples` = 0 takes all rows there are; the path in a `file:` data set is relative to the profile's folder.
    `notebook` is where the experiment is shown, without its ending.
    """

    notebook: ClassVar[str]

    dataset: str = key()
    n_samples: int = key(0, least=0)


@dataclass(frozen=True, kw_only=True)
class StrongScaling(Series):
    """The global batch stays, the ranks share it.

    `control_batches` are global batches of controls, measured beside the KAN on several ranks: the MLP with about as
    many parameters. With the KAN's own batch it has the same rows and gradient bytes; with the batch that makes its
    step as long as the KAN's (`kanstudy.analysis.controls` says which) the same step time and gradient bytes.
    """

    notebook: ClassVar[str] = "01_strong_scaling"
    hidden_widths: tuple[int, ...] = key()
    global_batch_size: int = key()
    control_batches: tuple[int, ...] = key(())


@dataclass(frozen=True, kw_only=True)
class WeakScaling(Series):
    """The local batch stays, every rank adds its own."""

    notebook: ClassVar[str] = "02_weak_scaling"
    hidden_widths: tuple[int, ...] = key()
    local_batch_size: int = key()


@dataclass(frozen=True, kw_only=True)
class CommunicationOverhead(Series):
    """DDP with several bucket sizes, and blocking all-reduces of several message sizes (none: no all-reduces).

    `control_batches` are as in strong scaling; the controls have the series' own `bucket_cap_mb`.
    """

    notebook: ClassVar[str] = "03_communication_overhead"
    hidden_widths: tuple[int, ...] = key()
    global_batch_size: int = key()
    control_batches: tuple[int, ...] = key(())
    bucket_caps_mb: tuple[float, ...] = key(above=0, may_be_empty=False)
    allreduce_bytes: tuple[int, ...] = key(())


@dataclass(frozen=True, kw_only=True)
class ModelSizeScaling(Series):
    """Every one of several hidden widths with every one of several grid sizes, at the largest world size."""

    notebook: ClassVar[str] = "04_model_size_scaling"
    hidden_widths_sweep: tuple[tuple[int, ...], ...] = key(may_be_empty=False)
    grid_sizes: tuple[int, ...] = key(may_be_empty=False)
    global_batch_size: int = key()


@dataclass(frozen=True, kw_only=True)
class OperatorScaling(Series):
    """The same KAN computed by each of several operators, on every world size above one.

    `operators` are named one by one: `auto`, which chooses, is none of them. `fused` is for CPUs; on CUDA compare
    `["reference", "compiled"]`. Of `models` only the KAN has operators.
    """

    notebook: ClassVar[str] = "05_operator_speed"
    hidden_widths: tuple[int, ...] = key()
    global_batch_size: int = key()
    operators: tuple[str, ...] = key(("reference", "fused"), one_of=NAMED_OPERATORS)


@dataclass(frozen=True, kw_only=True)
class Calibration(Series):
    """What predictions rest on: one rank alone over rows, widths and grids, and all ranks of one node at once.

    Alone: every one of `hidden_widths_sweep` with every one of `grid_sizes` and of `local_batch_sizes`. At once: every
    one of the widths with the first grid and every one of `node_batch_sizes` (rows a rank), the last width with every
    one of `bucket_caps_mb`, the others with the first; `allreduce_bytes` for the links. Predictions hold within the
    range of what is calibrated: what the largest world size leaves to a rank should be among `local_batch_sizes`, and
    the global batch of strong scaling too.
    """

    notebook: ClassVar[str] = "06_prediction"
    hidden_widths_sweep: tuple[tuple[int, ...], ...] = key(may_be_empty=False)
    grid_sizes: tuple[int, ...] = key(may_be_empty=False)
    local_batch_sizes: tuple[int, ...] = key(may_be_empty=False)
    node_batch_sizes: tuple[int, ...] = key(may_be_empty=False)
    bucket_caps_mb: tuple[float, ...] = key((25.0,), above=0, may_be_empty=False)
    allreduce_bytes: tuple[int, ...] = key(())


SERIES: dict[str, type[Series]] = {
    "strong_scaling": StrongScaling,
    "weak_scaling": WeakScaling,
    "communication_overhead": CommunicationOverhead,
    "model_size_scaling": ModelSizeScaling,
    "operator_scaling": OperatorScaling,
    "calibration": Calibration,
}
"""The experiments in running order, and what one series of each may say."""
NOTEBOOKS = {name: series.notebook for name, series in SERIES.items()}
"""The notebook of each experiment, which `kanstudy run` runs."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """`[machine]`: where the ranks run.

    `device` "auto" is a GPU where there is one. Empty `world_sizes` are 1, 2, 4, 8 as far as the machine carries
    them. `threads_per_rank` holds for every world size, the serial baseline too; `pin` keeps ranks on cores of
    their own. A launch ends when a collective takes longer than `collective_timeout_s`, or nothing is heard of it
    for `stall_timeout_s` (0: a minute longer than that). `allow_oversubscription` lets a test run more ranks than
    there are cores; its points are marked.
    """

    device: str = key("auto", one_of=("auto", "cpu", "cuda"))
    world_sizes: tuple[int, ...] = key(())
    threads_per_rank: int = key(1)
    pin: bool = key(True)
    allow_oversubscription: bool = key(False)
    collective_timeout_s: float = key(300.0)
    stall_timeout_s: float = key(0.0, least=0)
