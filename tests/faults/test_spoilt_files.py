"""What happens to the files: no room, no permission, and records that are none or are another's."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from trial import Trial

from kanstudy.analysis import results
from kanstudy.record_files import read_record
from kanstudy.study.folder import FolderError

pytestmark = pytest.mark.faults


@contextlib.contextmanager
def small_disk(folder: Path, size: str = "2m") -> Iterator[None]:
    """A file system of its own on the folder; skips where this user can mount none."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    with contextlib.ExitStack() as stack:
        try:
            done = subprocess.run(mount, capture_output=True, text=True, check=False)
        except OSError as error:
            pytest.skip(f"nothing can be mounted here: {error}")
        if done.returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
        stack.callback(subprocess.run, ["umount", "-l", str(folder)], check=True)
        yield


def test_the_disk_becomes_full(tmp_path):
    with small_disk(tmp_path / "results"):
        trial = Trial(tmp_path)
        trial.fault("fill")
        with pytest.raises(FolderError, match=r"results: cannot be written: No space left on device"):
            trial.run()
        trial.is_struck()
        (trial.results / "ballast").unlink()
        trial.is_whole_after_another_run()


def test_the_folder_cannot_be_written(tmp_path):
    with small_disk(tmp_path / "results"):
        trial = Trial(tmp_path)
        trial.run()
        subprocess.run(["mount", "-o", "remount,ro", str(trial.results)], check=True)
        before = {path: path.read_bytes() for path in trial.results.rglob("*.json")}
        with pytest.raises(FolderError, match=r"results: cannot be written: Read-only file system"):
            trial.run()
        assert trial.run(launcher="none").left == [], "but it can be read"
        assert {path: path.read_bytes() for path in trial.results.rglob("*.json")} == before
        subprocess.run(["mount", "-o", "remount,rw", str(trial.results)], check=True)
        trial.is_whole_after_another_run()


def test_records_that_are_none_are_measured_again_and_kept(tmp_path):
    trial = Trial(tmp_path, "ranks")
    trial.run()
    first, second, third, fourth = (trial.results / "strong_scaling" / f"{name}.json" for name in trial.ids())
    spoilt = {
        first: first.read_text()[:-1000],
        second: "",
        third: json.dumps(json.loads(third.read_text()) | {"schema_version": 99, "news": 1}),
        fourth: json.dumps(json.loads(fourth.read_text()) | {"learning_rate": 0.5}),  # of another point
    }
    for path, text in spoilt.items():
        path.write_text(text)
    foreign = first.with_name("settings.json"), first.with_name("list.json")
    foreign[0].write_text('{"editor": "vi"}')
    foreign[1].write_text("[1]")
    assert set(trial.run(launcher="none").statuses.values()) == {"unreadable"}

    trial.run()
    assert [trial.record(name).status for name in trial.ids()] == ["ok"] * 4
    aside = {path.name.partition(".")[0]: path.read_text() for path in (first.parent / "aside").iterdir()}
    assert aside == {path.stem: text for path, text in spoilt.items()}
    assert [path.read_text() for path in foreign] == ['{"editor": "vi"}', "[1]"]
    loaded = results.load(trial.results)
    assert len(loaded.records) == 4
    assert {Path(path).name for path in loaded.problems["path"]} == {path.name for path in foreign}


def test_a_temporary_file_of_a_killed_rank_is_no_record(tmp_path):
    trial = Trial(tmp_path)
    trial.run()
    rest = trial.results / "strong_scaling" / f".{trial.last}.json.abcd.tmp"
    rest.write_text("{")
    assert len(results.load(trial.results).records) == 4
    assert results.load(trial.results).problems.empty
    assert read_record(trial.results / "strong_scaling" / f"{trial.last}.json").status == "ok"
