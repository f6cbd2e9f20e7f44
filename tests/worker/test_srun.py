"""A task of srun in the words of torchrun."""

from __future__ import annotations

import pytest

from kanstudy.worker.srun import adopt, tasks_per_node

TASK = {
    "SLURM_PROCID": "4",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "2",
    "SLURM_NTASKS": "9",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2),3",
}


def test_a_task_learns_its_place(tmp_path):
    (tmp_path / "step" / "attempt_0" / "4").mkdir(parents=True)
    environment = dict(TASK)
    adopt(tmp_path, environment)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    assert [environment[name] for name in names] == ["4", "5", "1", "3"]
    assert environment["TORCHELASTIC_ERROR_FILE"] == str(tmp_path / "step" / "attempt_0" / "4" / "error.json")


@pytest.mark.parametrize("environment", [{}, TASK | {"RANK": "7"}])
def test_what_a_launcher_has_set_stays(environment, tmp_path):
    before = dict(environment)
    adopt(tmp_path, environment)
    assert environment == before


@pytest.mark.parametrize(("text", "tasks"), [("2", [2]), ("2(x3),1", [2, 2, 2, 1]), ("4,1(x2)", [4, 1, 1])])
def test_tasks_of_each_node(text, tasks):
    assert tasks_per_node(text) == tasks
