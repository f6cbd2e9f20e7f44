from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kanstudy.analysis import estimates, results
from kanstudy.cli import main
from kanstudy.record_files import write_record
from kanstudy.study.notebooks import run_notebook
from kanstudy.wanted import Wanted

PROFILE = """
[study]
rounds = 6
block_s = 0.05
warmup_s = 0.0
phase_steps = 2
grid_size = 5

[[study.strong_scaling]]
dataset = "synthetic:16:1"
n_samples = 65536
hidden_widths = [64]
global_batch_size = 32768

[[study.communication_overhead]]
dataset = "synthetic:16:1"
n_samples = 65536
hidden_widths = [64]
global_batch_size = 32768
bucket_caps_mb = [25.0]
allreduce_bytes = [1024, 1048576]

[machine]
device = "cuda"
world_sizes = [1, 2, 4]

[cluster]
nodes = 2
ranks_per_node = 2
time_limit = "01:00:00"
placements = ["packed", "spread"]

[device]
name = "GPU"
peak_tflops_fp32 = 20.0
memory_gib = 40.0
memory_gb_per_s = 1000.0
flops_share = 0.5
memory_share = 0.8
launch_us = 5.0
step_sd = 0.02
block_sd = 0.003

[network]
algorithm = "nccl"
inside_latency_us = 6.0
inside_gb_per_s = 10.0
between_latency_us = 14.0
between_gb_per_s = 5.0
"""


CALIBRATION = """
[[study.calibration]]
dataset = "synthetic:16:1"
n_samples = 65536
hidden_widths_sweep = [[16], [64], [256]]
grid_sizes = [5]
local_batch_sizes = [256, 1024, 4096, 8192, 16384, 32768]
node_batch_sizes = [8192, 32768]
allreduce_bytes = [1024, 16384, 262144, 4194304]
"""


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(PROFILE)
    return path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_every_planned_point_gets_a_complete_record_that_says_it_is_simulated(profile: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = call("simulate", "--profile", profile, "--out", out)
    assert found.exit_code == 0, found.output
    table = results.planned_versus_done(out)
    assert (set(table["status"]), set(table["reason"])) == ({"ok"}, {"simulated"})
    assert set(table["experiment"]) == {"strong_scaling", "communication_overhead"}
    records = results.load(out).records
    assert {record.source for record in records} == {"simulated"}
    assert {(record.profile, record.backend, record.device_type, record.operator) for record in records} == {
        ("mine", "nccl", "cuda", "compiled")
    }
    layouts = {(record.world_size, record.placement): (record.nodes, record.ranks_per_node) for record in records}
    assert layouts[2, "packed"] == (1, 2)
    assert layouts[2, "spread"] == (2, 1)
    assert layouts[4, "packed"] == (2, 2)
    strong = estimates.strong(results.load(out, "strong_scaling").records)
    assert strong["efficiency"].between(0.2, 1.02).all()
    assert strong["series"].str.contains("simulated").all()
    status = call("status", "--profile", profile, "--results-dir", out)
    assert "missing" not in status.output
    assert "Points planned: 10 (10 ok)" in status.output


@pytest.mark.slow
def test_every_notebook_and_the_report_take_them(profile: Path, tmp_path: Path, repository: Path) -> None:
    out = tmp_path / "out"
    assert call("simulate", "--profile", profile, "--out", out).exit_code == 0
    parameters = {"profile": str(profile), "launcher": "none", "results_dir": str(out)}
    for name in ("01_strong_scaling", "03_communication_overhead"):
        run_notebook(repository / "notebooks" / f"{name}.ipynb", tmp_path / f"{name}.ipynb", parameters)
    found = call("report", "--results-dir", out)
    assert found.exit_code == 0, found.output
    written = {path.name for path in (out / "figures").glob("*.png")}
    assert {"overview-simulated.png", "communication_overhead-simulated.png", "beside_published.png"} <= written
    assert not {"overview.png", "communication_overhead.png"} & written
    table = (out / "figures" / "attribution_strong-simulated.md").read_text()
    rows = [line for line in table.splitlines() if line.startswith("| KAN")]
    assert rows
    assert all(", simulated" in line for line in rows)


def test_the_same_call_gives_the_same_records(profile: Path, tmp_path: Path) -> None:
    files = []
    for name in ("a", "b"):
        assert call("simulate", "--profile", profile, "--out", tmp_path / name).exit_code == 0
        paths = sorted((tmp_path / name).glob("*/*.json"))
        files.append({path.relative_to(tmp_path / name): path.read_bytes() for path in paths})
    assert files[0] == files[1]


def test_only_and_rounds_are_as_asked_for(profile: Path, tmp_path: Path) -> None:
    asked = ("--only", "strong_scaling", "--rounds", 3, "--launches", 2, "--out", tmp_path / "out")
    assert call("simulate", "--profile", profile, *asked).exit_code == 0
    (name,) = results.experiments(tmp_path / "out")
    assert name == "strong_scaling"
    assert all(Wanted(3, 2).is_complete(record) for record in results.load(tmp_path / "out").records)


@pytest.mark.parametrize(
    ("line", "instead", "message"),
    [
        ("flops_share = 0.5", "", "mine.toml [device]: flops_share is not stated: must be a number > 0"),
        ("flops_share = 0.5", "flops_share = 1.5", "mine.toml [device] flops_share = 1.5: must be a number >= 0 and"),
        (PROFILE[PROFILE.index("[network]") :], "", "mine.toml: has no [network]"),
    ],
)
def test_a_machine_that_is_not_described_is_refused(
    line: str, instead: str, message: str, profile: Path, tmp_path: Path
) -> None:
    profile.write_text(PROFILE.replace(line, instead))
    found = call("simulate", "--profile", profile, "--out", tmp_path / "out")
    assert found.exit_code == 2
    assert message in found.output
    assert not (tmp_path / "out").exists()


def test_what_is_measured_and_what_is_simulated_never_share_a_folder(profile: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert call("simulate", "--profile", profile, "--out", out).exit_code == 0
    measured = results.load(out).records[0]
    measured.source = "measured"
    write_record(measured, out)
    found = call("simulate", "--profile", profile, "--out", out)
    assert (found.exit_code, "holds 1 records that are measured" in found.output) == (2, True)


def test_nothing_is_measured_over_simulated_records(profile: Path, tmp_path: Path) -> None:
    local = tmp_path / "local.toml"
    machine = '[machine]\ndevice = "cpu"\nworld_sizes = [1, 2]\n'
    start, end = PROFILE.index("[machine]"), PROFILE.index("[device]")
    local.write_text(PROFILE[:start] + machine + PROFILE[end:].replace('"nccl"', '"gloo"'))
    assert call("simulate", "--profile", local, "--out", tmp_path / "out").exit_code == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*/*.json")}
    found = call("run", "--profile", local, "--results-dir", tmp_path / "out", "--only", "strong_scaling")
    assert found.exit_code != 0
    assert "its records are simulated; measure into another folder" in found.output
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*/*.json") if path in before} == before
    plan = json.loads((tmp_path / "out" / "plans" / "strong_scaling.json").read_text())
    assert plan["rounds"]


def test_a_calibration_takes_the_place_of_the_constants_and_machines_mix_on_request_alone(tmp_path: Path) -> None:
    """Simulated, calibrated from those records, and simulated again from that: nearly the same comes out."""
    mine = tmp_path / "mine.toml"
    mine.write_text(PROFILE.replace("[machine]", f"{CALIBRATION}\n[machine]"))
    first, again = tmp_path / "first", tmp_path / "again"
    assert call("simulate", "--profile", mine, "--out", first).exit_code == 0
    found = call("simulate", "--profile", mine, "--calibration", first, "--out", again, "--only", "strong_scaling")
    assert found.exit_code == 0, found.output
    before, after = (
        estimates.strong(results.load(folder, "strong_scaling").records).set_index("point_id")
        for folder in (first, again)
    )
    packed = after.index[after["placement"] == "packed"]
    assert after.loc[packed, "step_time_s"].to_numpy() == pytest.approx(before.loc[packed, "step_time_s"], rel=0.1)
    assert set(after["device_name"]) == {"GPU, assumed constants, calibrated"}
    others = tmp_path / "others.toml"
    others.write_text(mine.read_text())
    asked = ("simulate", "--profile", others, "--calibration", first, "--out", tmp_path / "third")
    refused = call(*asked)
    assert (refused.exit_code, "--mixed takes its computation on the network of others" in refused.output) == (2, True)
    mixed = call(*asked, "--mixed", "--only", "strong_scaling", "--only", "communication_overhead")
    assert mixed.exit_code == 0, mixed.output


def test_what_a_calibration_does_not_cover_is_left_out_and_named(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(PROFILE.replace("[machine]", f"{CALIBRATION}\n[machine]"))
    assert call("simulate", "--profile", mine, "--out", tmp_path / "first", "--only", "calibration").exit_code == 0
    mine.write_text(mine.read_text().replace("global_batch_size = 32768", "global_batch_size = 65536", 1))
    found = call("simulate", "--profile", mine, "--calibration", tmp_path / "first", "--out", tmp_path / "again")
    assert found.exit_code == 0, found.output
    assert "strong_scaling: 0 points simulated, 4 not: " in found.output
    assert "65536" in found.output
    only = ("--out", tmp_path / "none", "--only", "strong_scaling")
    none = call("simulate", "--profile", mine, "--calibration", tmp_path / "first", *only)
    assert (none.exit_code, "65536" in none.output) == (2, True)
    assert not (tmp_path / "none").exists()


def test_a_calibration_of_several_kinds_of_model_is_refused_in_one_line(tmp_path: Path) -> None:
    mine, first = tmp_path / "mine.toml", tmp_path / "first"
    mine.write_text(PROFILE.replace("[machine]", f"{CALIBRATION}\n[machine]"))
    assert call("simulate", "--profile", mine, "--out", first, "--only", "calibration").exit_code == 0
    changed = results.load(first).records[0]
    changed.operator = "reference"
    write_record(changed, first)
    found = call("simulate", "--profile", mine, "--calibration", first, "--out", tmp_path / "again")
    assert (found.exit_code, "operator compiled, reference: a calibration must be of one" in found.output) == (2, True)
