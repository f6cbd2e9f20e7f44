"""The job after the one that measures: what it does where that measured nothing."""

from __future__ import annotations

import sys

import pytest
from profiles_for_tests import STRONG, write
from test_submit import CLUSTER, MACHINE, finish, plans_of

from kanstudy.study import batch
from kanstudy.study.jobs import report_job, submission
from kanstudy.study.profile import load_profile


def test_a_job_that_was_ended_before_it_measured_gets_no_report(tmp_path, monkeypatch, capsys):
    profile = load_profile(write(tmp_path, STRONG, MACHINE, CLUSTER, study="rounds = 1"))
    plans, begun = plans_of(profile), []
    run = submission.write(plans, profile, tmp_path / "r", tmp_path / "f", "the plan")
    monkeypatch.setattr(batch.Batch, "run", lambda self, names, title: begun.append(names))
    monkeypatch.setattr(sys, "argv", ["report_job", str(run.folder)])
    report_job.main()
    assert "Nothing is measured yet" in capsys.readouterr().out
    assert begun == []
    finish(plans["strong_scaling"], tmp_path / "r", 0)
    with pytest.raises(SystemExit) as end:
        report_job.main()
    assert end.value.code == batch.OK
    assert begun == [["01_strong_scaling"]]
