"""What the job on the first node does when something goes wrong beside the ranks."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from profiles_for_tests import STRONG, write
from test_submit import CLUSTER, MACHINE, plans_of

from kanstudy.study import launch
from kanstudy.study.jobs import measure_job, preflight, slurm, submission
from kanstudy.study.profile import load_profile


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> submission.Submission:
    """A run folder, on nodes that fit together."""
    profile = load_profile(write(tmp_path, STRONG, MACHINE, CLUSTER, study="rounds = 1"))
    monkeypatch.setattr(slurm, "state", lambda job: "RUNNING")
    monkeypatch.setattr(slurm, "time_left_s", lambda job: None)
    monkeypatch.setattr(preflight, "check", lambda *arguments: {})
    monkeypatch.setattr(measure_job.signal, "signal", lambda *arguments: None)  # the test's own stay
    return submission.write(plans_of(profile), profile, tmp_path / "r", tmp_path / "f", "the plan")


def test_a_disk_that_becomes_full_is_said_in_one_line(run, monkeypatch, capsys):
    def full(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "x.json")

    monkeypatch.setattr(launch, "run", full)
    assert measure_job.measure(run, [], "42") == 1
    assert "[Errno 28] No space left on device: 'x.json'\n" in capsys.readouterr().out
