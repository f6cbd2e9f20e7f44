"""What an injection must do: the known times added, step by step, to a record of the same point without it.

The attribution of such a record is what would be found if the cause did just what it is meant to and the rounds were
the same. It has what no cause can avoid: work that is added early in the chain makes the later losses a smaller share.
"""

from __future__ import annotations

import copy

import numpy as np

from kanstudy.analysis import metrics
from kanstudy.injection import DECK, Injection
from kanstudy.record import Record

_REPEATS = 64
"""How often the steps of a block are taken with jitter drawn anew, so that the mean of their maxima has no noise."""


def on_paper(plain: Record, injection: Injection, step_s: float) -> Record:
    """The plain record with `injection` in its timed steps, where a dose of 1 takes `step_s`.

    Ranks of one host, in order, as `packed` places them. A step of `ddp` is longer by what its slowest rank at every
    step is, which `ddp_noop` of the same round tells, and by what only `ddp` is given. Raises `ValueError` unless both
    arms are there.
    """
    if not {"ddp_noop", "ddp"} <= set(plain.arms):
        raise ValueError(f"{plain.point_id}: arms = {list(plain.arms)}: must contain ddp_noop and ddp")
    record = copy.deepcopy(plain)
    p, unit = plain.world_size, injection.dose * step_s
    rng = np.random.default_rng(0)
    waits = {}
    for arm in (name for name in record.arms if name != "ddp"):
        for item in record.arms[arm].rounds:
            before = np.array(item.rank_step_times_s, dtype=float)
            added = unit * np.array([[injection.share(arm, rank, p)] for rank in item.active_ranks])
            if arm == "ddp_noop" and injection.cause == "jitter":
                before = np.tile(before, _REPEATS)
                added = added * np.array([_dealt(before.shape[1], rng) for _ in item.active_ranks])
            after = before + added
            item.rank_step_times_s = after.tolist()
            if arm == "ddp_noop":
                waits[item.launch, item.index] = metrics.slowest_at_every_step(after.tolist())
                waits[item.launch, item.index] -= metrics.slowest_at_every_step(before.tolist())
    for item in record.arms["ddp"].rounds:
        own = unit * (injection.share("ddp", 0, p) - injection.share("ddp_noop", 0, p))
        longer = waits[item.launch, item.index] + own
        item.rank_step_times_s = (np.array(item.rank_step_times_s, dtype=float) + longer).tolist()
    return record


def _dealt(steps: int, rng: np.random.Generator) -> np.ndarray:
    """One rank's amounts of jitter over so many steps (steps,), in doses."""
    decks = -(-steps // len(DECK))
    return rng.permuted(np.tile(DECK, (decks, 1)), axis=1).ravel()[:steps]
