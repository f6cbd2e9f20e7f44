"""What DDP itself counts of a step's communication, as a cross-check of ours, where this torch has it.

A prototype interface of torch, which no public one replaces: whatever is not there any more is left out, nothing fails.
"""

from __future__ import annotations

from torch import nn

KEYS = {"communication_s": "backward_comm_time", "overlap_s": "backward_compute_comm_overlap_time"}
"""Our names, and DDP's: from the first all-reduce's start to the last one's end (waiting for other ranks included), and
how much of that lies before the last gradient is ready. What is left is exposed."""


def count_every_step(module: nn.Module) -> None:
    """Let DDP count each step: by default it counts the first ten, then one in a hundred."""
    choose = getattr(module, "_set_ddp_runtime_logging_sample_rate", None)
    if choose is not None:
        choose(1)


def counted(module: nn.Module) -> dict[str, float] | None:
    """Seconds, under the names of `KEYS`, of the step before the one whose forward ran last; None where unknown."""
    read = getattr(module, "_get_ddp_logging_data", None)
    found = read() if read is not None else {}
    if not all(isinstance(found.get(name), int) for name in KEYS.values()):
        return None
    return {ours: found[theirs] / 1e9 for ours, theirs in KEYS.items()}
