from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanstudy.study.datasets.prepare import DEFAULT_SAMPLES, DataError, describe, prepare
from kanstudy.worker.dataset import Dataset

ARRAYS = ("x_train", "y_train", "x_holdout", "y_holdout")
DRAWN = ["synthetic:3:2", "feynman:I.12.11"]


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return {name: file[name] for name in ARRAYS}


def meta_of(path: Path) -> dict:
    with np.load(path) as file:
        return json.loads(str(file["meta"]))


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "my table.csv"
    path.write_text("a,b,y\n" + "".join(f"{row},{row % 7},{row**2}\n" for row in range(50)))
    return f"file:{path}:y"


@pytest.fixture(params=[*DRAWN, "flights", "file"])
def dataset(request, table) -> str:
    return table if request.param == "file" else request.param


def test_the_file_is_what_was_described_and_what_the_worker_maps(dataset, tmp_path):
    info = describe(dataset, 40, seed=3)
    path = prepare(dataset, 40, 3, tmp_path / "data")
    mapped = Dataset.open(path)
    assert info.n_samples == 40
    assert mapped.x_train.shape == (40, info.n_features)
    assert mapped.y_train.shape == (40, info.n_targets)
    assert mapped.x_holdout.shape == (info.n_holdout, info.n_features)
    assert mapped.y_holdout.shape == (info.n_holdout, info.n_targets)
    for name in ARRAYS:
        array = getattr(mapped, name)
        assert isinstance(array, np.memmap)
        assert array.dtype == np.float32
        assert array.flags.c_contiguous
        assert np.isfinite(array).all()
    meta = meta_of(path)
    assert (meta["dataset"], meta["n_samples"], meta["seed"]) == (info.name, 40, 3)
    assert len(meta["feature_names"]) == len(meta["feature_low"]) == info.n_features
    assert len(meta["target_names"]) == len(meta["target_scale"]) == info.n_targets
    assert meta["origin"]


def test_training_rows_fill_the_grid_and_targets_are_standardised(dataset, tmp_path):
    arrays = arrays_of(prepare(dataset, 40, 0, tmp_path))
    assert arrays["x_train"].min() == -1
    assert arrays["x_train"].max() == 1
    np.testing.assert_allclose(arrays["y_train"].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(arrays["y_train"].std(axis=0), 1, rtol=1e-5)


def test_a_name_that_was_given_stands_for_the_data_set(dataset, tmp_path):
    info = describe(dataset, 40)
    assert describe(info.name, 40).name == info.name
    assert prepare(info.name, 40, 0, tmp_path) == prepare(dataset, 40, 0, tmp_path)


def test_what_is_prepared_is_found_by_its_name_in_another_process(dataset, tmp_path):
    info = describe(dataset, 40)
    path = prepare(dataset, 40, 0, tmp_path)
    code = (
        "import sys; from pathlib import Path; from kanstudy.study.datasets.prepare import prepare; "
        "print(prepare(sys.argv[1], 40, 0, Path(sys.argv[2])))"
    )
    command = [sys.executable, "-c", code, info.name, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == str(path)


def test_none_asks_for_all_rows(table, tmp_path):
    assert describe("synthetic:3:2").n_samples == DEFAULT_SAMPLES
    everything = describe(table)
    assert everything.n_samples + everything.n_holdout == 50
    assert prepare(table, None, 0, tmp_path) == prepare(table, everything.n_samples, 0, tmp_path)


def test_the_same_seed_gives_the_same_and_another_seed_another(dataset, tmp_path):
    first, again = (arrays_of(prepare(dataset, 40, 1, tmp_path / folder)) for folder in "ab")
    other = arrays_of(prepare(dataset, 40, 2, tmp_path))
    for name in ARRAYS:
        np.testing.assert_array_equal(first[name], again[name])
    assert not np.array_equal(first["y_train"], other["y_train"]) or dataset.startswith("file")  # file: all 40 rows


def test_a_finished_file_is_used_again(dataset, tmp_path):
    path = prepare(dataset, 40, 0, tmp_path)
    before = path.stat()
    assert prepare(dataset, 40, 0, tmp_path) == path
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("length", [0, 100, -1])
def test_a_damaged_file_is_made_anew(length, tmp_path):
    path = prepare(DRAWN[0], 40, 0, tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:length])
    assert prepare(DRAWN[0], 40, 0, tmp_path) == path
    assert Dataset.open(path).x_train.shape == (40, 3)


def test_a_file_of_other_content_under_the_name_is_made_anew(tmp_path):
    path = prepare(DRAWN[0], 40, 0, tmp_path)
    expected = arrays_of(path)["x_train"]
    meta = meta_of(path) | {"seed": 9}
    np.savez(path, meta=np.array(json.dumps(meta)), **{name: np.zeros((2, 2), np.float32) for name in ARRAYS})
    np.testing.assert_array_equal(arrays_of(prepare(DRAWN[0], 40, 0, tmp_path))["x_train"], expected)


def test_what_differs_has_its_own_file(tmp_path):
    asked = [("synthetic:3:2", 40, 0), ("synthetic:3:2", 40, 1), ("synthetic:3:2", 41, 0), ("synthetic:2:3", 40, 0)]
    assert len({prepare(*one, tmp_path) for one in asked}) == len(asked)


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DataError, match="cannot be written: No space left on device"):
        prepare(DRAWN[0], 40, 0, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "data").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        prepare(DRAWN[0], 40, 0, tmp_path / "data")


def test_two_processes_may_make_it_at_once(tmp_path):
    code = (
        "import sys; from pathlib import Path; from kanstudy.study.datasets.prepare import prepare; "
        "print(prepare('synthetic:8:1', 20000, 0, Path(sys.argv[1])))"
    )

    def run(_number: int) -> str:
        command = [sys.executable, "-c", code, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()

    with ThreadPoolExecutor(3) as pool:
        paths = set(pool.map(run, range(3)))
    assert [str(path) for path in tmp_path.iterdir()] == list(paths)
    assert Dataset.open(paths.pop()).x_train.shape == (20000, 8)


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("", ["''", "synthetic, feynman, flights, file"]),
        ("sinthetic:3:1", ["'sinthetic:3:1'", "did you mean 'synthetic'"]),
        ("flights:2014", ["'flights:2014'", "nothing after it"]),
        ("file:", ["'file:'", "file:PATH:TARGET"]),
        ("file:mine-1a2b3c4d", ["'file:mine-1a2b3c4d'", "file:PATH:TARGET"]),
    ],
)
def test_refuses_what_is_no_data_set_in_one_line(dataset, expected):
    with pytest.raises(DataError) as caught:
        describe(dataset)
    message = str(caught.value)
    assert "\n" not in message
    for words in expected:
        assert words in message


@pytest.mark.parametrize("n_samples", [0, 1, -5, 2.0, True, "40", 10**12])
def test_refuses_a_number_of_rows_that_cannot_be(n_samples, tmp_path):
    for call in (lambda: describe(DRAWN[0], n_samples), lambda: prepare(DRAWN[0], n_samples, 0, tmp_path)):
        with pytest.raises(DataError, match=r"'synthetic:3:2': n_samples = .*: must be .* from 2 to \d+$"):
            call()


def test_refuses_more_rows_than_there_are(table):
    with pytest.raises(DataError, match=r"n_samples = 41: must be .* from 2 to 40 \(10 more are held out\)"):
        describe(table, 41)


@pytest.mark.parametrize("seed", [-1, 1.0, True])
def test_refuses_a_bad_seed(seed):
    with pytest.raises(DataError, match=r"seed = .*: must be a whole number >= 0"):
        describe(DRAWN[0], 40, seed)


def test_describing_draws_nothing(monkeypatch):
    monkeypatch.setattr(np.random, "default_rng", None)
    assert describe("synthetic:4096:4096", 1000).n_features == 4096
    assert describe("feynman:I.12.11").n_features == 5


@given(kind=st.sampled_from(["synthetic", "feynman", "flights", "file", "x"]), rest=st.text(max_size=30))
def test_any_text_is_described_or_refused(kind, rest):
    try:
        info = describe(f"{kind}:{rest}")
    except DataError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017
    else:
        assert info.n_features >= 1
