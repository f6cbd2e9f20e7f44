"""The worker, on whose rank 1 one arm finds no memory, in the words of a GPU: run by torchrun with the arm's name and a
plan."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

import kanstudy.worker.blocks as blocks
from kanstudy.worker.__main__ import main

arm_without_memory = sys.argv.pop(1)
_Replica = blocks.Replica


def replica(point: Any, arm: str, *arguments: Any) -> Any:
    if arm == arm_without_memory and point.world_size == 2 and os.environ["RANK"] == "1":
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 TiB.\nmore words")
    return _Replica(point, arm, *arguments)


blocks.Replica = replica  # type: ignore[assignment,misc]
main()
