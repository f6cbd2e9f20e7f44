"""Every command of the README and of its pages in notebooks/ is run as it stands there, made cheap where it would
measure for long, in a clean folder that has what a clone has; what cannot be run here is named with the reason."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kanstudy.cli import main

ROOT = Path(__file__).resolve().parent.parent
PAGES = {path: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *sorted(ROOT.glob("notebooks/*.md")))}
KANSTUDY = ".venv/bin/kanstudy "

CHEAP = {  # what is put in place of a part, so that a command takes seconds; in this order
    "--profile laptop": "--profile tiny.toml",
    "--compare laptop": "--compare results/tiny",
    "-p profile smoke": "-p profile tiny.toml",
    "--launches 5 --max-minutes 60": "--launches 1 --max-minutes 60 --rounds 1",
    "--launches 3": "--launches 1",
    "--world-sizes 8,64,512": "--world-sizes 8,64",
    "bench operator": "bench operator --shapes 8,8,1:32 --operators floor,fused --rounds 1",
    "bench attribution": "bench attribution --quick --rounds 1 --only jitter",
}
NOT_RUN = {
    "make study": "installs everything first; tests/test_makefile.py runs it with stand-ins",
    "make test": "is what runs this",
    f"{KANSTUDY}submit --profile finisterrae3": "submits to that cluster; tests/slurm submits to a Slurm of its own",
    f"{KANSTUDY}bench prediction --profile laptop --out check": "measures for ten minutes, over links that need root",
}
EXIT_CODES = {f"{KANSTUDY}collect --profile finisterrae3": 4}
"""Where it is not 0: there is something left to measure."""
TINY = """
[study]
rounds = 1
block_s = 0.02
warmup_s = 0.02
[[study.strong_scaling]]
dataset = "synthetic:4:1"
n_samples = 64
hidden_widths = [3]
global_batch_size = 8
[machine]
device = "cpu"
world_sizes = [1, 2]
allow_oversubscription = true
"""
CALIBRATING = """
[study]
rounds = 4
block_s = 0.05
warmup_s = 0.02
phase_steps = 5
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
local_batch_sizes = [1, 64, 512]
node_batch_sizes = [16]
bucket_caps_mb = [25.0]
allreduce_bytes = [1024, 16384, 131072, 1048576]
[machine]
device = "cpu"
"""
CLUSTER = """
[cluster]
nodes = 32
ranks_per_node = 2
time_limit = "01:00:00"
[device]
price_per_hour = 1.5
[network]
algorithm = "gloo"
inside_latency_us = 20.0
inside_gb_per_s = 4.0
between_latency_us = 50.0
between_gb_per_s = 1.0
"""

NCCL_LOG = """\
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256   float     sum    20.00    0.05    0.10  0e+00    20.00    0.05    0.10  0e+00
     1048576        262144   float     sum    100.0   10.49   19.66  0e+00    100.0   10.49   19.66  0e+00
"""


def blocks(language: str) -> list[str]:
    """The blocks of code of that language on all pages."""
    found = (re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL) for text in PAGES.values())
    return [block for blocks in found for block in blocks]


COMMANDS = [
    line.partition(" #")[0].strip()
    for block in blocks("sh")
    for line in block.splitlines()
    if line.partition("#")[0].strip()
]


def test_the_commands_are_found_and_what_is_not_run_is_among_them():
    assert len(COMMANDS) > 15
    assert set(NOT_RUN) | set(EXIT_CODES) <= set(COMMANDS)
    everything = "\n".join(COMMANDS)
    assert [part for part in CHEAP if part not in everything] == []


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith(KANSTUDY)])
def test_a_command_has_the_options_that_are_shown(command):
    """Of every command, run or not."""
    words, group, context = shlex.split(command)[1:], main, click.Context(main, info_name="kanstudy")
    while isinstance(group, click.Group):
        name, *words = words
        group = group.get_command(context, name)
        assert group is not None, name
    group.make_context(group.name, words)


def test_targets_of_make_are_those_that_are_shown():
    targets = re.findall(r"`make (\w+)|^make (\w+)", "\n".join(PAGES.values()), re.MULTILINE)
    named = {first or second for first, second in targets}
    assert {"study", "test", "lab"} <= named
    rules = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= rules


def test_files_that_are_named_are_there():
    named = []
    for page, text in PAGES.items():
        named += [page.parent / name for name in re.findall(r"\]\(([^)#:]+)\)", text)]
        named += [ROOT / name for name in re.findall(r"`((?:kanstudy|slurm|results|figures)/[\w/.-]+)`", text)]
    made = (ROOT / "results" / "laptop", ROOT / "figures" / "laptop")
    assert len(named) > 10
    missing = [path for path in named if not path.exists()]
    assert [path for path in missing if not any(path.is_relative_to(folder) for folder in made)] == []


def test_every_page_is_reached_from_the_readme():
    linked = set(re.findall(r"\]\((notebooks/[^)#]+)\)", PAGES[ROOT / "README.md"]))
    assert {path.relative_to(ROOT).as_posix() for path in PAGES if path.parent != ROOT} == linked


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """What a clone has, and the files that a reader is said to have."""
    folder = tmp_path_factory.mktemp("clone")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("kanstudy", "notebooks", "slurm", "results/reference", "figures/reference"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "tiny.toml").write_text(TINY)
    (folder / "mine.toml").write_text(f"{CALIBRATING}world_sizes = [1, 2]\nallow_oversubscription = true")
    (folder / "cluster.toml").write_text(CALIBRATING + CLUSTER)
    (folder / "images.csv").write_text("code,gpus,img_per_s\nplain,1,100\nddp,1,98\nddp,2,180\n")
    (folder / "all_reduce_perf.log").write_text(NCCL_LOG)
    return folder


@pytest.mark.slow
def test_every_command_does_what_it_should(clone):
    """One after the other, as a reader would: some need what those before them made."""
    for command in COMMANDS:
        if command in NOT_RUN:
            continue
        cheap = command
        for part, other in CHEAP.items():
            cheap = cheap.replace(part, other)
        program, *arguments = shlex.split(cheap)
        kanstudy = ["-c", "from kanstudy.cli import main; main(prog_name='kanstudy')"]
        start = ["-m", "papermill"] if program == ".venv/bin/papermill" else kanstudy
        environment = os.environ | {"PYTHONPATH": str(clone)}
        done = subprocess.run([sys.executable, *start, *arguments], cwd=clone, env=environment, capture_output=True)
        said = f"{cheap}\n{done.stdout.decode()}{done.stderr.decode()}"
        assert done.returncode == EXIT_CODES.get(command, 0), said
        assert "Traceback" not in said, said


@pytest.fixture
def run_block(monkeypatch):
    """Runs the one block of Python with these words in it, in the repository's root, and gives its names."""

    def run(words: str) -> dict:
        (block,) = [block for block in blocks("python") if words in block]
        monkeypatch.chdir(ROOT)
        names: dict = {}
        exec(block, names)
        return names

    return run


def test_a_number_of_the_first_figure_follows_from_the_raw_times(run_block, capsys):
    """Within what the recipe says that it leaves out."""
    names = run_block("rank_step_times_s")
    row = names["row"]
    assert names["efficiency"] == pytest.approx(row["efficiency_all"], rel=0.01)
    factors = names["pd"].read_csv(ROOT / "figures" / "reference" / "attribution_strong.csv")
    (ddp,) = factors.loc[(factors["point_id"] == row["point_id"]) & (factors["factor"] == "ddp"), "value"]
    assert names["cost_of_ddp"] == pytest.approx(ddp, rel=0.02)
    shown = re.search(r"\[(\S+), (\S+)\]", capsys.readouterr().out)
    assert [float(end) for end in shown.groups()] == pytest.approx(
        [row["efficiency_all_low"], row["efficiency_all_high"]], abs=0.02
    )


def test_the_public_names_do_what_is_shown(run_block):
    names = run_block("import kanstudy")
    assert names["model"](names["torch"].rand(5, 3)).shape == (5, 1)
    assert set(names["factors"]["factor"]) >= {"batch", "data_movement", "efficiency"}
    assert list(names["mine"]["parallel_efficiency"]) == pytest.approx([1.0, 0.95, 0.8])
