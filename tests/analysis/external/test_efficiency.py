"""Scaling tables that others measured: what comes out, what is refused, and that no row vanishes."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kanstudy.analysis.external.efficiency import analyse
from kanstudy.analysis.external.read import ExternalError, read_table

STRONG = pd.DataFrame({"gpus": [1, 2, 4], "time_s": [8.0, 5.0, 4.0]})


def table(text: str) -> pd.DataFrame:
    """A table of text cells, as a file gives them."""
    lines = [[cell.strip() or None for cell in line.split(",")] for line in text.strip().splitlines()]
    return pd.DataFrame(lines[1:], columns=lines[0], dtype=object)


def efficiencies(frame: pd.DataFrame, **given) -> dict:
    """Efficiency by world size, or by key and world size."""
    found = analyse(frame, **given)
    assert found.used + len(found.unused) == found.planned == len(frame)
    keys = [*found.keys, "world_size"]
    values = found.efficiency.set_index(keys if len(keys) > 1 else "world_size")["parallel_efficiency"]
    return {at: round(value, 4) for at, value in values.items()}


def test_strong_and_weak_times_and_throughput():
    assert efficiencies(STRONG, scaling="strong") == {1: 1, 2: 0.8, 4: 0.5}
    assert efficiencies(STRONG, scaling="weak") == {1: 1, 2: 1.6, 4: 2}
    weak = analyse(STRONG, scaling="weak").efficiency
    np.testing.assert_allclose(weak["speedup"], weak["parallel_efficiency"] * weak["world_size"])
    rates = pd.DataFrame({"gpus": [1, 2, 4], "img_per_s": [10.0, 16, 20]})
    assert efficiencies(rates) == efficiencies(STRONG, scaling="strong")
    each = rates.assign(img_per_s=rates["img_per_s"] / rates["gpus"]).rename(columns={"img_per_s": "img/s/GPU"})
    assert efficiencies(each) == efficiencies(rates)


def test_times_need_to_say_how_the_work_grew_and_samples_say_it():
    with pytest.raises(ExternalError, match=r"^t\.csv: column 'time_s' is a time.*--scaling strong .* or weak"):
        analyse(STRONG, where="t.csv")
    frame = table("gpus,epoch_s,images\n1,4,400\n2,5,800")
    assert efficiencies(frame, roles={"images": "samples"}) == {1: 1, 2: 0.8}
    assert efficiencies(frame.drop(columns="images"), scaling="weak") == {1: 1, 2: 0.8}


def test_a_column_may_say_how_each_series_scales():
    frame = table("scaling,gpus,time_s\nstrong,1,8\nstrong,2,5\nWeak,1,8\nWeak,2,10")
    assert efficiencies(frame) == {("strong", 1): 1, ("strong", 2): 0.8, ("Weak", 1): 1, ("Weak", 2): 0.8}
    assert analyse(frame).scaling == "strong and weak"
    with pytest.raises(ExternalError, match="scaling weak: column 'scaling' says strong and weak itself"):
        analyse(frame, scaling="weak")


def test_every_text_or_date_is_a_key_and_nothing_is_averaged_over_machines():
    frame = table(
        """label,machine,date,gpus,img_per_s
        a,x,2024-01-01,1,100
        a,x,2024-01-01,2,190
        a,y,2024-01-01,1,10
        a,y,2024-01-01,2,15
        a,x,2025-01-01,1,200
        a,x,2025-01-01,2,300
        a fp16,x,2024-01-01,2,400"""
    )
    found = efficiencies(frame)
    assert len(found) == 7
    assert found["a", "x", "2024-01-01", 2] == 0.95
    assert found["a", "y", "2024-01-01", 2] == 0.75
    assert found["a", "x", "2025-01-01", 2] == 0.75
    assert math.isnan(found["a fp16", "x", "2024-01-01", 2])
    dates = frame.assign(date=pd.to_datetime(frame["date"]))
    assert efficiencies(dates).keys() == found.keys()


def test_numbers_that_name_a_version_or_a_date_are_keys():
    frame = table("torch_version,gpus,img_per_s\n1.10,1,100\n1.1,2,150\n1.1,1,90")
    found = efficiencies(frame)
    assert math.isclose(found["1.1", 2], 0.8333, abs_tol=1e-4)
    assert found["1.10", 1] == 1


def test_a_missing_key_is_a_key_of_its_own():
    for missing in (None, np.nan, pd.NaT, ""):
        frame = pd.DataFrame(
            {"impl": ["a", missing, "a", missing], "gpus": [1, 1, 2, 2], "img_per_s": [10.0, 100, 15, 190]}
        )
        found = analyse(frame).efficiency
        at = found[found["impl"].isna() & (found["world_size"] == 2)]
        assert at["parallel_efficiency"].tolist() == pytest.approx([0.95])
        assert len(found) == 4


def test_a_word_instead_of_a_number_is_one_unused_row():
    frame = table("cluster,gpus,img_per_s\na,1,100\na,2,ERROR\na,4,300\nb,8,\nb,x,3\nb,2,-3\nb,2.5,3\nb,2,inf")
    found = analyse(frame)
    assert found.unused["row"].tolist() == [2, 4, 5, 6, 7, 8]
    for reason, part in zip(
        found.unused["reason"],
        ("img_per_s is 'ERROR'", "is missing", "gpus is 'x'", "'-3'", "gpus is '2.5'", "'inf'"),
        strict=True,
    ):
        assert part in reason
    assert found.unused["img_per_s"].tolist()[:2] == ["ERROR", None]
    assert found.efficiency["parallel_efficiency"].tolist() == [1, 0.75]


def test_a_word_in_another_column_of_numbers_makes_it_no_key():
    assert efficiencies(table("gpus,img_per_s,loss\n1,100,0.3\n2,190,ERROR")) == {1: 1, 2: 0.95}


def test_without_a_baseline_efficiency_is_blank_unless_relative_is_asked_for():
    frame = table("gpus,runtime_s\n4,700\n2,160\n8,720")
    blank = analyse(frame, scaling="strong")
    assert blank.efficiency["parallel_efficiency"].isna().all()
    assert blank.efficiency["speedup"].isna().all()
    assert blank.blank == blank.used == 3
    assert blank.efficiency["reason"].str.contains("no baseline: no row at world size 1").all()
    assert efficiencies(frame, scaling="strong", relative=True) == {2: 1, 4: 0.1143, 8: 0.0556}
    told = analyse(frame, scaling="strong", relative=True).efficiency
    assert told["reason"].str.contains("relative to 2 ranks").all()
    for result in (blank.efficiency, told):
        assert result["reason"].str.contains("time rises with the world size").tolist() == [False, True, True]
    assert told["baseline_world_size"].tolist() == [2, 2, 2]
    assert efficiencies(STRONG, scaling="strong", relative=True) == efficiencies(STRONG, scaling="strong")


def test_a_baseline_row_that_cannot_be_used_is_no_baseline_and_says_which():
    frame = table("gpus,img_per_s\n1,ERROR\n2,100\n4,150")
    assert analyse(frame).efficiency["reason"].str.contains(r"world size 1 is there but cannot be used \(row 1\)").all()
    assert efficiencies(frame, relative=True) == {2: 1, 4: 0.75}


def test_the_baseline_may_stand_under_another_key():
    frame = table("impl,gpus,tok_per_s\nplain,1,5000\nddp,1,4500\nddp,2,8000\nother,2,4000")
    found = analyse(frame, baseline={"impl": "plain"}).efficiency.set_index(["impl", "world_size"])
    assert found["parallel_efficiency"].round(3).to_dict() == {
        ("plain", 1): 1,
        ("ddp", 1): 0.9,
        ("ddp", 2): 0.8,
        ("other", 2): 0.4,
    }
    assert "baseline of impl=plain" in found.loc[("ddp", 2), "reason"]
    with pytest.raises(ExternalError, match="--baseline impl=no: no such value: must be one of 'plain', 'ddp'"):
        analyse(frame, baseline={"impl": "no"})
    with pytest.raises(ExternalError, match="--baseline column 'gpus' is no key: must be one of impl"):
        analyse(frame, baseline={"gpus": "1"})


def test_odd_points_are_flagged_and_kept():
    frame = table("gpus,img_per_s\n1,100\n2,210\n4,300\n8,700\n16,650")
    found = analyse(frame).efficiency.set_index("world_size")
    assert found["parallel_efficiency"].notna().all()
    assert "above 1 (superlinear)" in found.loc[2, "reason"]
    assert found.loc[4, "reason"] == ""
    assert "not monotone: 0.8750 here, 0.7500 at 4 ranks (no interval" in found.loc[8, "reason"]
    assert "throughput falls" in found.loc[16, "reason"]
    assert not found["reason"].str.contains("improve").any()


def test_the_same_key_twice_is_used_by_neither_and_says_what_would_tell_them_apart():
    frame = table("impl,gpus,batch,img_per_s\na,1,32,100\na,1,64,110\na,2,32,150\na,2,64,160\na,4,64,300")
    found = analyse(frame)
    assert len(found.unused) == 4
    assert found.unused["reason"].str.contains(r"they differ in batch: .*--by impl,batch").all()
    assert "row 2" in found.unused["reason"][0]
    assert found.efficiency["reason"].tolist() == [
        "no baseline: world size 1 is there but cannot be used (rows 1, 2)",
    ]
    assert efficiencies(frame, by=["impl", "batch"])["a", "32", 2] == 0.75


def test_rows_that_nothing_tells_apart_are_repeats_only_if_that_is_said():
    frame = table("gpus,time_s\n1,8\n1,10\n1,12\n2,5\n2,9\n2,4")
    found = analyse(frame, scaling="strong")
    assert len(found.unused) == 6
    assert found.unused["reason"].str.contains("--repeats").all()
    repeated = analyse(frame, scaling="strong", repeats=True).efficiency
    assert repeated["n"].tolist() == [3, 3]
    assert repeated["speedup"].tolist() == [1, 2]  # of medians, 10/5; the mean of ratios would be 1.92
    assert repeated["speedup_low"].isna().all()
    copied = analyse(table("gpus,time_s\n1,8\n1,8\n2,4"), scaling="strong")
    assert copied.unused["reason"].tolist() == ["the same as row 1 in every column"]
    assert copied.efficiency["parallel_efficiency"].tolist() == [1, 1]


def test_a_column_that_numbers_repeats_makes_them_repeats_with_intervals():
    rng = np.random.default_rng(5)
    for n, wide in ((20, 0.1), (8, 0.2)):
        lines = [(p, run, 8 / p**0.9 * rng.lognormal(0, 0.02)) for p in (1, 2, 4) for run in range(n)]
        frame = pd.DataFrame(lines, columns=["gpus", "run", "time_s"])
        found = analyse(frame, scaling="strong")
        line = found.efficiency.set_index("world_size").loc[4]
        assert line["n"] == n
        assert line["speedup_low"] < line["speedup"] < line["speedup_high"] < line["speedup_low"] * (1 + wide)
        assert line["parallel_efficiency_low"] == pytest.approx(line["speedup_low"] / 4)
        assert len(found.repeats) == 3 * n
        assert any("run is taken to number repeats" in note for note in found.notes)
    twice = pd.concat([frame, frame.assign(time_s=1.0)])
    assert analyse(twice, scaling="strong").unused["reason"].str.contains("same key and world size and run").all()


def test_a_failed_repeat_is_told_at_its_point():
    frame = table("gpus,run,time_s\n1,1,8\n1,2,10\n2,1,OOM\n2,2,5")
    found = analyse(frame, scaling="strong")
    assert found.efficiency["reason"].tolist()[1] == "1 of 2 rows here unused (row 3)"


def test_machines_are_not_offered_as_repeats():
    frame = table("impl,cluster,gpus,img_per_s\na,x,1,100\na,y,1,150")
    reasons = analyse(frame, by=["impl"]).unused["reason"]
    assert reasons.str.contains("differ in cluster: .*--by impl,cluster").all()
    assert not reasons.str.contains("--repeats").any()
    pooled = analyse(frame, by=["impl"], repeats=True).efficiency
    assert pooled["reason"].tolist() == ["its rows differ in cluster"]


def test_text_left_out_of_the_keys_is_told_where_it_crosses():
    frame = table("impl,cluster,gpus,img_per_s\na,x,1,100\na,y,2,150")
    found = analyse(frame, by=["impl"]).efficiency
    assert found["reason"].tolist() == ["", "baseline differs in cluster"]
    assert efficiencies(frame, by=[]) == {1: 1, 2: 0.75}


def test_times_with_their_own_units():
    frame = table("gpus,epoch time\n1,2 s\n2,1250 ms\n4,700ms\n8,600")
    found = analyse(frame, scaling="strong")
    assert found.efficiency["parallel_efficiency"].round(3).tolist() == [1, 0.8, 0.714]
    assert "has no unit" in found.unused["reason"][0]
    assert analyse(table("gpus,median (ms)\n1,5"), scaling="weak").efficiency["time_s"].tolist() == [0.005]


@pytest.mark.parametrize(
    ("columns", "world_size", "measure"),
    [
        (["GPUs", "img/s"], "GPUs", "img/s"),
        (["numGPUs", "Throughput (samples/s)"], "numGPUs", "Throughput (samples/s)"),
        (["world_size", "tokens_per_sec", "time_s"], "world_size", "tokens_per_sec"),
        (["# ranks", "median_ms", "std_ms"], "# ranks", "median_ms"),
        (["n_gpus", "images_per_second", "throughput_std", "num_workers"], "n_gpus", "images_per_second"),
        (["nproc", "s_per_ep", "steps_per_s"], "nproc", "s_per_ep"),
    ],
)
def test_columns_are_known_by_name(columns, world_size, measure):
    found = analyse(pd.DataFrame([[1.0] * len(columns)], columns=columns), scaling="strong")
    assert (found.columns.world_size, found.columns.measure) == (world_size, measure)
    assert any(measure in note for note in found.notes)


@pytest.mark.parametrize(
    ("frame", "given", "message"),
    [
        (table("gpus,ranks,time_s\n1,1,2"), {}, "gpus, ranks could each be the world size: name it with --map"),
        (table("gpus,img_per_s,tok_per_s\n1,1,2"), {}, "img_per_s, tok_per_s could each be the throughput"),
        (table("nodes,time_s\n1,2"), {}, "no column can be told to be the world size"),
        (table("gpus,size\n1,2"), {}, "no column of plain numbers .* COLUMN=throughput, throughput_per_rank or time"),
        (table("gpus,time_s\n1,9±1"), {}, "no column of plain numbers .*, COLUMN one of time_s"),
        (STRONG, {"roles": {"gpu": "world_size"}}, "no column 'gpu' .*must be one of gpus, time_s"),
        (STRONG, {"roles": {"gpus": "ranks"}}, "cannot be 'ranks': must be one of world_size, throughput"),
        (STRONG, {"roles": {"gpus": "time", "time_s": "time"}}, "both said to be time"),
        (STRONG, {"roles": {"gpus": "time", "time_s": "throughput"}}, "throughput and time are given"),
        (STRONG, {"by": ["x"]}, "--by 'x' is no column"),
        (STRONG, {"by": ["gpus"], "roles": {"gpus": "world_size"}}, "--by 'gpus' cannot be a key"),
        (STRONG, {"scaling": "both"}, "scaling 'both': must be strong or weak"),
        (pd.DataFrame([[1, 2]], columns=["gpus", "gpus"]), {}, "column name 'gpus' is there twice"),
    ],
)
def test_what_cannot_be_is_one_clear_line(frame, given, message):
    with pytest.raises(ExternalError, match=message) as error:
        analyse(frame, where="t", **({"scaling": "strong"} | given))
    assert str(error.value).startswith("t: ")
    assert "\n" not in str(error.value)


def test_typed_columns_of_parquet_are_understood():
    frame = pd.DataFrame(
        {
            "amp": [True, True, False],
            "impl": pd.Categorical(["a", "a", "a"]),
            "at": pd.to_datetime(["2024-01-01 10:00"] * 3, utc=True),
            "hosts": [["n1"], ["n1"], ["n1", "n2"]],
            "gpus": pd.array([1, 2, None], dtype="Int64"),
            "time": pd.to_timedelta([8, 5, 1], unit="s"),
        }
    )
    found = analyse(frame, scaling="strong")
    assert found.keys == ("amp", "impl", "at", "hosts")
    assert found.efficiency["parallel_efficiency"].tolist() == [1, 0.8]
    assert found.unused["reason"].tolist() == ["gpus is missing: must be a whole number of ranks from 1 to 100000000"]


def test_columns_with_our_names_keep_theirs():
    frame = table("reason,gpus,img_per_s\nwhy,1,2\nwhy,2,x")
    found = analyse(frame)
    assert found.efficiency["reason (table)"].tolist() == ["why"]
    assert found.unused["reason (table)"].tolist() == ["why"]
    assert "'x'" in found.unused["reason"][0]


def test_every_kind_of_file_gives_the_same(tmp_path):
    frame = pd.DataFrame({"impl": ["a, b", None], "gpus": [1, 2], "img_per_s": [100.0, 150.0]})
    files = {
        "t.csv": frame.to_csv(index=False).encode(),
        "bom.csv": b"\xef\xbb\xbf" + frame.to_csv(index=False).encode(),
        "wide.csv": frame.to_csv(index=False).encode("utf-16"),
        "comment.csv": b"# measured, by someone\n\n" + frame.to_csv(index=False).encode(),
        "hash.csv": b"# " + frame.to_csv(index=False).encode(),
        "index.csv": frame.to_csv().encode(),
        "semicolon.csv": frame.to_csv(index=False, sep=";").encode(),
        "t.tsv": frame.to_csv(index=False, sep="\t").encode(),
        "t.csv.gz": gzip.compress(frame.to_csv(index=False).encode()),
        "t.json": frame.to_json(orient="records").encode(),
        "columns.json": frame.to_json(orient="columns").encode(),
        "split.json": frame.to_json(orient="split").encode(),
        "table.json": frame.to_json(orient="table").encode(),
        "lists.json": json.dumps(frame.astype(object).where(frame.notna(), None).to_dict("list")).encode(),
        "t.jsonl": frame.to_json(orient="records", lines=True).encode(),
    }
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    files["t.parquet"] = buffer.getvalue()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        found = analyse(read_table(tmp_path / name), by=["impl"], relative=True).efficiency
        assert found["parallel_efficiency"].tolist() == [1, 1], name
        assert found["impl"].tolist()[0] == "a, b", name
        assert found["impl"].isna().tolist() == [False, True], name


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"gpus,time_s\n", "holds no rows"),
        ("a.csv", b"gpus,time_s\n1,2\n1,2,3\n", "line 3 has 3 cells, the header in line 1 has 2"),
        ("a.csv", b"gpus,gpus\n1,2\n", "'gpus' is there twice"),
        (
            "a.csv",
            b"gpus time_s\n1 2\n",
            "the header, line 1, is one cell, 'gpus time_s': must be cells between commas",
        ),
        ("a.csv", b"ResNet on A100\n\ngpus,time_s\n1,2\n", "the header, line 1, is one cell, 'ResNet on A100'"),
        ("a.csv", b'gpus,b\n1,"2\n', "line"),
        ("a.csv", b"gpus,\xb5s\n1,2\n", "not UTF-8 text: byte 6 is 0xb5: save it as UTF-8"),
        ("a.csv", b"gpus,\0\n", "not text"),
        ("a.json", b"[1, 2]", "row 1 of its JSON is '1': must be an object"),
        ("a.json", b"{", "cannot be read as JSON"),
        ("a.json", b"3", "must be a list of objects"),
        ("a.json", b'{"a": [1], "b": [1, 2]}', "different lengths"),
        ("a.json", b'[{"a": {"b": 1}}]', "column 'a', row 1 is"),
        ("a.json", b'[{"gpus": 1, "gpus": 2}]', "has 'gpus' twice"),
        ("a.parquet", b"PAR1", "cannot be read as .parquet"),
        ("a.csv.gz", b"gpus", "cannot be read"),
        ("a.xlsx", b"", "must end with .csv, .tsv"),
    ],
)
def test_files_that_are_none_are_one_clear_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ExternalError, match=message) as error:
        read_table(tmp_path / name)
    assert str(error.value).startswith(str(tmp_path / name))
    with pytest.raises(ExternalError, match="cannot be read: No such file"):
        read_table(tmp_path / "none.csv")


def of_file(tmp_path, text: str, **given) -> dict:
    """Efficiency by key and world size of a table as a file."""
    (tmp_path / "t.csv").write_text(text)
    return efficiencies(read_table(tmp_path / "t.csv"), **given)


def test_commas_group_thousands_but_are_decimal_between_semicolons(tmp_path):
    assert of_file(tmp_path, 'gpus,img/s\n1,197.4\n8,"1,502.6"\n64,"11,718"\n') == {1: 1, 8: 0.9515, 64: 0.9275}
    german = "GPUs;Zeit (s);img_per_s\n1;9;1.000,5\n2;9;1.900\n4;9;3600\n"
    assert of_file(tmp_path, german) == {1: 1, 2: 0.9495, 4: 0.8996}
    assert of_file(tmp_path, "gpus;img_per_s\n1;1.250\n2;2.25\n") == {1: 1, 2: 0.9}  # no decimal comma anywhere


def test_shares_speed_ups_and_times_in_text_are_no_settings(tmp_path):
    text = "model,gpus,img_per_s,eff,speedup,step\na,1,100,100%,1.0x,9 ms\na,2,198,99 %,1.98x,9.1 ms\n"
    assert of_file(tmp_path, text) == {("a", 1): 1, ("a", 2): 0.99}
    assert of_file(tmp_path, text, by=["eff"]) == {("100%", 1): 1, ("99 %", 2): pytest.approx(math.nan, nan_ok=True)}


def test_a_header_between_the_rows_is_unused_and_makes_no_keys(tmp_path):
    text = "gpus,batch,img_per_s\n1,64,100\ngpus,batch,img_per_s\n2,128,190\n"
    assert of_file(tmp_path, text) == {1: 1, 2: 0.95}


def test_comments_between_rows_go_and_rows_that_begin_with_one_stay(tmp_path):
    (tmp_path / "t.csv").write_text("gpus,img_per_s\n1,100\n# second machine\n#2,180\n2,190\n")
    found = analyse(read_table(tmp_path / "t.csv"))
    assert found.unused["reason"].tolist() == ["gpus is '#2': must be a whole number of ranks from 1 to 100000000"]
    assert found.efficiency["world_size"].tolist() == [1, 2]


def test_what_slurm_lists(tmp_path):
    text = "JobID|JobName|NTasks|Elapsed\n7|cfd|1|1-02:00:00\n8|cfd|2|13:30:00\n9|cfd|4|07:00:36.000\n"
    found = of_file(tmp_path, text, scaling="strong")
    assert found == {("cfd", 1): 1, ("cfd", 2): round(26 / 27, 4), ("cfd", 4): round(26 / 28.04, 4)}


def test_minutes_in_brackets_are_a_unit():
    assert efficiencies(table("gpus,Time to train (min)\n1,10\n2,6"), scaling="strong") == {1: 1, 2: 0.8333}
    with pytest.raises(ExternalError, match="no column of plain numbers"):  # the least of several
        analyse(table("gpus,time_min\n1,10\n2,6"), scaling="strong")


def test_keys_that_part_the_world_sizes_are_named_and_blank_ones_too():
    frame = table("model,gpus,img_per_s,memory\na,1,100,29.1 GB\na,2,190,28.9 GB\n")
    for relative in (False, True):
        (note,) = [note for note in analyse(frame, relative=relative).notes if "no series has two" in note]
        assert "memory has other values at every world size" in note
        assert "model" not in note
    assert not [note for note in analyse(frame, by=["model"]).notes if "no series has two" in note]
    merged = table("model,gpus,img_per_s\na,1,100\n,2,190\nb,1,50\n,4,180")
    assert any("model is blank in rows 2, 4: blank is a value of its own" in note for note in analyse(merged).notes)


def test_counts_that_differ_among_repeats_are_told_at_their_point():
    found = analyse(table("gpus,batch,run,loss,img_per_s\n1,64,1,.1,100\n1,128,2,.2,160\n2,64,1,.3,190"))
    assert found.efficiency["reason"].tolist() == ["its rows differ in batch", ""]


def test_the_scaling_is_told_though_no_row_can_be_used():
    assert analyse(table("gpus,time_s\n1,2\n0,3").iloc[1:], roles={"time_s": "time"}, scaling="weak").scaling == "weak"


CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.floats(),
    st.sampled_from(["1", "2", "4", "ERROR", "", "a", "b", "2024-01-01", "3 ms", "1e400", "-0", "nan"]),
    st.text(max_size=4),
)
NAMES = ["gpus", "time_s", "img_per_s", "impl", "run", "batch", "reason", "samples"]


@given(
    rows=st.lists(st.lists(CELLS, min_size=8, max_size=8), min_size=1, max_size=12),
    scaling=st.sampled_from(["strong", "weak"]),
    relative=st.booleans(),
    repeats=st.booleans(),
    by=st.sampled_from([None, [], ["impl"], ["impl", "batch"]]),
    roles=st.sampled_from(
        [
            {"gpus": "world_size", "time_s": "time"},
            {"gpus": "world_size", "time_s": "time", "samples": "samples", "run": "repeat"},
            {"gpus": "world_size", "img_per_s": "throughput_per_rank"},
            {},
        ]
    ),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_row_vanishes_whatever_the_table(rows, scaling, relative, repeats, by, roles):
    frame = pd.DataFrame(rows, columns=NAMES, dtype=object)
    try:
        found = analyse(frame, roles=roles, scaling=scaling, relative=relative, repeats=repeats, by=by)
    except ExternalError:
        assert not roles  # then only a guess can fail
        return
    used = [int(row) for line in found.efficiency["rows"] for row in line.split()]
    assert sorted([*used, *found.unused["row"]]) == list(range(1, len(rows) + 1))
    assert found.used == len(used)
    assert (found.unused["reason"] != "").all()
    blank = found.efficiency["parallel_efficiency"].isna()
    assert (blank == found.efficiency["reason"].str.contains("no baseline")).all()
    at_base = found.efficiency["world_size"] == found.efficiency["baseline_world_size"]
    assert (found.efficiency.loc[at_base & ~blank, "speedup"] == 1).all()


@given(
    times=st.dictionaries(st.integers(1, 64), st.floats(1e-3, 1e3), min_size=1, max_size=6),
    order=st.randoms(use_true_random=False),
)
@settings(max_examples=30, deadline=None)
def test_the_order_of_rows_does_not_matter(times, order):
    lines = [(impl, p, time) for (p, time), impl in itertools.product(times.items(), "ab")]
    shuffled = order.sample(lines, len(lines))
    names = ["impl", "gpus", "time_s"]
    first, second = (
        analyse(pd.DataFrame(found, columns=names), scaling="strong", relative=True).efficiency.drop(columns="rows")
        for found in (lines, shuffled)
    )
    keys = ["impl", "world_size"]
    pd.testing.assert_frame_equal(
        first.sort_values(keys, ignore_index=True), second.sort_values(keys, ignore_index=True)
    )


@given(content=st.binary(max_size=80), name=st.sampled_from(["a.csv", "a.json", "a.jsonl", "a.tsv", "a.csv.gz"]))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_a_table_or_one_clear_line(content, name, tmp_path):
    (tmp_path / name).write_bytes(content)
    with contextlib.suppress(ExternalError):
        analyse(read_table(tmp_path / name), scaling="strong", where=name)
