"""A profile: what to measure and on which machine. A TOML file, read strictly.

`[study]` holds settings for all series, `[[study.<experiment>]]` one series each (what it gives wins), `[machine]`
the machine; `kanstudy.study.series` lists the keys. `[cluster]` is there where ranks run in a job, `[device]` and
`[network]` tell constants of their devices and of the links between; `kanstudy.study.cluster` lists theirs.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import os
import re
import tomllib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kanstudy.machine import gpu_count, usable_cores
from kanstudy.study.cluster import Cluster, Device, NetworkConstants, read_cluster
from kanstudy.study.series import SERIES, Machine, Series, Settings
from kanstudy.study.strict import ProfileError, allowed, as_table, build

__all__ = ["Profile", "ProfileError", "Study", "builtin_profiles", "load_profile"]

REFERENCE = "reference"
"""The folder of the committed reference result, below `results` and `figures`."""
MAX_DEFAULT_WORLD_SIZE = 8
"""Unless a profile names its world sizes, no more ranks than the published study had."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """`[study]`: a line about the profile, and the series of each experiment (none: it has no points)."""

    description: str
    series: dict[str, tuple[Series, ...]]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A profile as read from `path`; `name` is the folder name of its results and figures.

    `cluster` is None where the ranks run on this machine, `network` where nothing is said of its links.
    """

    name: str
    path: Path
    study: Study
    machine: Machine
    cluster: Cluster | None = None
    device_constants: Device = field(default_factory=Device)
    network: NetworkConstants | None = None

    @cached_property  # with `auto` the driver is asked, which takes its time
    def device(self) -> str:
        """Device type of the ranks: `cpu` or `cuda`."""
        if self.machine.device == "auto":
            return "cuda" if gpu_count() > 0 else "cpu"
        return self.machine.device

    @property
    def backend(self) -> str:
        """The collectives' backend that belongs to the device."""
        return "nccl" if self.device == "cuda" else "gloo"

    @property
    def world_sizes(self) -> tuple[int, ...]:
        """The world sizes to measure, ascending."""
        if self.machine.world_sizes:
            return tuple(sorted(self.machine.world_sizes))
        if self.cluster:
            powers = (2**power for power in range(self.cluster.ranks.bit_length()))
            return tuple(sorted({*powers, self.cluster.ranks}))
        carried = usable_cores() // self.machine.threads_per_rank
        if self.device == "cuda":
            carried = min(carried, gpu_count())
        most = max(1, min(carried, MAX_DEFAULT_WORLD_SIZE))
        return tuple(2**power for power in range(most.bit_length()))

    @property
    def is_oversubscribed(self) -> bool:
        """Whether the largest world size has more threads than this machine has cores; of a cluster's nodes, whether
        the profile allows it."""
        if self.cluster:
            return self.machine.allow_oversubscription
        return self.world_sizes[-1] * self.machine.threads_per_rank > usable_cores()

    @property
    def stall_timeout_s(self) -> float:
        """Seconds without a sign of progress after which a launch is ended."""
        return self.machine.stall_timeout_s or self.machine.collective_timeout_s + 60.0

    def require_cluster(self) -> Cluster:
        """The cluster; `ProfileError` where the profile has none."""
        if self.cluster is None:
            raise ProfileError(f"{self.path}: has no [cluster], and is measured here: kanstudy run")
        return self.cluster

    def check_machine(self) -> None:
        """Raise `ProfileError` where this machine cannot carry the largest world size."""
        if self.cluster:
            raise ProfileError(
                f"{self.path} [cluster]: its {self.cluster.ranks} ranks run in a job: kanstudy submit --profile"
                f" {self.name if self.name in builtin_profiles() else self.path}"
            )
        ranks, threads = self.world_sizes[-1], self.machine.threads_per_rank
        where = f"{self.path} [machine] world_sizes = {list(self.world_sizes)}"
        if self.device == "cuda" and ranks > gpu_count():
            raise ProfileError(f"{where}: {ranks} ranks need a GPU each, this machine has {gpu_count()}")
        if self.is_oversubscribed and not self.machine.allow_oversubscription:
            raise ProfileError(
                f"{where}: {ranks} ranks x {threads} threads_per_rank are more than the {usable_cores()} cores that"
                " are usable here (by affinity, cgroup quota and physical cores): name fewer, or, to try out what is"
                " never fitted, allow_oversubscription = true"
            )


def builtin_profiles() -> dict[str, Path]:
    """Name and file of the profiles that come with kanstudy."""
    folder = Path(str(importlib.resources.files("kanstudy"))) / "study" / "profiles"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_profile(name_or_path: str | Path) -> Profile:
    """The built-in profile of that name, or the one in a file whose name ends in `.toml`.

    Raises `ProfileError` with one message for whatever is wrong with it.
    """
    builtin = builtin_profiles()
    text = str(name_or_path)
    if not text.endswith(".toml"):
        if text not in builtin:
            here = f" (there is {text}.toml here)" if os.path.isfile(f"{text}.toml") else ""
            raise ProfileError(
                f"profile {text!r}: must be {allowed(text, builtin)}, or a path that ends in .toml{here}"
            )
        return _read(builtin[text])
    try:
        path = Path(text).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ProfileError(f"profile {text!r}: cannot be read: {error}") from error
    if path.stem == REFERENCE:
        raise ProfileError(f"{path}: {REFERENCE!r} is where the committed reference result lies: rename it")
    if path.stem in builtin and path != builtin[path.stem].resolve():
        raise ProfileError(f"{path}: named like the built-in profile {path.stem!r}, their results would mix: rename it")
    return _read(path)


def _read(path: Path) -> Profile:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", path.stem):
        raise ProfileError(f"{path}: the file's name becomes a folder's name: must be letters, digits, - and _ only")
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{path}: not TOML: {error}") from error
    known = ("study", "machine", "cluster", "device", "network")
    for name in tables:
        if name not in known:
            raise ProfileError(f"{path}: unknown table [{name}]: must be {allowed(name, known)}")
    study = as_table(tables.get("study", {}), f"{path} [study]")
    where = f"{path} [machine]"
    machine = build(Machine, as_table(tables.get("machine", {}), where), where)
    if len(set(machine.world_sizes)) < len(machine.world_sizes):
        raise ProfileError(f"{where} world_sizes = {list(machine.world_sizes)}: must be distinct")
    cluster = None
    if "cluster" in tables:
        cluster = read_cluster(as_table(tables["cluster"], f"{path} [cluster]"), f"{path} [cluster]")
        _check_cluster(machine, cluster, path)
    constants = build(Device, as_table(tables.get("device", {}), f"{path} [device]"), f"{path} [device]")
    network = None
    if "network" in tables:
        where = f"{path} [network]"
        network = build(NetworkConstants, as_table(tables["network"], where), where)
    return Profile(
        name=path.stem,
        path=path,
        study=_study(study, path),
        machine=machine,
        cluster=cluster,
        device_constants=constants,
        network=network,
    )


def _check_cluster(machine: Machine, cluster: Cluster, path: Path) -> None:
    """What only the two tables together say."""
    where = f"{path} [machine]"
    if machine.device == "auto":
        raise ProfileError(f"{where} device = 'auto': must be cpu or cuda where there is a [cluster]")
    if machine.world_sizes and max(machine.world_sizes) > cluster.ranks:
        raise ProfileError(
            f"{where} world_sizes = {list(machine.world_sizes)}: must be at most {cluster.ranks}, which [cluster] has"
            f" with nodes = {cluster.nodes} and ranks_per_node = {cluster.ranks_per_node}"
        )
    if machine.threads_per_rank > cluster.cpus_per_task and not machine.allow_oversubscription:
        raise ProfileError(
            f"{where} threads_per_rank = {machine.threads_per_rank}: must be at most the cpus_per_task ="
            f" {cluster.cpus_per_task} of [cluster]"
        )


def _study(table: dict[str, Any], path: Path) -> Study:
    where = f"{path} [study]"
    shared = {field.name for field in dataclasses.fields(Settings)}
    for name, value in table.items():
        if name in shared or name in SERIES or name == "description":
            continue
        if isinstance(value, (dict, list)):
            raise ProfileError(f"{where}: unknown experiment {name!r}: must be {allowed(name, SERIES)}")
        raise ProfileError(f"{where}: unknown key {name!r}: must be {allowed(name, ['description', *sorted(shared)])}")
    description = table.get("description", "")
    if not isinstance(description, str):
        raise ProfileError(f"{where} description = {description!r}: must be text")
    defaults = {name: value for name, value in table.items() if name in shared}
    build(Settings, defaults, where)  # a wrong default is reported where it stands, not in the first series
    series = {name: _series(name, table.get(name, []), defaults, path) for name in SERIES}
    if not any(series.values()):
        raise ProfileError(
            f"{where}: nothing to measure: give at least one of {', '.join(f'[[study.{n}]]' for n in SERIES)}"
        )
    return Study(description=description, series=series)


def _series(experiment: str, tables: object, defaults: dict[str, Any], path: Path) -> tuple[Series, ...]:
    where = f"{path} [[study.{experiment}]]"
    if not isinstance(tables, list):
        raise ProfileError(f"{where}: must be written with two brackets, one such table a series")
    series = [
        build(SERIES[experiment], as_table(table, f"{where} #{number}"), f"{where} #{number}", defaults)
        for number, table in enumerate(tables, start=1)
    ]
    return tuple(dataclasses.replace(item, dataset=_beside(path, item.dataset)) for item in series)


def _beside(profile: Path, dataset: str) -> str:
    """A data set's own file is looked for beside the profile: notebooks run in another folder than the user's."""
    kind, _, rest = dataset.partition(":")
    return f"file:{os.path.join(profile.parent, os.path.expanduser(rest))}" if kind == "file" and rest else dataset
