"""Small profiles, written as files as a user would."""

from __future__ import annotations

from pathlib import Path

from kanstudy.study.profile import Profile, load_profile

STRONG = """
[[study.strong_scaling]]
dataset = "synthetic:4:1"
n_samples = 64
hidden_widths = [3]
global_batch_size = 8
"""
WEAK = """
[[study.weak_scaling]]
dataset = "synthetic:4:1"
n_samples = 64
hidden_widths = [3]
local_batch_size = 4
"""
COMMUNICATION = """
[[study.communication_overhead]]
dataset = "synthetic:4:1"
n_samples = 64
hidden_widths = [3]
global_batch_size = 8
bucket_caps_mb = [0.1, 25]
allreduce_bytes = [8, 1024]
"""
MODEL_SIZE = """
[[study.model_size_scaling]]
dataset = "synthetic:4:1"
n_samples = 64
hidden_widths_sweep = [[3], [4, 4]]
grid_sizes = [3, 5]
global_batch_size = 8
"""
OPERATORS = """
[[study.operator_scaling]]
dataset = "synthetic:4:1"
n_samples = 64
hidden_widths = [3]
global_batch_size = 8
"""
CALIBRATION = """
[[study.calibration]]
dataset = "synthetic:4:1"
n_samples = 64
hidden_widths_sweep = [[3], [4, 4]]
grid_sizes = [3, 5]
local_batch_sizes = [2, 8]
node_batch_sizes = [4]
bucket_caps_mb = [25.0, 0.1]
allreduce_bytes = [8, 1024]
"""
MACHINE = """
[machine]
device = "cpu"
world_sizes = [1, 2]
allow_oversubscription = true
"""


def write(folder: Path, *parts: str, study: str = "", name: str = "tiny.toml") -> Path:
    """A profile file: lines of `[study]`, then the tables."""
    path = folder / name
    path.write_text("\n".join(["[study]", study, *parts]), encoding="utf-8")
    return path


def profile_of(folder: Path, *parts: str, study: str = "", machine: str = MACHINE) -> Profile:
    return load_profile(write(folder, *parts, machine, study=study))
