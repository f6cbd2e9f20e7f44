"""The processes around the ranks are killed or interrupted: none is left behind, and nothing measured is lost."""

from __future__ import annotations

import os
import signal

import pytest
from papermill_run import Batch
from trial import Trial, wait_until

pytestmark = pytest.mark.faults


def test_the_launcher_is_killed(tmp_path):
    trial = Trial(tmp_path)
    trial.fault("sleep")
    with trial.started() as study:
        trial.struck_rank()
        study.kill()
    trial.no_process_is_left()
    trial.is_struck()
    trial.is_whole_after_another_run()


def test_torchrun_is_killed(tmp_path):
    trial = Trial(tmp_path, "ranks")
    trial.fault("wait")
    with trial.started() as study:
        trial.struck_rank()
        (torchrun,) = [process for process in trial.processes() if "torch.distributed.run" in process.cmdline()]
        torchrun.kill()
        said, _ = study.communicate(timeout=300)
    assert f"{trial.last}: failed: the launcher killed by SIGKILL" in said
    trial.no_process_is_left()
    trial.is_struck()
    trial.is_whole_after_another_run()


def test_the_kernel_of_a_notebook_is_killed(tmp_path, make_notebook):
    trial = Trial(tmp_path)
    trial.fault("sleep")
    batch = Batch(trial, make_notebook)
    batch.wait_until_struck()
    batch.kernel.kill()
    said = batch.end()
    assert "01_strong_scaling.ipynb: its kernel died" in said
    assert "Traceback" not in said
    assert batch.process.returncode == 1
    trial.is_struck()
    trial.is_whole_after_another_run()


def test_papermill_is_killed(tmp_path, make_notebook):
    trial = Trial(tmp_path)
    trial.fault("sleep")
    batch = Batch(trial, make_notebook)
    batch.wait_until_struck()
    batch.process.kill()
    batch.end()
    trial.is_struck()
    trial.is_whole_after_another_run()


def test_an_interrupt_ends_all_ranks_with_one_message(tmp_path, make_notebook):
    trial = Trial(tmp_path, "ranks")
    trial.fault("wait")
    batch = Batch(trial, make_notebook)
    batch.wait_until_struck()
    os.killpg(batch.process.pid, signal.SIGINT)  # as a terminal sends it
    said = batch.end()
    assert said.splitlines()[-1] == "Interrupted. Complete rounds are kept; the same command goes on from there."
    assert "Traceback" not in said
    assert batch.process.returncode == 130
    trial.no_process_is_left()
    assert trial.is_struck()[trial.last].status == "partial"
    trial.is_whole_after_another_run()


def test_the_study_may_begin_again_as_soon_as_its_launcher_is_dead(tmp_path):
    trial = Trial(tmp_path)
    trial.fault("sleep")
    with trial.started() as study:
        trial.struck_rank()
        study.kill()
        study.wait()
        trial.is_whole_after_another_run()
    wait_until(lambda: not trial.processes())
