"""`kanstudy analyse`: what it writes, what it says, and how it exits."""

from __future__ import annotations

import re

import pandas as pd
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kanstudy.cli import main

TABLE = """setup,day,cards,img_per_s
"DDP, fp32",2024-03-01,1,100
"DDP, fp32",2024-03-01,2,190
"DDP, fp32",2024-03-01,4,ERROR
"DDP, fp32",2024-03-02,1,50
"DDP, fp32",2024-03-02,2,90
other,2024-03-02,4,300
"""
LOG = """# nThread 1 nGpus 1
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
node1:10:11 [0] NCCL INFO Channel 00
     1048576        262144     float     sum      -1    100.0   10.49   15.73      0    110.0    9.53   14.30      0
"""


def run(*words: str) -> Result:
    result = CliRunner().invoke(main, ["analyse", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def table(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    return str(tmp_path / "t.csv")


def test_a_table_gives_tables_a_figure_and_counts_that_add_up(table, tmp_path):
    out = tmp_path / "new" / "out"
    result = run(table, "--map", "cards=world_size", "--map", "img_per_s=throughput", "--out", str(out))
    assert result.exit_code == 0, result.output
    names = {"efficiency.csv", "unused.csv", "efficiency.pdf", "efficiency.png", "efficiency.txt"}
    assert {path.name for path in out.iterdir()} == names
    found = pd.read_csv(out / "efficiency.csv")
    assert list(found.columns) == [
        *("setup", "day", "world_size", "throughput", "speedup", "speedup_low", "speedup_high"),
        *("parallel_efficiency", "parallel_efficiency_low", "parallel_efficiency_high"),
        *("baseline_world_size", "n", "rows", "reason"),
    ]
    two = found[found["world_size"] == 2].set_index("day")["parallel_efficiency"]
    assert two.to_dict() == pytest.approx({"2024-03-01": 0.95, "2024-03-02": 0.9})
    assert found.loc[found["setup"] == "other", "parallel_efficiency"].isna().all()
    unused = pd.read_csv(out / "unused.csv")
    assert list(unused.columns) == ["row", "setup", "day", "cards", "img_per_s", "reason"]
    assert unused["row"].tolist() == [3]
    counts = re.search(r"Rows: (\d+) planned = (\d+) used \((\d+) of them .*\) \+ (\d+) unused", result.output)
    assert counts
    assert [int(count) for count in counts.groups()] == [6, 5, 1, 1]
    assert "Unused: row 3: img_per_s is 'ERROR'" in result.output
    assert "Keys: setup, day;" in result.output
    assert "not measured by kanstudy" in (out / "efficiency.txt").read_text()


def test_options_reach_the_analysis(tmp_path):
    rows = ["plain,1,8,1,10", "plain,1,10,2,10", "plain,1,9,3,10", "ddp,2,9,1,20"]
    (tmp_path / "t.csv").write_text("\n".join(["impl,p,seconds,epoch,work", *rows, ""]))
    path = str(tmp_path / "t.csv")
    roles = ("--map", "p=world_size", "--map", "epoch=repeat")
    weak = run(path, *roles, "--scaling", "weak", "--baseline", "impl=plain")
    work = run(path, *roles, "--map", "seconds=time", "--map", "work=samples", "--baseline", "impl=plain")
    for result in (weak, work):
        assert result.exit_code == 0, result.output
        assert "baseline of impl=plain" in result.output
        assert re.search(r"ddp +2 .* 2 +1 +1 +1 ", result.output)  # twice the work in the median time of 9 s
    relative = run(path, *roles, "--scaling", "strong", "--by", "", "--relative")
    assert re.search(r" 2 +9 +1 +0.5 +1 +1 +baseline differs in impl", relative.output)
    assert run(path, "--map", "p=world_size", "--scaling", "strong", "--repeats").exit_code == 0


def test_the_example_of_the_page_can_be_followed(tmp_path, repository):
    page = (repository / "notebooks" / "your_own.md").read_text()
    (line,) = re.findall(r"kanstudy analyse (figures/reference/\S+ .*) --out mine", page)
    name, *options = line.split()
    result = run(str(repository / name), *options, "--out", str(tmp_path / "mine"))
    assert result.exit_code == 0, result.output
    found = pd.read_csv(tmp_path / "mine" / "efficiency.csv")
    assert found["parallel_efficiency"].notna().any()
    assert {path.name for path in (tmp_path / "mine").iterdir()} >= {"unused.csv", "efficiency.pdf", "efficiency.png"}


def test_a_log_gives_its_table_and_figure(tmp_path):
    (tmp_path / "job.out").write_text(LOG)
    result = run(str(tmp_path / "job.out"), "--ranks", "4", "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert "All-reduce of 4 ranks, average busbw 15.02 GB/s" in result.output
    assert "2 planned = 2 used + 0 unused" in result.output
    found = pd.read_csv(tmp_path / "out" / "allreduce.csv")
    assert found["time_s"].tolist() == pytest.approx([1e-4, 1.1e-4])
    assert (found["ranks"] == 4).all()
    assert (tmp_path / "out" / "allreduce.pdf").exists()


def test_a_log_as_csv_is_known_by_its_columns(tmp_path):
    (tmp_path / "t.csv").write_text("size_b,oop_us,oop_algbw,oop_busbw\n1048576,100.0,10.49,15.73\n")
    assert "All-reduce of 4 ranks" in run(str(tmp_path / "t.csv"), "--ranks", "4").output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{t}"], "t.csv: no column can be told to be the world size: name it with --map COLUMN=world_size"),
        (["{t}", "--map", "cards"], "--map cards: must be COLUMN=ROLE"),
        (["{t}", "--map", "cards=gpus"], "column 'cards' cannot be 'gpus': must be one of world_size"),
        (["{t}", "--map", "cards=time", "--map", "cards=samples"], "column 'cards' is given twice"),
        (["{t}", "--map", "cards=world_size", "--by", "x"], "--by 'x' is no column: must be of setup, day"),
        (["{t}", "--map", "cards=world_size", "--baseline", "day=1"], "--baseline day=1: no such value"),
        (["{t}", "--map", "cards=world_size", "--baseline", "day"], "--baseline day: must be COLUMN=VALUE"),
        (["{t}", "--map", "cards=world_size", "--ranks", "4"], "is a table of scaling results, to which --ranks"),
        (["{t}", "--map", "cards=world_size", "--out", "{t}"], "--out {t}: must be a folder"),
        (["{t}", "--map", "cards=world_size", "--out", "{t}/x"], "--out {t}/x: must be a folder"),
        (["{l}"], "log: the number of ranks is not in it (busbw/algbw is 1.500, as of 4 ranks): say it with --ranks N"),
        (["{l}", "--ranks", "4", "--by", ""], "is an nccl-tests log, to which --by does not apply"),
        (["{d}/none.csv"], "cannot be read: No such file"),
        (["{d}"], "cannot be read: Is a directory"),
        (["{t}", "--out", "~nobody-at-all/x"], "--out ~nobody-at-all/x: cannot be used"),
        (["{d}/other.txt"], "other.txt: its name must end with .csv, .tsv"),
        (["{t}", "--map", "day=world_size"], "none of its 6 rows can be used: day is '2024-03-01'"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(words, message, table, tmp_path):
    (tmp_path / "log").write_text(LOG)
    (tmp_path / "other.txt").write_text("gpus,time\n1,2\n")
    places = {"t": table, "l": str(tmp_path / "log"), "d": str(tmp_path)}
    result = run(*[word.format(**places) for word in words])
    assert result.exit_code == 2
    errors = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1
    assert message.format(**places) in errors[0]
    assert "Traceback" not in result.output


def test_unused_rows_are_written_even_if_none_can_be_used(table, tmp_path):
    assert run(table, "--map", "day=world_size", "--out", str(tmp_path / "out")).exit_code == 2
    assert len(pd.read_csv(tmp_path / "out" / "unused.csv")) == 6


def test_help_teaches():
    text = run("--help").output
    for word in (
        "--map gpus=world_size",
        "--scaling strong --relative",
        "--baseline impl=no_ddp",
        "--ranks 16",
        "Exit",
    ):
        assert word in text


@given(content=st.binary(max_size=60), name=st.sampled_from(["a.csv", "a.json", "a.parquet", "a.log", "a.gz"]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_refused_in_one_line(content, name, tmp_path):
    (tmp_path / name).write_bytes(content)
    result = run(str(tmp_path / name))
    assert result.exit_code == 2
    assert result.output.count("Error: ") == 1
