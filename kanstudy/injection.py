"""Causes of lost efficiency that are put into a run on purpose, to see whether the attribution finds them.

An injection is written `CAUSE:DOSE`. At dose d a rank spends d · u · s seconds more on a step, where u is the time of
its uninjected step with the local batch, alone on the machine, and s is the cause's own `share`: which arms, ranks and
batches it strikes. So a dose means the same on every machine, and what it must do to each time of the chain is known
beforehand.

| cause       | what is added                                                                   | must land in    |
|-------------|---------------------------------------------------------------------------------|-----------------|
| page_faults | fresh memory touched, by the global batch alone, as where only its arrays are large | batch       |
| fixed_work  | work after the optimizer, the same at every batch                               | batch           |
| slow_rank   | work of the last rank, in proportion to its rows                                | heterogeneity   |
| contention  | work of every rank, only where ranks run together: a shared budget of power     | contention      |
| ddp_cost    | work in the communication hook, whether or not it communicates                  | ddp             |
| jitter      | random work of each rank by itself, in proportion to its rows                   | synchronisation |
| slow_link   | a delay of the message, only where one is sent                                  | data_movement   |
| input_stall | a delay of the batch's arrival, in proportion to its rows                       | no factor       |

Standard library only: the worker spends these times, the analysis adds them on paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

OWN_FACTOR = {
    "page_faults": "batch",
    "fixed_work": "batch",
    "slow_rank": "heterogeneity",
    "contention": "contention",
    "ddp_cost": "ddp",
    "jitter": "synchronisation",
    "slow_link": "data_movement",
    "input_stall": None,
}
"""The factor that each cause must land in; None: in none, the timed steps have their data on the device."""
IN_HOOK = ("ddp_cost", "slow_link")
"""Causes that are spent in DDP's communication hook, the others after the step."""
DATA_PATH = "input_stall"
"""The cause that is spent before the batch is there."""
HIGHEST_DOSE = 10.0

_QUANTILES = 8
_EXPONENTIAL = [-math.log(1 - (place + 0.5) / _QUANTILES) for place in range(_QUANTILES)]
DECK = tuple(value * _QUANTILES / sum(_EXPONENTIAL) for value in _EXPONENTIAL)
"""Amounts of jitter, from an exponential distribution of mean 1. A rank deals them in a shuffled order and begins anew:
single steps are random, but no block of whole decks gets more of it than another."""


@dataclass(frozen=True)
class Injection:
    """A cause and its dose, a share of the uninjected step's time."""

    cause: str
    dose: float

    def __str__(self) -> str:
        return f"{self.cause}:{self.dose:g}"

    def share(self, arm: str, position: int, world_size: int) -> float:
        """What rank number `position` of the group gets in a timed step of an arm, in doses; its mean for jitter."""
        batches = world_size if arm == "serial_global" else 1  # in local batches
        together = arm in ("concurrent", "ddp_noop", "ddp")
        shares = {
            "page_faults": world_size if arm == "serial_global" else 0,
            "fixed_work": 1,
            "slow_rank": batches if position == world_size - 1 else 0,
            "contention": 1 if together else 0,
            "ddp_cost": 1 if arm in ("ddp_noop", "ddp") else 0,
            "jitter": batches,
            "slow_link": 1 if arm == "ddp" else 0,
            DATA_PATH: 0,
        }
        return float(shares[self.cause])


def whole_periods(steps: int, injection: str) -> int:
    """So many steps, or the few more that it takes until what is injected repeats itself."""
    return -(-steps // len(DECK)) * len(DECK) if injection.startswith("jitter:") else steps


def parse(text: str) -> Injection:
    """The injection that `CAUSE:DOSE` stands for; `ValueError` saying what is allowed."""
    cause, _, number = text.partition(":")
    try:
        dose = float(number)
    except ValueError:
        dose = math.nan
    if cause not in OWN_FACTOR or not 0 < dose <= HIGHEST_DOSE:
        causes = ", ".join(OWN_FACTOR)
        raise ValueError(f"CAUSE:DOSE, a dose above 0 and at most {HIGHEST_DOSE:g} of one of {causes}")
    return Injection(cause, dose)
