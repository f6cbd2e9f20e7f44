"""Logs of nccl-tests: what is read, what is checked, and what is refused."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanstudy.analysis.external.nccl_log import is_nccl_log, is_nccl_table, parse_log, parse_table
from kanstudy.analysis.external.read import ExternalError

SIZES = [8, 1024, 2**20, 2**26, 2**30]


def figure(value: float) -> str:
    """A time in µs as nccl-tests prints it."""
    return f"{value:.0f}" if value >= 1e4 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"


def halves(n: int, size: int, factor: float = 1.0) -> list[str]:
    """time, algbw, busbw and #wrong of one half of a row, on a machine of 20 µs and 50 GB/s."""
    time = figure(factor * (20 + size / 50e3))
    algbw = size / float(time) / 1e3
    return [time, f"{algbw:.2f}", f"{algbw * 2 * (n - 1) / n:.2f}", "0"]


def log(n: int = 4, listed: bool = True, sizes: list[int] = SIZES, old: bool = False) -> list[str]:
    """Lines as `all_reduce_perf` prints them; `old` releases have no root, and `error` for #wrong."""
    ranks = [
        f"#  Rank {r:2d} Group  0 Pid {100 + r} on node{r // 4} device {r % 4} [0x07] NVIDIA A100" for r in range(n)
    ]
    half = ["time", "algbw", "busbw", "error" if old else "#wrong"]
    names = ["size", "count", "type", "redop", *([] if old else ["root"]), *half, *half]
    lines = ["# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20", "#"]
    lines += ["# Using devices", *(ranks if listed else []), "#"]
    lines += ["#                                out-of-place                       in-place", "#  " + "  ".join(names)]
    lines += ["#   (B)    (elements)           (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)"]
    for size in sizes:
        head = [str(size), str(size // 4), "float", "sum", *([] if old else ["-1"])]
        lines.append("  ".join([*head, *halves(n, size), *halves(n, size, 1.1)]))
    return [*lines, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 0 ", "#"]


def parsed(lines: list[str], ranks: int | None = None):
    return parse_log("\n".join(lines), ranks, "all.log")


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("n", [2, 4, 16])
def test_a_log_becomes_a_tidy_table(n, old):
    lines = log(n, old=old)
    assert is_nccl_log("\n".join(lines))
    found = parsed(lines)
    assert found.ranks == n
    assert found.planned == len(found.rows) == 2 * len(SIZES)
    assert found.unused.empty
    rows = found.rows
    assert rows["message_bytes"].tolist() == [size for size in SIZES for _ in range(2)]
    assert rows["in_place"].tolist() == [False, True] * len(SIZES)
    assert rows["time_s"][0] == pytest.approx(20e-6, rel=1e-3)
    big = rows.iloc[-2]
    assert big["algbw_bytes_per_s"] == pytest.approx(50e9, rel=0.01)
    assert big["busbw_bytes_per_s"] == pytest.approx(big["algbw_bytes_per_s"] * 2 * (n - 1) / n)
    assert found.average_busbw == pytest.approx(rows["busbw_bytes_per_s"].mean(), rel=1e-3)


def test_noise_between_the_lines_is_skipped_and_tags_are_taken_off():
    noise = [
        "node0:100:120 [0] NCCL INFO Channel 00/02 :    0   1   2   3",
        "node0:100:120 [0] NCCL INFO Rank 0 size 8 time algbw busbw",
        "WARNING: 5 of 8 links are down (ms)",
        "",
    ]
    lines = [part for line in log() for part in (line, *noise)]
    pd.testing.assert_frame_equal(parsed(lines).rows, parsed(log()).rows)
    tags = ["[1,0]<stdout>:", "[prterun-n1-12@1,0]<stdout>: ", "[0] ", "0: ", " 0: ", "node-01: "]
    tags += ["2024-05-01T12:00:00.123456Z ", "[2024-05-01 12:00:00] ", "May  1 12:00:00 "]
    tags += ["Wed May  1 12:00:00 2024<stdout>:", "2024-05-01T12:00:00+02:00 [1,0]<stdout>:"]
    for tag in tags:
        pd.testing.assert_frame_equal(parsed([tag + line for line in log()]).rows, parsed(log()).rows)


def test_a_row_that_a_message_broke_is_unused_and_counted():
    lines = log()
    place = next(at for at, line in enumerate(lines) if line.startswith("1024 "))
    lines[place] = lines[place][:40] + " node0:100:120 [0] NCCL INFO x"
    found = parsed(lines)
    assert found.planned == len(found.rows) + len(found.unused)
    assert found.unused["row"].tolist() == [place + 1]
    assert "broken by another message" in found.unused["reason"][0]


def test_wrong_sums_are_unused_and_unchecked_ones_are_told():
    lines = log()
    place = next(at for at, line in enumerate(lines) if line.startswith("1024 "))
    cells = lines[place].split()
    cells[-1] = "7"
    found = parsed([*lines[:place], "  ".join(cells), *lines[place + 1 :]])
    assert found.unused["reason"].tolist() == ["in-place #wrong is 7: so many values of the result were wrong"]
    unchecked = parsed([line[:-1] + "N/A" if line[:1].isdigit() else line for line in lines])
    assert unchecked.unused.empty
    assert any("did not check" in note for note in unchecked.notes)


def test_a_bandwidth_that_its_time_does_not_give_is_unused():
    lines = [line.replace(halves(4, 1024)[0], "2.00", 1) if line.startswith("1024 ") else line for line in log()]
    assert parsed(lines).unused["reason"].str.contains("out-of-place algbw is 0.05 GB/s, but size and time").tolist()


def test_a_heading_may_lack_a_bandwidth():
    lines = [line.replace("  busbw  #wrong", "  bus  #wrong", 1) if "algbw" in line else line for line in log()]
    found = parsed(lines)
    pd.testing.assert_frame_equal(found.rows, parsed(log()).rows)


def test_a_log_that_ends_early_says_so():
    text = "\n".join(log())
    assert not any("ends before" in note for note in parse_log(text).notes)
    whole = text.partition("# Avg")[0]
    for end in ("", "# Avg", "# Avg bus bandwidth", "# Avg bus bandwidth    :"):
        assert any("ends before its average" in note for note in parse_log(whole + end).notes), end


@pytest.mark.parametrize(("redop", "root"), [("none", "0"), ("sum", "0"), ("none", "-1")])
def test_collectives_of_two_ranks_whose_bandwidths_agree_are_told_apart(redop, root):
    lines = [line.replace("  sum  -1  ", f"  {redop}  {root}  ") for line in log(2)]
    with pytest.raises(ExternalError, match=f"is of no all-reduce: redop {redop}, root {root}"):
        parsed(lines)


@pytest.mark.parametrize(
    ("lines", "ranks", "message"),
    [
        (log(listed=False), None, r"the number of ranks is not in it \(busbw/algbw is 1.500, as of 4 ranks\): say it"),
        (log(listed=False), 8, r"8 ranks: busbw/algbw would be 1.750 and is 1.500: must be 4 ranks"),
        (log(), 8, "--ranks 8: the log lists 4 ranks"),
        (log() + log(), None, "2 'Rank 0' lines: must be one run of all ranks together .*without MPI"),
        (log(1), None, "1 rank: an all-reduce needs at least 2 .*without MPI"),
        (log(sizes=[]), None, "no row of an nccl-tests table"),
        (["nothing"], None, "0 headings"),
        ([line.replace("(us)", "(ms)") for line in log()], None, r"times in \(ms\): must be in \(us\)"),
        ([line for line in log() if "Rank  2" not in line], None, r"its 'Rank' lines are of ranks \[0, 1, 3\]"),
    ],
)
def test_what_cannot_be_is_one_clear_line(lines, ranks, message):
    with pytest.raises(ExternalError, match=f"^all.log: {message}") as error:
        parsed(lines, ranks)
    assert "\n" not in str(error.value)


def test_ranks_are_taken_where_the_log_lists_none():
    pd.testing.assert_frame_equal(parsed(log(listed=False), 4).rows, parsed(log()).rows)


def test_another_collective_is_no_all_reduce():
    gather = [line.replace(halves(4, 2**30)[2], "37.50") for line in log(sizes=[2**30])]
    assert gather != log(sizes=[2**30])
    gather = [line.replace(halves(4, 2**30, 1.1)[2], "34.10") for line in gather]
    with pytest.raises(ExternalError, match="or this is no all-reduce"):
        parsed(gather)


@pytest.mark.parametrize(
    "names",
    [
        ["size_b", "count", "oop_us", "oop_algbw", "oop_busbw", "ip_us", "ip_algbw", "ip_busbw"],
        ["Size (B)", "n", "out-of-place time (us)", "oop_algbw", "oop busbw (GB/s)", "ip_us", "ip_algbw", "ip_busbw"],
    ],
)
def test_the_same_as_a_table(names):
    lines = [[str(size), "1", *halves(4, size)[:3], *halves(4, size, 1.1)[:3]] for size in SIZES]
    frame = pd.DataFrame(lines, columns=names)
    assert is_nccl_table(frame)
    pd.testing.assert_frame_equal(parse_table(frame, 4).rows, parsed(log()).rows)
    with pytest.raises(ExternalError, match="say it with --ranks N"):
        parse_table(frame)
    assert not is_nccl_table(pd.DataFrame({"gpus": [1], "time_s": [1]}))
    frame.iloc[1, 2] = "N/A"
    found = parse_table(frame, 4)
    assert found.unused["reason"].tolist() == ["out-of-place time is 'N/A': must be microseconds above 0"]
    assert len(found.rows) == found.planned - 1


@given(cut=st.lists(st.tuples(st.integers(0, 40), st.text(max_size=30)), max_size=4), ranks=st.sampled_from([None, 4]))
@settings(max_examples=80, deadline=None)
def test_any_damage_is_counted_or_one_clear_line(cut, ranks):
    lines = log()
    for place, text in cut:
        at = place % len(lines)
        lines[at] = lines[at][: len(text)] + text
    try:
        found = parsed(lines, ranks)
    except ExternalError:
        return
    assert len(found.rows) + len(found.unused) == found.planned
    assert (found.rows["time_s"] > 0).all()
