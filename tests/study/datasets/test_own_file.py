from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kanstudy.study.datasets import own_file
from kanstudy.study.datasets.prepare import describe, prepare
from kanstudy.study.datasets.rows import DataError

TABLE = pd.DataFrame({"a": np.arange(30.0), "b": np.arange(30) % 4, "y": np.arange(30.0) ** 2, "z": np.arange(30) % 3})


def write(path: Path, table: pd.DataFrame = TABLE) -> Path:
    table.to_parquet(path) if path.suffix.lower() == ".parquet" else table.to_csv(path, index=False)
    return path


def refusal(dataset: str) -> str:
    """The one line with which a data set is refused."""
    with pytest.raises(DataError) as caught:
        describe(dataset)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize("name", ["mine.csv", "mine.parquet", "MINE.CSV", "my own: data.csv", "a:y,z.csv", "mïne.csv"])
def test_a_table_with_two_targets_in_the_order_asked_for(tmp_path, name):
    rows = own_file.source(f"file:{write(tmp_path / name)}:z, y").rows(24, 0)
    assert (rows.feature_names, rows.target_names) == (("a", "b"), ("z", "y"))
    assert (rows.x_train.shape, rows.y_train.shape) == ((24, 2), (24, 2))
    x, y = np.concatenate((rows.x_train, rows.x_holdout)), np.concatenate((rows.y_train, rows.y_holdout))
    order = np.argsort(x[:, 0])
    np.testing.assert_array_equal(x[order], TABLE[["a", "b"]])
    np.testing.assert_array_equal(y[order], TABLE[["z", "y"]])


def test_csv_and_parquet_of_the_same_table_give_the_same_rows(tmp_path):
    csv, parquet = (own_file.source(f"file:{write(tmp_path / name)}:y").rows(24, 0) for name in ("t.csv", "t.parquet"))
    np.testing.assert_array_equal(csv.x_train, parquet.x_train)
    np.testing.assert_array_equal(csv.y_holdout, parquet.y_holdout)


@pytest.mark.parametrize(
    ("asked_for", "targets"),
    [
        ('"speed, km/h"', ("speed, km/h",)),
        ('y, "speed, km/h"', ("y", "speed, km/h")),
        ("time:ms", ("time:ms",)),
        ('time:ms,"speed, km/h"', ("time:ms", "speed, km/h")),
        ('"say ""y"""', ('say "y"',)),
        ("größe", ("größe",)),
    ],
)
def test_names_of_targets_may_hold_commas_colons_quotes_and_other_letters(tmp_path, asked_for, targets):
    names = {"a": "speed, km/h", "b": "time:ms", "z": "größe"}
    path = write(tmp_path / "t: 1.csv", TABLE.rename(columns=names).assign(**{'say "y"': range(30)}))
    rows = own_file.source(f"file:{path}:{asked_for}").rows(24, 0)
    assert rows.target_names == targets
    assert prepare(describe(f"file:{path}:{asked_for}").name, 24, 0, tmp_path).is_file()


def test_a_target_that_was_cut_at_its_comma_is_told_of_quotes(tmp_path):
    path = write(tmp_path / "t.csv", TABLE.rename(columns={"a": "speed, km/h"}))
    assert "(a name that holds a comma needs quotes)" in refusal(f"file:{path}:speed, km/h")
    assert "quotes" not in refusal(f"file:{write(tmp_path / 'u.csv')}:c")


def test_a_byte_order_mark_spaces_and_booleans_are_read(tmp_path):
    lines = ["a , flag,y", *(f"{row},{row % 2 == 0},{row}" for row in range(20))]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8-sig")
    rows = own_file.source(f"file:{tmp_path / 't.csv'}:y").rows(16, 0)
    assert rows.feature_names == ("a", "flag")
    np.testing.assert_array_equal(rows.x_train[:, 1], rows.x_train[:, 0] % 2 == 0)


def test_the_hold_out_is_a_fifth_and_does_not_depend_on_the_seed(tmp_path):
    source = own_file.source(f"file:{write(tmp_path / 't.csv')}:y")
    first, other = source.rows(10, 0), source.rows(20, 1)
    np.testing.assert_array_equal(first.x_holdout, other.x_holdout)
    assert (source.n_available, source.n_holdout) == (24, 6)
    assert not set(other.x_train[:, 0]) & set(other.x_holdout[:, 0])


def test_the_name_has_no_path_and_depends_on_content_and_targets(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    here, there = write(tmp_path / "my data.csv"), write(tmp_path / "elsewhere" / "my data.csv")
    name = describe(f"file:{here}:y").name
    assert name == describe(f"file:{there}:y").name
    assert name.startswith("file:my_data-")
    assert str(tmp_path) not in name
    assert name != describe(f"file:{here}:z").name
    write(there, TABLE + 1)
    assert name != describe(f"file:{there}:y").name


def test_a_name_leads_to_the_file_also_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(Path("t.csv"))
    name = describe("file:t.csv:y").name
    monkeypatch.chdir("/")
    assert prepare(name, 24, 0, tmp_path / "data").is_file()


def test_a_file_that_changes_after_the_plan_is_refused(tmp_path):
    path = write(tmp_path / "changing.csv")
    name = describe(f"file:{path}:y").name
    write(path, TABLE * 2)
    with pytest.raises(DataError, match=r"changing\.csv: changed since the plan was made"):
        prepare(name, 24, 0, tmp_path)


def test_a_large_file_is_read_once(tmp_path, monkeypatch):
    path = write(tmp_path / "once.csv")
    first = describe(f"file:{path}:y")
    monkeypatch.setattr(own_file, "read_table", None)
    assert describe(f"file:{path}:y") == first


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("file:t.csv", "must be file:PATH:TARGET,TARGET"),
        ("file:a:b/t.csv", "must be file:PATH:TARGET,TARGET"),
        ("file::y", "must be file:PATH:TARGET,TARGET"),
        ("file:t.txt:y", "the file 't.txt' must end with .csv, .parquet or .npz"),
        ("file:t.csv.gz:y", "must end with .csv, .parquet or .npz"),
        ("file:t:y", "must end with .csv, .parquet or .npz"),
        ("file:t.csv:", "targets '': must be distinct names"),
        ("file:t.csv:y,", "targets 'y,': must be distinct names"),
        ("file:t.csv:y,z,y", "targets 'y,z,y': must be distinct names"),
        ('file:t.csv:"y', "must be distinct names, separated by commas, in quotes where they hold one"),
        ("file:~nobody-of-this-name/t.csv:y", "t.csv: cannot be read: No such file or directory"),
        ("file:t.npz:y", "targets 'y': must be absent"),
        ("file:missing.csv:y", "missing.csv: cannot be read: No such file or directory"),
        ("file:folder.csv:y", "folder.csv: cannot be read: Is a directory"),
        ("file:good.csv:why", "no column 'why' for a target: must be one of a, b, y, z"),
        ("file:good.csv:Y", "no column 'Y' for a target: must be one of a, b, y, z"),
        ("file:good.csv:a,b,y,z", "every column is a target (a, b, y, z): must have one more, for a feature"),
        ("file:good.parquet:x", "no column 'x' for a target"),
    ],
)
def test_refuses_what_names_no_file_with_targets(tmp_path, monkeypatch, dataset, expected):
    monkeypatch.chdir(tmp_path)
    Path("folder.csv").mkdir()
    write(Path("good.csv"))
    write(Path("good.parquet"))
    assert expected in refusal(dataset)


def with_cell(value: str, row: int = 3, rows: int = 20) -> str:
    return "a,b,y\n" + "".join(f"{n},{value if n == row else n},{n * n}\n" for n in range(1, rows + 1))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "cannot be read as .csv"),
        (b"a,b,y\n", "0 rows: must be at least 10"),
        (with_cell("5", rows=9), "9 rows: must be at least 10"),
        (with_cell(""), "column 'b' is missing in row 3, 1 values of the file"),
        (with_cell("NaN"), "column 'b' is missing in row 3"),
        (with_cell("inf"), "column 'b' is inf in row 3"),
        (with_cell("-inf"), "column 'b' is -inf in row 3"),
        (with_cell("abc"), "column 'b' must be numbers: row 3 has 'abc'"),
        (with_cell("2013-01-01"), "column 'b' must be numbers: row 3 has '2013-01-01'"),
        (with_cell('"1,5"'), "column 'b' must be numbers: row 3 has '1,5'"),
        (with_cell("x" * 500), "column 'b' must be numbers: row 3 has 'xxxxxxxx"),
        (with_cell("1,2,3"), "cannot be read as .csv"),
        ("a,b,y\n" + "1,2,3,4\n" * 20, "cannot be read as .csv"),
        ("a,b,a,y\n" + "1,2,3,4\n" * 20, "column name 'a' is there twice"),
        (",b,y\n" + "1,2,3\n" * 20, "column 1 has no name"),
        ("a;speed, km/h;y\n" + "1,5;2,5;3,5\n" * 20, "must be cells between commas, not ';'"),
        ("a;b;y\n" + "1;2;3\n" * 20, "the header is 'a;b;y': must be cells between commas, not ';'"),
        ("a\tb\ty\n" + "1\t2\t3\n" * 20, "must be cells between commas, not '\\t'"),
        ("1,2,3\n" * 20, "no column 'y' for a target: must be one of 1, 2, 3"),
        ("y\n" + "1\n" * 20, "every column is a target (y)"),
        (b"a,b,y\n1,\xff\xfe,3\n", "invalid start byte: save it as UTF-8"),
        (b"gr\xf6\xdfe,b,y\n1,2,3\n", "save it as UTF-8"),
    ],
)
def test_refuses_a_broken_csv_naming_column_row_and_value(tmp_path, content, expected):
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    message = refusal(f"file:{path}:y")
    assert expected in message
    assert str(path) in message
    assert len(message) < 400


def test_a_short_row_counts_as_missing_and_all_missing_values_are_counted(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n" + "1,2,3\n" * 20 + "4,5\n" + "6\n")
    assert "column 'y' is missing in row 21, 3 values" in refusal(f"file:{path}:y")


def test_all_columns_that_are_not_of_numbers_are_named_at_once(tmp_path):
    days = pd.date_range("2013-01-01", periods=30).astype(str)
    path = write(tmp_path / "t.csv", TABLE.assign(day=days, town="Lugo", state=["a", "b"] * 15))
    message = refusal(f"file:{path}:y")
    assert "column 'day' must be numbers: row 1 has '2013-01-01'" in message
    assert "nor are numbers in 'town', 'state'; encode such columns" in message


def test_columns_with_missing_values_are_named_at_once(tmp_path):
    gaps = {"b": TABLE["b"].where(TABLE["a"] > 3), "z": TABLE["z"].where(TABLE["a"] != 1)}
    message = refusal(f"file:{write(tmp_path / 't.csv', TABLE.assign(**gaps))}:y")
    assert "column 'b' is missing in row 1, 5 values of the file ('b', 'z') are missing" in message
    assert "fill them in, or take their rows out" in message


def test_of_a_wide_table_a_message_names_some_columns_and_the_nearest(tmp_path):
    wide = pd.DataFrame(np.arange(30.0)[:, None] + np.arange(500), columns=[f"feature_{n}" for n in range(500)])
    message = refusal(f"file:{write(tmp_path / 't.csv', wide)}:Feature_499")
    assert "and 460 more (did you mean 'feature_499'?)" in message
    assert len(message) < 1000


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(pd.date_range("2013-01-01", periods=30)),
        pd.Series(pd.to_timedelta(np.arange(30), unit="s")),
        pd.Series(["1"] * 30),
        pd.Series(["u", "v", "w"] * 10, dtype="category"),
        pd.Series([Decimal(1)] * 30),
        pd.Series([[1, 2]] * 30),
        pd.Series([b"1"] * 30),
    ],
    ids=["date", "duration", "text", "category", "decimal", "list", "bytes"],
)
def test_refuses_a_parquet_column_that_is_not_of_numbers(tmp_path, column):
    path = write(tmp_path / "t.parquet", TABLE.assign(c=column))
    assert "column 'c' must be numbers: row 1 has" in refusal(f"file:{path}:y")


@pytest.mark.parametrize("kind", ["Int64", "Float64", "boolean"])
def test_nullable_columns_are_read_and_their_gaps_found(tmp_path, kind):
    column = pd.Series([0, 1] * 15, dtype="Int64").astype(kind)
    path = write(tmp_path / "t.parquet", TABLE.assign(c=column))
    assert describe(f"file:{path}:y").n_features == 4
    column[4] = pd.NA
    write(path, TABLE.assign(c=column))
    assert "column 'c' is missing in row 5" in refusal(f"file:{path}:y")


@pytest.mark.parametrize("content", [b"", b"no parquet", b"PAR1" + b"\0" * 50 + b"PAR1"])
def test_refuses_a_broken_parquet(tmp_path, content):
    path = tmp_path / "t.parquet"
    path.write_bytes(content)
    assert "cannot be read as .parquet" in refusal(f"file:{path}:y")


@pytest.mark.parametrize("shape", [(20,), (20, 1), (20, 3)])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_an_npz(tmp_path, shape, save: Callable):
    x = np.arange(40).reshape(20, 2)
    y = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    save(tmp_path / "my: arrays.npz", x=np.asfortranarray(x), y=y, more=np.ones(3))
    info = describe(f"file:{tmp_path / 'my: arrays.npz'}")
    assert (info.n_features, info.n_targets, info.n_samples, info.n_holdout) == (2, y.size // 20, 16, 4)
    assert info.name.startswith("file:my_arrays-")
    assert prepare(info.name, 16, 0, tmp_path).is_file()


X, Y = np.ones((20, 2)), np.arange(20.0)


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"x": X}, "no array 'y': must have x and y, has x"),
        ({"y": Y, "X": X}, "no array 'x': must have x and y, has y, X"),
        ({"x": X, "y": Y[:19]}, "x has 20 rows and y 19"),
        ({"x": X[:, 0], "y": Y}, "array 'x' has shape (20,): must be (rows, columns)"),
        ({"x": X[:, :, None], "y": Y}, "array 'x' has shape (20, 2, 1)"),
        ({"x": X[:, :0], "y": Y}, "array 'x' has shape (20, 0)"),
        ({"x": X, "y": np.float64(1)}, "array 'y' has shape ()"),
        ({"x": X[:5], "y": Y[:5]}, "5 rows: must be at least 10"),
        ({"x": X[:0], "y": Y[:0]}, "0 rows: must be at least 10"),
        ({"x": X.astype(str), "y": Y}, "array 'x' is of type <U32: must be real numbers"),
        ({"x": X, "y": Y * 1j}, "array 'y' is of type complex128"),
        ({"x": X.astype(object), "y": Y}, "cannot be read as .npz: Object arrays"),
        ({"x": X, "y": np.where(Y == 7, np.nan, Y)}, "column 'y1' is missing in row 8"),
        ({"x": np.where(X * Y[:, None] == 3, np.inf, X), "y": Y}, "column 'x1' is inf in row 4, 2 values"),
    ],
)
def test_refuses_broken_arrays(tmp_path, arrays, expected):
    np.savez(tmp_path / "t.npz", **arrays)
    assert expected in refusal(f"file:{tmp_path / 't.npz'}")


def test_refuses_what_is_no_npz(tmp_path):
    np.save(tmp_path / "t.npy", X)
    array = (tmp_path / "t.npy").read_bytes()
    np.savez(tmp_path / "t.npz", x=X, y=Y)
    whole = (tmp_path / "t.npz").read_bytes()
    at = whole.index(b"NUMPY") + 200
    damaged = whole[:at] + b"\xff" * 8 + whole[at + 8 :]
    for content in (b"", b"no archive", array, whole[:100], damaged):
        (tmp_path / "t.npz").write_bytes(content)
        assert "cannot be read as .npz" in refusal(f"file:{tmp_path / 't.npz'}")


def test_constant_columns_are_kept_as_features_and_refused_as_targets(tmp_path):
    path = write(tmp_path / "t.csv", TABLE.assign(c=5))
    with np.load(prepare(f"file:{path}:y", 24, 0, tmp_path)) as file:
        assert (file["x_train"][:, 3] == -1).all()
        assert '"constant_features": ["c"]' in str(file["meta"])
    assert f"{path}: target 'c' is 5 in every training row" in refusal(f"file:{path}:c")


def test_a_target_that_varies_in_the_hold_out_alone_is_refused(tmp_path):
    source = own_file.source(f"file:{write(tmp_path / 't.csv')}:y")
    held_out = set(source.rows(24, 0).x_holdout[:, 0])
    path = write(tmp_path / "u.csv", TABLE.assign(y=[float(a) if a in held_out else -1.0 for a in TABLE["a"]]))
    assert "target 'y' is -1 in every training row" in refusal(f"file:{path}:y")


def test_a_huge_value_is_refused(tmp_path):
    path = write(tmp_path / "t.csv", TABLE.assign(b=TABLE["b"].where(TABLE["a"] != 7, -1e200)))
    message = refusal(f"file:{path}:y")
    assert f"{path}: column 'b' is -1e+200 in row 8, 1 values of the file" in message
    assert message.endswith("must be finite, at most 1e+100")


def test_a_named_index_of_a_parquet_file_is_a_column(tmp_path):
    TABLE.set_index("a").to_parquet(tmp_path / "t.parquet")
    rows = own_file.source(f"file:{tmp_path / 't.parquet'}:y,z").rows(24, 0)
    assert rows.feature_names == ("a", "b")
