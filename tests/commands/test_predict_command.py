"""`kanstudy predict` as a user starts it, on records that are drawn from a known machine."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from simulated import simulate, truth

from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.analysis.network.network import Link, Network
from kanstudy.cli import main
from kanstudy.record_files import read_record, write_record
from kanstudy.spec import ARMS
from kanstudy.study import experiments
from kanstudy.study import prediction as asked
from kanstudy.study.profile import load_profile

PROFILE = """
[study]
block_s = 0.05
phase_steps = 2

[[study.strong_scaling]]
dataset = "synthetic:8:1"
n_samples = 4096
hidden_widths = [16, 16]
global_batch_size = 512

[[study.calibration]]
dataset = "synthetic:8:1"
n_samples = 4096
hidden_widths_sweep = [[8, 8], [16, 16], [32, 32]]
grid_sizes = [5]
local_batch_sizes = [4, 64, 512]
node_batch_sizes = [16]
bucket_caps_mb = [25.0, 0.01]
allreduce_bytes = [1024, 16384, 131072, 1048576]

[machine]
device = "cpu"

[cluster]
nodes = 4
ranks_per_node = 2
time_limit = "01:00:00"

[device]
memory_gib = 1.0
power_w = 200.0
price_per_hour = 1.5
"""
LINKS = """
[network]
algorithm = "gloo"
inside_latency_us = 20.0
inside_gb_per_s = 4.0
between_latency_us = 50.0
between_gb_per_s = 1.0
"""
NETWORK = Network(
    inside=Link(latency_s=2e-5, bytes_per_s=4e9), between=Link(latency_s=5e-5, bytes_per_s=1e9), algorithm="gloo"
)
MACHINE = MachineModel(
    flops_per_s=2e10, launch_s=3e-4, contention=0.05, ddp_s=5e-5, ranks_per_node=2, network=NETWORK, streams=2,
    noise=Noise(step_sd=0.02),
)  # fmt: skip


@pytest.fixture
def profile(tmp_path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(PROFILE + LINKS)
    points = experiments.plan(load_profile(path), "calibration", launcher="none").points
    for record in simulate(points, MACHINE, rounds=6):
        record.backend, record.profile = "gloo", "mine"
        write_record(record, tmp_path / "results")
    return path


def run(profile: Path, *words: str):
    given = ["--profile", str(profile), "--calibration", str(profile.parent / "results")]
    return CliRunner().invoke(main, ["predict", *given, "--out", str(profile.parent / "out"), *words])


def test_it_predicts_what_the_machine_would_do_and_writes_everything(profile: Path) -> None:
    result = run(profile, "--world-sizes", "8,64", "--steps", "3600", "--budget", "10")
    assert result.exit_code == 0, result.output
    out = profile.parent / "out"
    table = pd.read_csv(out / "prediction.csv")
    assert list(table["world_size"]) == [8, 64]
    for row, point in zip(table.itertuples(), asked.points(load_profile(profile), (8, 64)), strict=True):
        true = truth(replace(point, arms=ARMS), MACHINE, rounds=200)
        assert row.step_time_s == pytest.approx(true.times_s["ddp"], rel=0.06)
        assert row.parallel_efficiency_low < true.efficiency < row.parallel_efficiency_high
        assert row.device_hours == pytest.approx(row.world_size * row.step_time_s)
    assert set(table["source"]) == {"predicted"}
    assert set(table["interval"]) == {"scenario range"}
    for name in ("prediction.md", "prediction.tex", "prediction.pdf", "prediction.png", "calibration.json"):
        assert (out / name).stat().st_size > 0
    caption = (out / "prediction.txt").read_text()
    assert "Source: predicted, nothing here is measured" in caption
    assert "each assumed constant of the links from half to twice its value" in caption
    assert "95%" not in caption
    proposal = (out / "proposal.txt").read_text()
    assert "We predict that 3600 training steps" in proposal
    assert "network: inside nodes ideal machine (simulated), between nodes mine (assumed)" in proposal
    assert "95%" not in proposal


def test_beside_the_fastest_within_the_budget_stands_the_knee(profile: Path) -> None:
    result = run(profile, "--world-sizes", "1,2,4", "--steps", "3600", "--budget", "1000")
    assert result.exit_code == 0, result.output
    table = pd.read_csv(profile.parent / "out" / "prediction.csv").set_index("world_size")
    fastest, knee = table["training_hours"].idxmin(), (table["parallel_efficiency"] / table["training_hours"]).idxmax()
    assert knee < fastest
    proposal = (profile.parent / "out" / "proposal.txt").read_text()
    assert f"best within the limits is world size {fastest}, at an efficiency of " in proposal
    longer, share = (table.loc[knee, name] / table.loc[fastest, name] for name in ("training_hours", "device_hours"))
    assert f"is world size {knee}: {longer:.2g} times as long for {share:.0%} of the device-hours" in proposal


@pytest.mark.parametrize(("size", "is_said"), [("8", False), ("16", True)])
def test_more_nodes_than_the_cluster_has_are_remarked(profile: Path, size: str, is_said: bool) -> None:
    assert run(profile, "--world-sizes", size).exit_code == 0
    said = (
        "[cluster] of the profile has 4 nodes, fewer than these."
        in (profile.parent / "out" / "proposal.txt").read_text()
    )
    assert said == is_said


def test_a_calibration_file_gives_the_same_as_its_records(profile: Path) -> None:
    assert run(profile, "--world-sizes", "2").exit_code == 0
    out = profile.parent / "out"
    first = (out / "prediction.csv").read_text()
    given = ["--profile", str(profile), "--calibration", str(out / "calibration.json"), "--world-sizes", "2"]
    assert CliRunner().invoke(main, ["predict", *given, "--out", str(profile.parent / "b")]).exit_code == 0
    assert (profile.parent / "b" / "prediction.csv").read_text() == first


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--world-sizes", "8,x"], "--world-sizes 8,x: must be distinct whole numbers >= 1"),
        (["--world-sizes", "0"], "--world-sizes 0: must be distinct whole numbers"),
        (["--world-sizes", "3"], "world size 3: global_batch_size = 512: must be divisible"),
        (["--world-sizes", "256"], "world size 256: local_batch_size = 2: calibrated are 4 to 512"),
        (["--budget", "much"], "--budget much: must be device-hours, such as 1500, or money, such as 1500EUR"),
        (["--deadline", "nan"], "--deadline nan: must be hours > 0"),
        (["--budget", "-3"], "--budget -3: must be device-hours"),
        (["--scaling", "weak"], "has no series [[study.weak_scaling]] of a KAN"),
        (["--calibration", "{d}/none"], "--calibration {d}/none: cannot be read: No such file"),
        (["--calibration", "{d}/mine.toml"], "mine.toml: not JSON"),
        (["--held-out", "{d}/none.csv"], "{d}/none.csv: cannot be read: No such file"),
        (["--calibration", "{d}"], "{d}: no records of the experiment calibration"),
        (["--out", "{d}/mine.toml"], "--out {d}/mine.toml: must be a folder that can be written"),
        (["--out", "~nobody-at-all/x"], "--out ~nobody-at-all/x: cannot be used"),
        (["--profile", "nothing"], "profile 'nothing': must be"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(profile: Path, words: list[str], message: str) -> None:
    folder = str(profile.parent)
    result = run(profile, *[word.format(d=folder) for word in words])
    assert result.exit_code == 2
    assert message.format(d=folder) in result.output
    assert result.output.count("Error: ") == 1
    assert "Traceback" not in result.output
    assert not (profile.parent / "out").exists()


def test_a_hopeless_calibration_is_not_for_a_proposal(profile: Path) -> None:
    for number, path in enumerate(sorted((profile.parent / "results" / "calibration").glob("*.json"))):
        record = read_record(path)
        for item in (item for arm in record.arms.values() for item in arm.rounds):
            item.rank_step_times_s = [[step * 30 ** (number % 3) for step in rank] for rank in item.rank_step_times_s]
        write_record(record, profile.parent / "results")
    result = run(profile, "--world-sizes", "2")
    assert result.exit_code == 0, result.output
    assert "which predicts nothing: the calibration has too few rounds" in result.output
    assert (profile.parent / "out" / "proposal.txt").read_text().startswith("Do not use this: on 2 rank(s)")


def test_without_a_calibration_it_says_how_to_get_one(profile: Path) -> None:
    other = profile.with_name("never_measured.toml")
    other.write_text(PROFILE)
    result = CliRunner().invoke(main, ["predict", "--profile", str(other), "--out", str(profile.parent / "out")])
    assert result.exit_code == 2
    assert f"nothing is measured there: kanstudy submit --profile {other} --only calibration" in result.output


def test_one_machines_network_is_not_taken_for_anothers(profile: Path) -> None:
    other = profile.with_name("other.toml")
    other.write_text(PROFILE)
    result = run(other, "--world-sizes", "8")
    assert result.exit_code == 2
    assert "the calibration is of mine (ideal machine), and" in result.output
    assert "states no [network]" in result.output


def test_a_profile_of_the_same_name_on_another_device_is_another_machine(profile: Path) -> None:
    profile.write_text(PROFILE.replace("[device]", '[device]\nname = "EPYC"'))
    result = run(profile, "--world-sizes", "2")
    assert result.exit_code == 2
    assert "one machine's network is not taken for another's" in result.output


def test_cpus_that_are_calibrated_do_not_stand_for_gpus(profile: Path) -> None:
    profile.write_text(profile.read_text().replace('device = "cpu"', 'device = "cuda"'))
    result = run(profile, "--world-sizes", "2")
    assert result.exit_code == 2
    assert "the calibration is of cpu" in result.output


def test_links_that_were_calibrated_are_not_replaced_by_stated_ones(profile: Path) -> None:
    slower = LINKS.replace("inside_latency_us = 20.0", "inside_latency_us = 2000.0")
    times = []
    for links in (LINKS, slower, slower.replace("between_latency_us = 50.0", "between_latency_us = 5000.0")):
        profile.write_text(PROFILE + links)
        assert run(profile, "--world-sizes", "8").exit_code == 0
        times.append(pd.read_csv(profile.parent / "out" / "prediction.csv")["step_time_s"].iloc[0])
    assert times[0] == times[1]
    assert times[2] > 5 * times[0]


def test_without_a_network_between_nodes_only_one_node_is_predicted(profile: Path) -> None:
    profile.write_text(PROFILE)
    assert run(profile, "--world-sizes", "2").exit_code == 0
    result = run(profile, "--world-sizes", "4")
    assert result.exit_code == 2
    assert "no network between nodes is calibrated" in result.output


def test_help_teaches_and_predicting_loads_no_torch(profile: Path) -> None:
    text = CliRunner().invoke(main, ["predict", "--help"]).output
    for word in ("--world-sizes 8,64,512", "--calibration proposal/calibration.json", "--budget 1500", "Exit codes"):
        assert word in text
    code = (
        "import sys; from kanstudy.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "assert 'torch' not in sys.modules"
    )
    given = ["predict", "--profile", str(profile), "--calibration", str(profile.parent / "results")]
    words = [*given, "--world-sizes", "2", "--out", str(profile.parent / "out")]
    subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)
