"""The worker, whose clock is past every deadline from its third round on: run by torchrun with a plan."""

from __future__ import annotations

import time
from typing import Any

from kanstudy.worker import measure
from kanstudy.worker.__main__ import main

_run_blocks = measure.run_blocks


def run_blocks(ranks: Any, state: Any, *arguments: Any) -> Any:
    if state.done == 2:
        time.time = lambda: 1e12
    return _run_blocks(ranks, state, *arguments)


measure.run_blocks = run_blocks
main()
