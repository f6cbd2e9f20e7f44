"""Peak memory of a step: what a step takes and keeps is counted, what is there before is not."""

from __future__ import annotations

import multiprocessing
import sys
from functools import partial

import pytest
import torch

from kanstudy.bench import memory

MIB = 2**18  # elements of float32
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/clear_refs is Linux'")


class Hungry:
    """Parameters and data of `there` MiB, `kept` MiB that the first step makes, `passing` MiB in every step."""

    n_params = 7

    def __init__(self, there: int, kept: int, passing: int) -> None:
        self.there, self.kept, self.passing = torch.ones(there * MIB), kept, passing
        self.scratch: torch.Tensor | None = None

    def step(self) -> torch.Tensor:
        if self.scratch is None:
            self.scratch = torch.ones(self.kept * MIB)
        return torch.ones(self.passing * MIB).sum()


@pytest.mark.parametrize(("kept", "passing"), [(0, 64), (64, 0), (48, 80)])
def test_the_peak_is_what_a_step_takes_and_keeps(kept, passing):
    """Asked in a fresh process, as the benchmark does: this one's heap has room that other tests have left."""
    with multiprocessing.get_context("spawn").Pool(1) as fresh:
        found = fresh.apply(memory.measure, (partial(Hungry, 100, kept, passing),))
    assert found.peak_bytes is not None
    assert found.peak_bytes / 2**20 == pytest.approx(kept + passing, abs=6)
    assert (found.n_params, len(found.step_times_s), found.reason) == (7, 2, None)
    assert found.first_step_s > 0


def test_a_system_that_does_not_tell_is_blank_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_SELF", tmp_path / "none")
    found = memory.measure(lambda: Hungry(1, 1, 1))
    assert found.peak_bytes is None
    assert "does not tell a process' peak" in (found.reason or "")
    assert len(found.step_times_s) == 2


def test_what_a_candidate_raises_is_raised():
    def refuse() -> Hungry:
        raise RuntimeError("can't allocate memory")

    with pytest.raises(RuntimeError, match="can't allocate memory"):
        memory.measure(refuse)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        memory.first_step(refuse)
