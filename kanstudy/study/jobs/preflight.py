"""Before anything is measured in a job: do its nodes fit together? At most a minute, one message, which names the node.

Every rank tells what it finds (`kanstudy.worker.preflight`); here it is judged. What NCCL says of the network that it
chose is kept for the records.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kanstudy.study.faults import tail
from kanstudy.study.jobs import nccl
from kanstudy.study.jobs.allocation import Allocation
from kanstudy.study.profile import Profile

LIMIT_S = 60.0
ALIKE = ("gpu", "torch", "cuda", "nccl", "python", "kanstudy")
"""What must be the same on every rank."""
_POLL_S = 0.1

Report = dict[str, Any]


class PreflightError(RuntimeError):
    """The nodes do not carry the study; the message names the node and what is wrong with it."""


def check(allocation: Allocation, profile: Profile, results: Path, folder: Path, environment: dict[str, str]) -> Report:
    """Let every rank look around; what all of them found, for provenance. `PreflightError` where something is wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    arguments = ("-m", "kanstudy.worker.preflight", str(folder), str(results), profile.device, *groups(profile))
    environment = environment | {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": nccl.SUBSYSTEMS}
    environment.pop("NCCL_DEBUG_FILE", None)  # its words are read from the step's output
    end = time.monotonic() + LIMIT_S
    with (folder / "step.log").open("wb") as log:
        command = allocation.ranks(*arguments, options=["--label"])
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while process.poll() is None and time.monotonic() < end and not allocation.is_asked_to_end:
            time.sleep(_POLL_S)
        in_time = process.poll() is not None
        if not in_time:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
    printed = (folder / "step.log").read_text(encoding="utf-8", errors="replace")
    reports = read(folder, allocation.cluster.ranks, printed)
    problem = judge(reports, profile, environment)
    errors = [line for line in printed.splitlines() if "error:" in line][:3]  # the first is the cause
    said = errors or tail(printed).strip().splitlines()[-3:] or ["nothing"]
    if problem is None and not in_time:
        problem = f"the ranks did not end within {LIMIT_S:.0f} s"
    if problem is None and process.returncode != 0:
        problem = f"the step ended with exit code {process.returncode}"
    if problem is not None and (None in reports or process.returncode != 0):
        problem += f"; it said: {' | '.join(said)}"
    if problem is not None:
        raise PreflightError(f"before measuring: {problem} (log: {folder / 'step.log'})")
    return summary(reports, printed)


def groups(profile: Profile) -> list[str]:
    """The groups of which NCCL shall tell its choices, world size and placement as "4:spread"; none on CPUs."""
    if profile.cluster is None or profile.device != "cuda":
        return []
    places: dict[tuple[int, tuple[int, ...]], str] = {}
    for size in profile.world_sizes:
        for placement in profile.cluster.placements:
            places.setdefault((size, profile.cluster.layout(size, placement)), f"{size}:{placement}")
    return [group for (size, _), group in places.items() if size > 1]


def read(folder: Path, ranks: int, printed: str) -> list[Report | None]:
    """What each rank wrote, or printed where it could not write; None where one said nothing."""
    found: list[Report | None] = [None] * ranks
    for line in printed.splitlines():
        if (text := line.partition(": ")[2]).startswith('{"rank"'):  # behind srun's label
            with contextlib.suppress(ValueError, IndexError):
                report = json.loads(text)
                found[report["rank"]] = report
    for rank in range(ranks):
        with contextlib.suppress(OSError, ValueError):
            found[rank] = json.loads((folder / f"{rank}.json").read_text(encoding="utf-8"))
    return found


def judge(
    reports: Sequence[Report | None], profile: Profile, environment: Mapping[str, str] = os.environ
) -> str | None:
    """The first thing that is wrong, causes before what follows from them; None where nothing is."""
    there = [report for report in reports if report is not None]
    if problem := _first(there, lambda r: r["results_error"], "the results cannot be written: {}"):
        return problem
    silent = [rank for rank, report in enumerate(reports) if report is None]
    if silent:
        nodes = sorted({report["node"] for report in there})
        heard = f"heard of {len(there)} ranks on {', '.join(nodes)}" if there else "no rank was heard of"
        return f"{_ranks(silent)} did not report; {heard}"
    return (
        _interfaces(there, environment)
        or _first(there, lambda r: None if "torch" in r else r.get("error", "torch was not imported in time"), "{}")
        or _differences(there)
        or _shared(there)
        or _cores(there, profile)
        or _loopback(there)
        or _first(there, lambda r: None if r["address"] else r["master"], "rank 0's address {!r} leads nowhere")
        or _first(there, lambda r: r.get("error"), "did not meet the other ranks: {}")
        or _first(there, lambda r: None if "meeting_s" in r else "it waited in vain", "did not meet the others: {}")
    )


def summary(reports: Sequence[Report | None], log: str) -> Report:
    """What the records keep: each rank's place, what all share, NCCL's network, and a flag where that is a slow one."""
    there = [report for report in reports if report is not None]
    kept = ("node", "host", "local_rank", "cores", "address", "gpu", "gpu_uuid")
    networks = nccl.networks(log)
    flag = None
    if "Socket" in networks and any(report["infiniband"] for report in there):
        flag = "NCCL went over NET/Socket although there is InfiniBand"
    return {
        "ranks": [{name: report.get(name) for name in kept} for report in there],
        "versions": {name: there[0].get(name) for name in ALIKE},
        "master": there[0]["master"],
        "meeting_s": max(report["meeting_s"] for report in there),
        "nccl_networks": networks,
        "nccl_algorithms": nccl.algorithms(log),
        "nccl_algorithms_of_groups": nccl.algorithms_of_groups(log),
        "nccl_lines": nccl.telling_lines(log),
        "flag": flag,
    }


def _first(reports: Sequence[Report], problem: Any, text: str) -> str | None:
    for report in reports:
        if (found := problem(report)) is not None:
            return f"{report['node']}: rank {report['rank']}: {text.format(found)}"
    return None


def _interfaces(reports: Sequence[Report], environment: Mapping[str, str]) -> str | None:
    """A name that gloo is told to use must be there; of NCCL's, which are beginnings of names, one."""
    for report in reports:
        there = report["interfaces"]
        for name in filter(None, environment.get("GLOO_SOCKET_IFNAME", "").split(",")):
            if name not in there:
                return f"{report['node']}: GLOO_SOCKET_IFNAME = {name}: no such interface, there are {', '.join(there)}"
        wanted = environment.get("NCCL_SOCKET_IFNAME", "")
        names = [name for name in wanted.lstrip("=").split(",") if name]
        if names and not wanted.startswith("^") and not any(i.startswith(name) for i in there for name in names):
            return f"{report['node']}: NCCL_SOCKET_IFNAME = {wanted}: no such interface, there are {', '.join(there)}"
    return None


def _differences(reports: Sequence[Report]) -> str | None:
    for name in ALIKE:
        first = reports[0].get(name)
        for report in reports:
            if report.get(name) != first:
                return (
                    f"{report['node']}: rank {report['rank']} has {name} {report.get(name)}, rank 0 on"
                    f" {reports[0]['node']} has {first}: all must have the same"
                )
    return None


def _shared(reports: Sequence[Report]) -> str | None:
    seen: dict[tuple[str, str], int] = {}
    for report in reports:
        if (uuid := report.get("gpu_uuid")) is None:
            continue
        if (other := seen.setdefault((report["node"], uuid), report["rank"])) != report["rank"]:
            return f"{report['node']}: ranks {other} and {report['rank']} have the same GPU, {uuid}: each needs its own"
    return None


def _cores(reports: Sequence[Report], profile: Profile) -> str | None:
    threads = profile.machine.threads_per_rank
    for report in reports:
        if len(report["cores"]) < threads and not profile.machine.allow_oversubscription:
            return (
                f"{report['node']}: rank {report['rank']} may use {len(report['cores'])} cores, not its"
                f" threads_per_rank = {threads}: cpus_per_task did not reach it"
            )
    return None


def _loopback(reports: Sequence[Report]) -> str | None:
    hosts = {report["host"] for report in reports}
    for report in reports:
        is_elsewhere = report["host"] != reports[0]["host"]
        if is_elsewhere and (report["address"] or "").startswith(("127.", "::1")):
            return (
                f"{report['node']}: rank 0's address {report['master']!r} is a loopback there, but {len(hosts)} hosts"
                " take part"
            )
    return None


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
