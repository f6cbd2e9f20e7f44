"""A throw-away Slurm on this machine: nodes by name, with fake GPUs, in a folder and on ports of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from kanstudy.study.jobs import slurm

HERE = Path(__file__).parent


class Sandbox:
    """The cluster of `up.sh`, in a folder of its own: a socket's path may not be long."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def up(self, nodes: int = 2, gpus: int = 2) -> None:
        command = [str(HERE / "up.sh"), str(self.folder), str(nodes), str(gpus)]
        own = {"OWNER": str(os.getpid()), "NODE_TIMEOUT": "30"}
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | own, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        os.environ["SLURM_CONF"] = str(self.folder / "slurm.conf")

    def down(self) -> None:
        subprocess.run([str(HERE / "down.sh"), str(self.folder)], check=False)
        os.environ.pop("SLURM_CONF", None)

    def ask(self, *command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def over(self, job: str, timeout_s: float = 120) -> str:
        """Wait until a job is over; its last state."""
        self.until(lambda: slurm.state(job) not in slurm.LIVE, timeout_s)
        return slurm.state(job)

    def start_again_now(self, job: str) -> None:
        """Spare a requeued job most of the two minutes that Slurm lets it wait: its nodes refuse what they have just
        killed."""
        time.sleep(3)

        def runs() -> bool:
            subprocess.run(["scontrol", "update", f"JobId={job}", "StartTime=now"], capture_output=True, check=False)
            return slurm.state(job) == "RUNNING"

        self.until(runs)

    def kill_node(self, node: str) -> None:
        """Power off: everything that runs on the node is gone at once; then Slurm notices."""
        conf = str(self.folder / "slurm.conf")  # another sandbox may have nodes of these names
        for process in psutil.process_iter():
            try:
                is_there = _is_on(process, node, conf)
                is_there = is_there or (process.name() == "slurmd" and {node, conf} <= set(process.cmdline()))
                if is_there or (process.name() == "slurmstepd" and _is_below(process, node, conf)):
                    process.kill()
            except psutil.Error:
                continue
        self.ask("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=died")

    def revive_node(self, node: str) -> None:
        self.ask("/usr/sbin/slurmd", "-c", "-N", node, "-f", str(self.folder / "slurm.conf"))
        self.until(lambda: "down" not in self.ask("sinfo", "--noheader", "--nodes", node, "--format=%T"))

    @staticmethod
    def until(is_so: Callable[[], bool], timeout_s: float = 60) -> None:
        end = time.monotonic() + timeout_s
        while not is_so():
            assert time.monotonic() < end, f"not within {timeout_s:.0f} s"
            time.sleep(0.2)


def _is_on(process: psutil.Process, node: str, conf: str) -> bool:
    variables = process.environ()
    return variables.get("SLURMD_NODENAME") == node and variables.get("SLURM_CONF") == conf


def _is_below(process: psutil.Process, node: str, conf: str) -> bool:
    """Whether a step's daemon belongs to a node: it has children there, or was started by its slurmd."""
    return any(_is_on(child, node, conf) for child in process.children())


def why_not() -> str:
    """Why there can be no sandbox here; empty where there can."""
    if os.geteuid() != 0:
        return "slurmctld and slurmd of a sandbox are started by root alone"
    for program in ("munged", "slurmctld", "slurmd"):
        if shutil.which(program, path="/usr/sbin:/usr/bin") is None:
            return f"{program} is not installed (Debian: slurm-wlm, munge)"
    for process in psutil.process_iter(["name", "cmdline"]):
        if process.info["name"] == "slurmctld" and not any(
            "kanslurm" in word for word in process.info["cmdline"] or ()
        ):
            return "a Slurm of this machine's own is running: its users are left in peace"
    return ""
