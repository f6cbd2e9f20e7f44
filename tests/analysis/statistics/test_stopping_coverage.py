"""How often the reported 95 % interval holds the truth where the rounds are adaptive: the stopping rule chooses n."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import chain_times, simulate, truth
from test_coverage import BLOCKS, DRAWS, HIGHEST, LOWEST, MACHINE, POINT, SCENARIOS, Vectorised, stacked

from kanstudy.analysis.machine_model.model import MachineModel
from kanstudy.analysis.machine_model.noise import Noise
from kanstudy.analysis.simulation.simulate import draw
from kanstudy.analysis.statistics import intervals
from kanstudy.stopping import LOOKS, half_width, log_ratios

EFFICIENCY = {"efficiency": ("serial_global", "ddp")}


def stopped_after(ratios: np.ndarray, target_width: float) -> np.ndarray:
    """The rounds (draws,) after which the rule stops, given the log ratios (draws, 100) of all rounds."""
    rounds = np.full(len(ratios), LOOKS[-1])
    for index, values in enumerate(ratios.tolist()):
        rounds[index] = next((n for n in LOOKS if half_width(values[:n]) <= target_width / 2), LOOKS[-1])
    return rounds


def test_the_vectorised_rule_sees_the_workers_ratios() -> None:
    (record,) = simulate([POINT], MachineModel(**MACHINE, noise=Noise(**BLOCKS)), 20, seed=5)
    ratios = np.array(log_ratios(record, 0))
    narrow, wide = 2 * half_width(ratios) * np.array([0.999, 1.001])
    assert stopped_after(ratios[None], wide) == [20]
    assert stopped_after(np.tile(ratios, 5)[None], narrow) > 20


def all_rounds(machine: MachineModel, draws: int, seed: list[int]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The chain's columns (draws, 100) of as many rounds as there could be, and which of them were disturbed."""
    # the same generator twice gives the same blocks
    columns, drawing = (
        take(POINT, machine, draws, LOOKS[-1], np.random.default_rng(seed)) for take in (chain_times, draw)
    )
    return columns, np.any([np.any(arm.foreign_cpu > 0, axis=-1) for arm in drawing.values()], axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SCENARIOS))
def test_intervals_cover_the_truth_through_the_stopping_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that about half of the draws reach at the second look: luck chooses when. The rule sees all rounds, the
    reported interval the undisturbed ones."""
    monkeypatch.setattr(intervals, "RESAMPLES", 1000)
    machine = MachineModel(**MACHINE, noise=SCENARIOS[name])
    true = truth(POINT, machine).efficiency * POINT.world_size
    parts = [all_rounds(machine, DRAWS // 10, [7, chunk]) for chunk in range(10)]
    columns = {column: np.concatenate([part[column] for part, _ in parts]) for column in parts[0][0]}
    disturbed = np.concatenate([mask for _, mask in parts])
    logs, names = stacked(columns), list(columns)
    ratios = logs[..., names.index("serial_global")] - logs[..., names.index("ddp")]
    target = 2 * float(np.median([half_width(values) for values in ratios[:200, :30].tolist()]))
    rounds = stopped_after(ratios, target)
    assert len(np.unique(rounds)) >= 3
    left = np.array([np.sum(~mask[:n]) for mask, n in zip(disturbed, rounds, strict=True)])
    kept = np.argsort(disturbed, axis=1, kind="stable")
    held = np.empty(len(logs), dtype=bool)
    for n in np.unique(left):
        chosen = left == n
        undisturbed = np.take_along_axis(logs[chosen], kept[chosen, :n, None], axis=1)
        bounds = Vectorised(undisturbed, names, seed=int(n)).intervals(EFFICIENCY)[:, 0]
        held[chosen] = (bounds[:, 0] <= true) & (true <= bounds[:, 1])
    by_look = {int(n): f"{np.mean(held[rounds == n]):.1%} of {np.sum(rounds == n)}" for n in np.unique(rounds)}
    print(f"\n{name}: {held.mean():.1%}; by look {by_look}")
    assert LOWEST <= held.mean() <= HIGHEST
