"""`python -m kanstudy.worker PLAN`: measure a plan on the ranks that a launcher (torchrun, srun) started.

Environment, as torchrun sets it: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT; a task of
srun knows the first four from Slurm. SIGUSR1 to rank 0 ends the launch after the round in progress.
Exit code 0: measured as far as the plan's time allows (a point that ran out of memory or whose loss is not finite
has a record that says so). 1: this rank failed, its traceback is on stderr. 2: the plan cannot be read.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from kanstudy.machine import core_order
from kanstudy.run_spec import RunSpec, run_spec_from_json
from kanstudy.spec import SpecError
from kanstudy.worker import interruption, srun


def pin(run: RunSpec) -> tuple[int, ...] | None:
    """Put this rank on cores of its own; the cores, or None where ranks share them or the system cannot pin.

    Before torch is imported, so that its threads inherit the place.
    """
    if not run.pin or not hasattr(os, "sched_setaffinity"):
        return None
    cores, threads = core_order(), run.threads_per_rank
    local_rank, local_ranks = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if len(cores) == threads and local_ranks > 1:  # the launcher (srun) already gave every task its own
        return tuple(cores)
    start = local_rank * threads % len(cores)
    own = tuple(cores[(start + offset) % len(cores)] for offset in range(min(threads, len(cores))))
    os.sched_setaffinity(0, own)
    return own


def work(run: RunSpec) -> None:
    """Measure the plan and leave; does not return to a caller that would tear the process group down."""
    cores = pin(run)
    import torch
    from torch.distributed.elastic.multiprocessing.errors import record

    from kanstudy.worker.measure import Measurement
    from kanstudy.worker.ranks import Ranks

    @record  # writes the traceback to where torchrun looks for the first failure
    def measure() -> None:
        torch.set_num_threads(run.threads_per_rank)
        torch.set_flush_denormal(True)  # Adam's moments of coefficients without support would slow steps 6 to 9 times
        ranks = Ranks.start(run)
        Measurement(run, ranks, cores).measure()
        ranks.barrier()

    measure()


def leave(code: int) -> NoReturn:
    """End the process now. Destroying process groups at interpreter exit aborts at random (SIGABRT)."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> NoReturn:
    """Read the plan named on the command line and measure it."""
    if len(sys.argv) != 2:
        print("usage: python -m kanstudy.worker PLAN", file=sys.stderr)
        leave(2)
    interruption.listen()
    srun.adopt(Path(sys.argv[1]).parent)
    try:
        run = run_spec_from_json(Path(sys.argv[1]).read_text(encoding="utf-8"))
    except (OSError, SpecError) as error:
        print(f"kanstudy.worker: {sys.argv[1]}: {error}", file=sys.stderr)
        leave(2)
    try:
        work(run)
    except BaseException:  # every way out must be this one
        traceback.print_exc()
        leave(1)
    leave(0)


if __name__ == "__main__":
    main()
