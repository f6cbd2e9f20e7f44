"""The allocation that a job holds: its ranks are started by srun, and it may be taken away at any time."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from kanstudy.run_spec import RunSpec
from kanstudy.study.cluster import Cluster

_ANSWER_S = 30.0


@dataclass
class Allocation:
    """Where the ranks of a job run.

    `step` starts one process a rank, `srun` and its options, as the batch script has it; `state` asks Slurm for the
    job's state, such as RUNNING, empty where it does not answer. `provenance` is what is known of the allocation, for
    every record that is measured on it.
    """

    cluster: Cluster
    step: list[str]
    state: Callable[[], str]
    provenance: dict[str, Any] = field(default_factory=dict)
    is_asked_to_end: bool = False
    _told: set[int] = field(default_factory=set)

    def ranks(self, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        """The command that starts `python ARGUMENTS` once a rank, with further options of the step.

        All ranks of the allocation are started, whatever is measured on them: the others wait.
        """
        return [*self.step, *options, *self.cluster.container, self.cluster.python or sys.executable, *arguments]

    def command(self, run: RunSpec, plan_file: Path, log_dir: Path) -> list[str]:
        """The command of a launch; each rank has logs of its own, where `kanstudy.study.faults` looks for them."""
        logs = log_dir / "step" / "attempt_0"
        for rank in range(self.cluster.ranks):
            (logs / str(rank)).mkdir(parents=True)  # Slurm makes none
        place = str(logs).replace("%", "%%") + "/%t"
        options = (f"--output={place}/stdout.log", f"--error={place}/stderr.log")
        return self.ranks("-m", "kanstudy.worker", str(plan_file), options=options)

    def ask_to_end(self, signum: int, frame: FrameType | None) -> None:
        """A handler of the signal that comes some time before the limit: the launch in progress ends after its round,
        no other is begun."""
        self.is_asked_to_end = True

    def pass_on(self, process: subprocess.Popen[bytes]) -> None:
        """Tell the ranks, once, that they are to end: srun passes SIGUSR1 on to every task."""
        if self.is_asked_to_end and process.pid not in self._told:
            self._told.add(process.pid)
            process.send_signal(signal.SIGUSR1)

    def broken(self) -> str:
        """What is said where a step that does nothing does not run on all nodes, since one is dead; empty where it
        does. After that nothing else is begun."""
        try:
            done = subprocess.run([*self.step, "true"], capture_output=True, text=True, timeout=_ANSWER_S, check=False)
        except subprocess.TimeoutExpired:
            said = f"no answer within {_ANSWER_S:.0f} s"
        else:
            said = "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"
        self.is_asked_to_end |= bool(said)
        return said

    def is_ending(self) -> bool:
        """Whether Slurm is taking the job's nodes away, so that ranks that died did not fail; then nothing else is
        begun."""
        if self.state() not in ("RUNNING", ""):
            self.is_asked_to_end = True
        return self.is_asked_to_end
