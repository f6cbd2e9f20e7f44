"""`kanstudy run` of a trial: papermill, a notebook's kernel, and what that launches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
from trial import HERE, STUB, Trial

from kanstudy import cli

PARAMETERS = """profile: str = ""
launcher: str = "local"
results_dir: str = ""
rounds: int = 0
launches: int = 1
max_minutes: float = 0.0
"""
MEASURE = f"""
import sys
sys.path += [{str(HERE)!r}, {str(STUB.parent)!r}]
from trial import WORKERS
from kanstudy.study.experiments import plan
from kanstudy.study.launch import run
from kanstudy.study.profile import load_profile
run(plan(load_profile(profile), "strong_scaling"), results_dir, launcher, max_minutes, _command=WORKERS[{{worker!r}}])
"""
COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts the tests in the background has it ignored
from pathlib import Path
from kanstudy.study import places
places.project_root = lambda: Path.cwd()
from kanstudy.cli import main
main(prog_name="kanstudy")
"""


class Batch:
    """All processes of `kanstudy run --only strong_scaling`, on notebooks that measure the trial."""

    def __init__(self, trial: Trial, make_notebook, **environment: str) -> None:
        notebooks = trial.folder / "notebooks"
        cell = MEASURE.format(worker=trial.worker)
        make_notebook("01_strong_scaling", PARAMETERS, cell, folder=notebooks)
        make_notebook("90_figures_and_tables", "profile: str = ''", "print('final', profile)", folder=notebooks)
        arguments = ["run", "--profile", "tiny.toml", "--results-dir", "results", "--only", "strong_scaling"]
        self.trial = trial
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *arguments],
            cwd=trial.folder,
            env=os.environ | {"PYTHONPATH": str(Path(cli.__file__).parent.parent)} | environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.all: list[psutil.Process] = []

    def wait_until_struck(self) -> None:
        """Until a rank waits for what happens; then all processes are there."""
        struck = self.trial.struck_rank()
        self.all = psutil.Process(self.process.pid).children(recursive=True)
        assert struck in self.all

    @property
    def kernel(self) -> psutil.Process:
        (kernel,) = [process for process in self.all if "ipykernel_launcher" in process.cmdline()]
        return kernel

    def end(self) -> str:
        """What it said, once all its processes are gone."""
        said, _ = self.process.communicate(timeout=300)
        assert psutil.wait_procs(self.all, timeout=120)[1] == []
        return said
