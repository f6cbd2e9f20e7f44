"""`kanstudy bench nccl` on folders of simulated records: one as NCCL chooses, one held to trees."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from simulated import simulate

from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.analysis.network.network import Link, Network
from kanstudy.cli import main
from kanstudy.record_files import write_record
from kanstudy.spec import PointSpec

OWN, TREES = ("Ring", "Tree"), ("Tree",)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["bench", "nccl", *arguments])


def write(folder: Path, algorithms: tuple[str, ...], settings: dict[str, str]) -> str:
    """Records of 2, 4 and 8 ranks on 4 nodes, whose small gradients take longest with one rank on each."""
    network = Network(
        inside=Link(latency_s=5.7e-6, bytes_per_s=10e9),
        between=Link(latency_s=14e-6, bytes_per_s=12e9),
        algorithm="nccl",
        nccl_algorithms=algorithms,
    )
    machine = MachineModel(
        network=network, ranks_per_node=2, nodes=4, launch_s=1e-4, flops_per_s=1e13, noise=Noise(block_sd=0.002)
    )
    points = [
        PointSpec(
            experiment="weak_scaling",
            scaling="weak",
            world_size=p,
            global_batch_size=64 * p,
            dataset="synthetic:16:1",
            n_samples=4096,
            layer_widths=(16, 32, 12, 1),
            placement="spread",
            block_s=0.002,
            warmup_s=0.0,
            arms=("ddp_noop", "ddp"),
        )
        for p in (2, 4, 8)
    ]
    for record in simulate(points, machine, rounds=16, seed=len(algorithms)):
        record.provenance["settings"] = settings
        write_record(record, folder)
    return str(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    base = tmp_path_factory.mktemp("nccl")
    return write(base / "own", OWN, {}), write(base / "Tree", TREES, {"NCCL_ALGO": "Tree"})


def test_it_says_whether_the_fall_goes_away_and_writes_the_table(folders, tmp_path):
    done = run(*folders, "--out", str(tmp_path / "figures"))
    assert done.exit_code == 0, done.output
    assert "held to Tree: what is not monotonic goes away; largest fall " in done.output
    assert "| NCCL's own" in done.output
    table = (tmp_path / "figures" / "nccl_choices_forced.csv").read_text()
    assert table.startswith("series,source,nodes,choice,world_sizes")
    assert "simulated" in table
    text = (tmp_path / "figures" / "nccl_choices_forced.md").read_text()
    assert "by what NCCL is held to. Source: simulated" in text


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ([0, 0], "is there twice with NCCL's own: must be one folder a choice"),
        (["nowhere"], "must be a folder that exists"),
        (["empty"], "no series of two world sizes above 1 in 0 records"),
    ],
)
def test_what_cannot_be_compared_is_said(folders, tmp_path, which, message):
    (tmp_path / "empty").mkdir()
    done = run(*(folders[item] if isinstance(item, int) else str(tmp_path / item) for item in which))
    assert done.exit_code == 2
    assert message in done.output
