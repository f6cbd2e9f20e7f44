from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_point

from kanstudy.spec import ARMS
from kanstudy.worker.arms import Replica, turns
from kanstudy.worker.dataset import Dataset, ResidentBatches
from kanstudy.worker.measure import balanced_order


def test_serial_global_takes_another_rank_each_round() -> None:
    assert [turns("serial_global", (0, 2), index) for index in range(3)] == [[(0,)], [(2,)], [(0,)]]


def test_serial_local_takes_each_rank_in_turn_and_the_others_run_together() -> None:
    assert turns("serial_local", (0, 2), 5) == [(0,), (2,)]
    for arm in ("concurrent", "ddp_noop", "ddp"):
        assert turns(arm, (0, 2), 5) == [(0, 2)]


@given(st.integers(1, 5))
def test_every_arm_stands_in_every_place_equally_often(count: int) -> None:
    arms = ARMS[:count]
    rounds = [balanced_order(arms, index) for index in range(2 * count)]
    for place in range(count):
        assert sorted(order[place] for order in rounds) == sorted(arms * 2)


@pytest.fixture(scope="module")
def two_ranks(data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What two ranks found (one launch serves all tests of this file)."""
    output = tmp_path_factory.mktemp("ddp") / "found.json"
    here = Path(__file__).parent
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONPATH": os.pathsep.join([str(here), str(here.parents[1])]),
    }
    done = subprocess.run(
        [*command, str(here / "ddp_checks.py"), str(data_file), str(output)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(output.read_text())


@pytest.mark.parametrize("model", ["kan", "mlp"])
def test_two_ranks_equal_one_process_on_the_joined_batch(two_ranks: dict[str, Any], model: str) -> None:
    found = two_ranks[model]
    assert found["moved"] > 1e-4, "training changed nothing, so the comparison shows nothing"
    assert found["ddp_against_single_process"] < 1e-9
    assert found["hook_against_single_process"] < 1e-9
    assert found["every_parameter_has_a_gradient"]


@pytest.mark.parametrize("model", ["kan", "mlp"])
def test_replicas_are_bit_identical_unless_nothing_is_communicated(two_ranks: dict[str, Any], model: str) -> None:
    assert two_ranks[model]["replicas_identical"]
    assert two_ranks[model]["noop_replicas_differ"]


def test_buffers_are_made_equal_when_the_module_is_wrapped(two_ranks: dict[str, Any]) -> None:
    assert two_ranks["buffers_equal_after_wrap"]


def test_training_gives_the_same_losses_at_every_world_size(two_ranks: dict[str, Any]) -> None:
    pair, single = two_ranks["training"]
    for name in ("loss_first", "loss_last", "holdout_loss"):
        assert pair[name] == pytest.approx(single[name], rel=1e-9)
    assert pair["loss_last"] < pair["loss_first"]
    assert pair["nan_step"] is None
    assert len(pair["out_of_grid_share"]) == 2


def test_buffers_are_synchronised_in_forward_only_on_request_and_never_without_communication(
    two_ranks: dict[str, Any],
) -> None:
    assert two_ranks["buffers_synchronised_in_forward"] == {"ddp": False, "ddp_noop": False}
    assert two_ranks["buffers_synchronised_on_request"] == {"ddp": True, "ddp_noop": False}


def test_every_block_starts_from_the_same_state(data_file: Path) -> None:
    point, device = tiny_point(), torch.device("cpu")
    batches = ResidentBatches(point, Dataset.open(data_file), torch.float32, device).local_batches(0)
    runs = []
    for _ in range(2):
        replica = Replica(point, "serial_local", device, None)
        runs.append([float(replica.step(*batches[step])) for step in range(4)])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 4, "nothing was trained"
