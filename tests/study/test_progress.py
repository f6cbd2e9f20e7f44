from __future__ import annotations

import json

import pytest

from kanstudy.study import progress as progress_module
from kanstudy.study.progress import Progress, duration


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

    monkeypatch.setattr(progress_module.time, "monotonic", lambda: Clock.now)
    return Clock


class Told:
    def __init__(self, path) -> None:
        self.path, self.lines = path, []
        self.progress = Progress(path, 3, self.lines.append)

    def event(self, kind: str, **details) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({"event": kind, "unix_s": 0.0, **details}) + "\n")
        self.progress.poll()


@pytest.fixture
def told(tmp_path, clock):
    return Told(tmp_path / "progress.jsonl")


def test_no_file_yet_is_no_event(told, clock):
    clock.now += 5
    told.progress.poll()
    assert told.progress.silent_s == 5
    assert (told.progress.point_id, told.lines) == (None, [])


def test_blocks_tell_what_is_in_progress_and_are_told_twice_a_minute(told, clock):
    told.event("started", world_size=2)
    for done in range(100):
        told.event("block", point_id="a", arm="ddp", round=0, done=done, total=100)
        clock.now += 1
    assert (told.progress.point_id, told.progress.arm) == ("a", "ddp")
    assert told.lines == [
        "  block 30 of 100: a ddp, about 70 s left",
        "  block 60 of 100: a ddp, about 40 s left",
        "  block 90 of 100: a ddp, about 10 s left",
    ]


def test_blocks_heard_of_all_at_once_foretell_nothing(told, clock):
    for done in (0, 1, 2):
        told.event("block", point_id="a", arm="ddp", round=0, done=done, total=100)
    assert told.progress.left == ""
    clock.now += 4
    assert told.progress.left == ", about 3 min left"


def test_each_finished_point_is_told_at_once(told):
    told.event("point", point_id="a", status="ok")
    told.event("point", point_id="b", status="oom")
    assert told.lines == ["  a: ok (1 of 3)", "  b: oom (2 of 3)"]
    assert not told.progress.is_finished
    told.event("finished")
    assert told.progress.is_finished


def test_every_event_breaks_the_silence(told, clock):
    clock.now += 50
    told.event("round", point_id="a", launch=0, round=1, rounds=3)
    assert told.progress.silent_s == 0
    clock.now += 7
    told.progress.poll()
    assert told.progress.silent_s == 7


def test_a_line_is_read_when_it_is_whole(told):
    text = json.dumps({"event": "block", "point_id": "a", "arm": "ddp", "done": 0, "total": 1})
    told.path.write_text(text[:20])
    told.progress.poll()
    assert told.progress.point_id is None
    with told.path.open("a") as file:
        file.write(text[20:] + "\n")
    told.progress.poll()
    assert told.progress.point_id == "a"


@pytest.mark.parametrize("line", ["{", "", "3", "[]", "null", '{"event": 5}', '{"event": "block"}', "\x00\xff"])
def test_what_is_no_event_is_passed_over(told, clock, line):
    with told.path.open("ab") as file:
        file.write(line.encode("latin-1") + b"\n")
    clock.now += 60
    told.event("point", point_id="a", status="ok")
    assert told.lines == ["  a: ok (1 of 3)"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (3600, "60 min"), (2 * 3600, "2.0 h")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text
