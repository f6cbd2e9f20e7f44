"""What a profile says of a cluster: `[cluster]`, all that a job needs from Slurm and on its nodes, and constants of its
devices and links. Nothing of a centre is in code: what one does differently is written in its profile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kanstudy.layout import layout_of
from kanstudy.network_words import ALGORITHMS, BASES, NCCL_ALGORITHMS, NCCL_PROTOCOLS
from kanstudy.spec import PLACEMENTS, PointSpec
from kanstudy.study.strict import ProfileError, allowed, build, key

_TIME_LIMIT = re.compile(r"(?:(?P<days>\d+)-)?(?P<hours>\d+):(?P<minutes>[0-5]\d):(?P<seconds>[0-5]\d)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NCCL_WORDS = {"NCCL_ALGO": NCCL_ALGORITHMS, "NCCL_PROTO": NCCL_PROTOCOLS}
_BEFORE_WORD = re.compile(r"(\w+:)?\^?")
"""What may stand before each word of such a list, as in "Ring,Tree;allreduce:^Tree"."""
OWN_OPTIONS = (
    *("--parsable", "--wait", "--array", "--dependency", "--output", "--error", "--signal", "--requeue"),
    *("--no-requeue", "--open-mode", "--wrap", "--test-only", "--nodes", "--ntasks", "--ntasks-per-node"),
    *("--cpus-per-task", "--time", "--chdir", "--job-name", "--export"),
)
"""Options of sbatch that the study sets itself, so that a profile may not."""
_CLUSTERS = "--clusters"


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """`[cluster]`: the allocation that one job asks for, and what makes its nodes ready.

    `nodes` x `ranks_per_node` ranks, one task each with `cpus_per_task` cores. GPUs are asked for in one of Slurm's
    two ways, `gres` ("gpu:a100:2", a node) or `gpus_per_node` ("a100:2"); neither where ranks run on CPUs or nodes
    come whole. `setup` are lines of shell (modules, a virtual environment, exports that use a job's variables), run
    once on the first node, which pass their environment on to all ranks. `python` runs the ranks, empty: the one that
    submits; `container` is put before it (["apptainer", "exec", "--nv", "image.sif"]). `scratch` takes caches of
    compilers and may name variables of the job ("$TMPDIR"). `options` are further options of sbatch, `report_options`
    those of the job that makes the report, on one core. With `requeue` a preempted job begins again by itself.

    `placements` may add "spread" to "packed": groups of ranks on as many nodes as there are, beside those that fill
    node after node (2 ranks: 1x2 and 2x1; 4 ranks: 2x2 and 4x1), where the two differ and each node has as many.
    """

    nodes: int = key()
    ranks_per_node: int = key()
    time_limit: str = key()
    cpus_per_task: int = key(1)
    partition: str = key("")
    account: str = key("")
    qos: str = key("")
    gres: str = key("")
    gpus_per_node: str = key("")
    setup: tuple[str, ...] = key(())
    python: str = key("")
    container: tuple[str, ...] = key(())
    scratch: str = key("")
    options: tuple[str, ...] = key(())
    report_time_limit: str = key("00:30:00")
    report_options: tuple[str, ...] = key(())
    requeue: bool = key(True)
    placements: tuple[str, ...] = key(("packed",), one_of=PLACEMENTS, may_be_empty=False)
    environment: dict[str, str] = field(default_factory=dict, metadata=key().metadata)

    @property
    def ranks(self) -> int:
        """Ranks of the allocation."""
        return self.nodes * self.ranks_per_node

    @property
    def time_limit_s(self) -> float:
        """The time limit in seconds."""
        return _seconds(self.time_limit)

    def placed(self, points: Iterable[PointSpec]) -> Iterator[PointSpec]:
        """Each point of an experiment in each placement that puts its ranks on other nodes; of operators, which are
        compared on the same ranks, in the first alone."""
        for point in points:
            if point.experiment == "operator_scaling":
                yield replace(point, placement=self.placements[0])
                continue
            packed, spread = (len(self.layout(point.world_size, name)) for name in ("packed", "spread"))
            for name in self.placements:
                is_another = spread != packed and point.world_size % spread == 0  # 2+2+1+1 compares with nothing
                if name == "packed" or is_another or "packed" not in self.placements:
                    yield replace(point, placement=name)

    def layout(self, world_size: int, placement: str) -> tuple[int, ...]:
        """How many ranks of a group lie on each of its nodes."""
        return layout_of(world_size, placement, self.ranks_per_node, self.nodes)


@dataclass(frozen=True, kw_only=True)
class Device:
    """`[device]`: constants of one rank's device; 0: not stated. Nothing measured depends on them.

    As its vendor states them: peak rates in TFLOP/s, memory in GiB and GB/s, power in W; price for one device and hour
    in `currency`. For simulation, where no calibration is at hand: the share of the peak rates that matrix products and
    what works element by element reach, what a kernel's launch costs the host, how much slower backward is while
    gradients travel (0.1: by a tenth), and standard deviations of the logarithm between devices, steps, and blocks.
    """

    name: str = key("")
    peak_tflops_fp32: float = key(0.0, least=0)
    peak_tflops_tf32: float = key(0.0, least=0)
    memory_gib: float = key(0.0, least=0)
    memory_gb_per_s: float = key(0.0, least=0)
    power_w: float = key(0.0, least=0)
    price_per_hour: float = key(0.0, least=0)
    currency: str = key("EUR")
    flops_share: float = key(0.0, least=0, most=1)
    memory_share: float = key(0.0, least=0, most=1)
    launch_us: float = key(0.0, least=0)
    overlap_slowdown: float = key(0.0, least=0)
    device_sd: float = key(0.0, least=0)
    step_sd: float = key(0.0, least=0)
    block_sd: float = key(0.0, least=0)


@dataclass(frozen=True, kw_only=True)
class NetworkConstants:
    """`[network]`: constants of the links, for predictions; nothing measured depends on them.

    `inside` is a rank's link to the others of its node, `between` a node's to the others. With the algorithm "nccl" a
    latency is that of one hop of a ring with protocol Simple, with "gloo" a one-way delay. Rates are in 10⁹ bytes/s.
    `nvlink` tells whether the devices of a node are joined by NVLink, `basis` where the constants come from.
    """

    algorithm: str = key(one_of=ALGORITHMS)
    inside_latency_us: float = key(least=0)
    inside_gb_per_s: float = key(above=0)
    between_latency_us: float = key(least=0)
    between_gb_per_s: float = key(above=0)
    nvlink: bool = key(False)
    basis: str = key("assumed", one_of=BASES)


def read_cluster(values: Mapping[str, Any], where: str) -> Cluster:
    """The cluster in a profile's table; `ProfileError` names key, value and what is allowed."""
    cluster: Cluster = build(Cluster, values, where)
    for name in ("time_limit", "report_time_limit"):
        text = getattr(cluster, name)
        if not _TIME_LIMIT.fullmatch(text) or not _seconds(text):
            raise ProfileError(f"{where} {name} = {text!r}: must be a time such as 04:00:00 or 1-00:00:00")
    if len(set(cluster.placements)) < len(cluster.placements):
        raise ProfileError(f"{where} placements = {list(cluster.placements)}: must be distinct")
    if cluster.gres and cluster.gpus_per_node:
        raise ProfileError(f"{where} gpus_per_node = {cluster.gpus_per_node!r}: must be left out where gres is given")
    for name in ("options", "report_options"):
        _check_options(getattr(cluster, name), f"{where} {name}")
    for line in cluster.setup:
        if "\n" in line or "\0" in line:
            raise ProfileError(f"{where} setup = {line!r}: must be one line an item")
    for name, value in cluster.environment.items():
        _check_variable(name, value, f"{where} environment")
    return cluster


def with_variables(cluster: Cluster, assignments: Iterable[str], where: str) -> Cluster:
    """The cluster with more variables for every rank, each as "NAME=VALUE", over those of its profile.

    `ProfileError` names what is wrong with one; a word in NCCL_ALGO or NCCL_PROTO that NCCL does not know is wrong too,
    since NCCL would end, or go its own way, only once the job runs.
    """
    variables = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not value:
            raise ProfileError(f"{where} {assignment!r}: must be NAME=VALUE, such as NCCL_ALGO=Ring")
        if name in variables:
            raise ProfileError(f"{where} {assignment!r}: {name} must be given once")
        _check_variable(name, value, where)
        variables[name] = value
    return replace(cluster, environment=cluster.environment | variables)


def cluster_from_dict(values: Mapping[str, Any], where: str) -> Cluster:
    """A cluster from what `dataclasses.asdict` and JSON made of it: what is empty was not given."""
    return read_cluster({name: value for name, value in values.items() if value not in ("", [], ())}, where)


def _check_variable(name: str, value: str, where: str) -> None:
    if not _VARIABLE.fullmatch(name):
        raise ProfileError(f"{where}: {name!r}: must be a variable's name, of letters, digits and _")
    if "\n" in value or "\0" in value:
        raise ProfileError(f"{where} {name} = {value!r}: must be text of one line")
    if known := _NCCL_WORDS.get(name):
        for item in re.split("[;,]", value):
            word = _BEFORE_WORD.sub("", item, count=1)
            if word.lower() not in map(str.lower, known):
                raise ProfileError(f"{where} {name} = {value!r}: {word!r} must be {allowed(word, known)}")


def _seconds(text: str) -> float:
    match = _TIME_LIMIT.fullmatch(text)
    if match is None:
        return 0.0
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds


def _check_options(options: tuple[str, ...], where: str) -> None:
    for option in options:
        name = option.partition("=")[0]
        if not re.fullmatch(r"--[a-z][a-z0-9-]*(=[^\n\0]*)?", option):
            raise ProfileError(f"{where} = {option!r}: must be an option as one word, such as --mem=0 or --exclusive")
        if name == _CLUSTERS:  # or no other command of Slurm's would find the job
            cluster = option.partition("=")[2] or "NAME"
            raise ProfileError(
                f"{where} = {option!r}: must not be one; for all of Slurm: export SLURM_CLUSTERS={cluster}"
            )
        if name in OWN_OPTIONS:
            raise ProfileError(f"{where} = {option!r}: must not be one that the study sets itself ({name})")
