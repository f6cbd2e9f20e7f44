"""The allocation that a job holds: its ranks are started by srun, and it may be taken away at any time."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from kanstudy.spec import RunSpec
from kanstudy.study.cluster import Cluster


@dataclass
class Allocation:
    """Where the ranks of a job run. `step` starts one process a rank, `srun` and its options, as the batch script has
    it; `state` asks Slurm for the job's state, such as RUNNING, empty where it does not answer."""

    cluster: Cluster
    step: list[str]
    state: Callable[[], str]
    is_asked_to_end: bool = False
    _told: set[int] = field(default_factory=set)

    def command(self, run: RunSpec, plan_file: Path, log_dir: Path) -> list[str]:
        """The command that starts all ranks of a launch, each with logs of its own.

        They lie where `kanstudy.study.faults` looks for them. All ranks of the allocation are started, whatever the
        plan needs: the others wait.
        """
        logs = log_dir / "step" / "attempt_0"
        for rank in range(self.cluster.ranks):
            (logs / str(rank)).mkdir(parents=True)  # Slurm makes none
        place = str(logs).replace("%", "%%") + "/%t"
        return [
            *self.step,
            *(f"--output={place}/stdout.log", f"--error={place}/stderr.log"),
            *self.cluster.container,
            *(self.cluster.python or sys.executable, "-m", "kanstudy.worker", str(plan_file)),
        ]

    def ask_to_end(self, signum: int, frame: FrameType | None) -> None:
        """A handler of the signal that comes some time before the limit: the launch in progress ends after its round,
        no other is begun."""
        self.is_asked_to_end = True

    def pass_on(self, process: subprocess.Popen[bytes]) -> None:
        """Tell the ranks, once, that they are to end: srun passes SIGUSR1 on to every task."""
        if self.is_asked_to_end and process.pid not in self._told:
            self._told.add(process.pid)
            process.send_signal(signal.SIGUSR1)

    def is_ending(self) -> bool:
        """Whether Slurm is taking the job's nodes away, so that ranks that died did not fail."""
        return self.state() not in ("RUNNING", "")
