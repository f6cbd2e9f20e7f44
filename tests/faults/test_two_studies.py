"""Two studies at once in one folder: one waits or is refused in one sentence, and records never mix."""

from __future__ import annotations

import contextlib

import pytest
from trial import Trial

pytestmark = pytest.mark.faults


def test_the_second_is_refused_while_the_first_measures(tmp_path):
    trial = Trial(tmp_path)
    trial.fault("sleep")
    with trial.started() as first, trial.started() as second:
        other = {first: second, second: first}
        struck = trial.struck_rank()  # of the one that has the folder
        (owner,) = [one for one in other if one.pid in {parent.pid for parent in struck.parents()}]
        said, _ = other[owner].communicate(timeout=120)
        assert other[owner].returncode == 1
        assert f"process {owner.pid} on " in said
        assert "is running a study in it" in said
        assert "Traceback" not in said
        struck.kill()
        owner.communicate(timeout=120)
        assert owner.returncode == 1
    trial.is_struck()
    trial.is_whole_after_another_run()


def test_many_at_the_same_moment(tmp_path):
    trial = Trial(tmp_path)
    with contextlib.ExitStack() as stack:
        studies = [stack.enter_context(trial.started()) for _ in range(4)]
        said = [study.communicate(timeout=300)[0] for study in studies]
    for study, text in zip(studies, said, strict=True):
        assert study.returncode == 0 or "is running a study in it" in text
        assert "Traceback" not in text
    assert 0 in {study.returncode for study in studies}
    assert (trial.results / "starts").read_text().count("start") == 1, "who came later found all measured"
    assert set(trial.run(launcher="none").statuses.values()) == {"ok"}
    trial.is_whole_after_another_run()
