"""The bar: on a terminal alone, of the launch that runs, and never in the way of a line."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from pathlib import Path

import pytest

from kanstudy.study import live_bar as module
from kanstudy.study import progress as progress_module
from kanstudy.study.live_bar import Bar, live_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    @property
    def screen(self) -> str:
        """What is seen of the last line."""
        return self.getvalue().rpartition("\n")[2].rpartition("\r\x1b[K")[2]


class Launch:
    """What rank 0 of a launch writes."""

    def __init__(self, results: Path, name: str = "1") -> None:
        self.path = results / "logs" / "strong_scaling" / name / "progress.jsonl"
        self.path.parent.mkdir(parents=True)

    def event(self, kind: str, **details) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({"event": kind, **details}) + "\n")

    def block(self, done: int, total: int) -> None:
        self.event("block", point_id="a", arm="ddp", done=done, total=total)


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

    monkeypatch.setattr(progress_module.time, "monotonic", lambda: Clock.now)
    return Clock


def test_the_bar_shows_blocks_and_the_time_left(tmp_path, clock):
    out = Terminal()
    bar, launch = Bar(out, tmp_path), Launch(tmp_path)
    bar.draw()
    assert out.getvalue() == ""
    launch.block(0, 30)
    bar.draw()
    assert out.screen == f"  [{'.' * 30}] 0 of 30 blocks"
    clock.now += 20
    launch.block(10, 30)
    bar.draw()
    assert out.screen == f"  [{'#' * 10}{'.' * 20}] 10 of 30 blocks, about 40 s left"
    launch.event("finished")
    bar.draw()
    assert out.screen == ""


def test_a_line_takes_the_bars_place_and_the_bar_comes_again_below(tmp_path):
    out = Terminal()
    bar, launch = Bar(out, tmp_path), Launch(tmp_path)
    launch.block(1, 2)
    bar.draw()
    print("  a: ok (1 of 1)", file=bar)
    assert out.getvalue().endswith("\r\x1b[K  a: ok (1 of 1)\n")
    bar.draw()
    assert out.screen.endswith("1 of 2 blocks")
    bar.clear()
    assert out.screen == ""


def test_only_a_launch_of_now_is_followed_and_the_newest(tmp_path):
    old = Launch(tmp_path, "old")
    old.block(1, 5)
    os.utime(old.path, (time.time() - 60, time.time() - 60))
    out = Terminal()
    bar = Bar(out, tmp_path)
    bar.draw()
    assert out.getvalue() == ""
    first, second = Launch(tmp_path, "2"), Launch(tmp_path, "3")
    first.block(1, 6)
    second.block(2, 7)
    os.utime(second.path, (time.time() + 5, time.time() + 5))
    bar.draw()
    assert "2 of 7 blocks" in out.screen


def test_on_a_terminal_it_runs_by_itself_and_leaves_nothing(tmp_path, monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(module, "_EVERY_S", 0.01)
    with live_bar(tmp_path):
        Launch(tmp_path).block(3, 4)
        until = time.monotonic() + 20
        while "3 of 4 blocks" not in out.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
        print("a line")
    assert "3 of 4 blocks" in out.getvalue()
    assert "a line\n" in out.getvalue()
    assert out.screen == ""
    assert sys.stdout is out


def test_elsewhere_there_is_no_bar(tmp_path, monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(module, "_EVERY_S", 0.01)
    with live_bar(tmp_path):
        Launch(tmp_path).block(3, 4)
        time.sleep(0.1)
        print("a line")
    assert out.getvalue() == "a line\n"
