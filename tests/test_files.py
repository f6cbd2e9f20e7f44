"""Files that are written whole."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import pytest

from kanstudy.files import replacing, write_atomically


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_who_may_read_it_is_for_the_umask_to_say(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "a.json", "{}")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o666 & ~umask


def test_what_fails_on_the_way_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / f"{'文' * 80}.json"  # as long as a name may be
    write_atomically(path, "old")
    with contextlib.suppress(KeyboardInterrupt), replacing(path) as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_of_two_at_once_each_is_whole_and_the_last_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with replacing(path) as first:
        first.write(b"first")
        write_atomically(path, "second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]
