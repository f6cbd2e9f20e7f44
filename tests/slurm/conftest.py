"""The Slurm that all tests here share: two nodes with two fake GPUs each."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from throwaway import Sandbox, why_not


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    if reason := why_not():
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="kanslurm"))  # short: a socket lies in it
    cluster = Sandbox(folder)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)
