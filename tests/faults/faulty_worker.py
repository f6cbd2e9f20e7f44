"""The real worker, on one of whose ranks something goes wrong in the second round of a point.

Run by torchrun with the path of a PLAN; `<results>/fault.json` says on which `rank` and `how`, and is there only for
the run that is to fail. `<results>/here` holds the process number of a rank that waits to be struck from outside.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from kanstudy.files import write_atomically
from kanstudy.worker import measure
from kanstudy.worker.__main__ import main

_run_blocks = measure.run_blocks
RESULTS = Path(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["results_dir"])
FAULT = json.loads((RESULTS / "fault.json").read_text()) if (RESULTS / "fault.json").exists() else {"rank": None}


def run_blocks(ranks: Any, state: Any, arm: str, *arguments: Any) -> Any:
    struck = ranks.rank == FAULT["rank"] and state.point.world_size == 2 and state.done == 1 and arm == "ddp"
    if struck:
        go_wrong(FAULT["how"])
    return _run_blocks(ranks, state, arm, *arguments)


def go_wrong(how: str) -> None:
    if how == "raise":
        raise ValueError("this rank was told to fail")
    elif how == "leave":
        os._exit(0)
    elif how == "clock":  # the machine's clock is set back by a day
        now, time.time = time.time, lambda: now() - 86400
    elif how == "memory":  # more than its control group may hold
        (Path(FAULT["cgroup"]) / "cgroup.procs").write_text(str(os.getpid()))
        held = []
        while True:
            held.append(bytearray(os.urandom(1 << 20)) * 8)
    else:
        write_atomically(RESULTS / "here", str(os.getpid()))
        time.sleep(600)


measure.run_blocks = run_blocks
main()
