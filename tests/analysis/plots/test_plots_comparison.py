"""The figures of two results side by side."""

from __future__ import annotations

from fabricate import make_record

from kanstudy.analysis import plots
from kanstudy.analysis.comparison.changes import TABLES, changes
from kanstudy.analysis.comparison.sides import Side, pairs

A = Side("A", "here", [make_record(world_size=p, noise=0.02, noise_seed=p) for p in (1, 2, 4)])
B = Side(
    "B",
    "there",
    [make_record(world_size=p, noise=0.02, noise_seed=9 + p, source="simulated", t1=0.05) for p in (1, 2, 4)],
)


def test_no_line_joins_two_sides_or_two_sources() -> None:
    figure = plots.comparison.both("strong_scaling", A, B)
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert labels == ["A: KAN synthetic:32:1", "B: KAN synthetic:32:1, simulated", "ideal"]
    lines = [line for line in figure.axes[1].lines if len(line.get_xdata()) == 3 and line.get_marker() == "None"]
    assert len(lines) == 2


def test_both_waterfalls_stand_in_one_figure() -> None:
    figure = plots.comparison.both("attribution_strong", A, B)
    titles = [axis.get_title() for axis in figure.axes]
    assert sum(title.startswith("A:") for title in titles) == 2
    assert sum(title.startswith("B:") and "simulated" in title for title in titles) == 2


def test_a_table_without_rows_or_without_room_for_two_has_no_common_figure() -> None:
    assert plots.comparison.both("weak_scaling", A, B) is None
    assert plots.comparison.both("communication_overhead", A, B) is None


def test_every_change_is_a_mark_with_its_interval_filled_where_it_is_told() -> None:
    frame = changes(A, B, pairs(A, B)[0])
    for name in TABLES:
        rows = frame[frame["table"] == name]
        figure = plots.comparison.changes(rows)
        if not len(rows):
            assert "can be compared" in figure.texts[0].get_text()
            continue
        assert len(figure.axes) == rows["quantity"].nunique()
        marks = [
            line for axis in figure.axes for line in axis.lines if line.get_marker() == "o" and len(line.get_xdata())
        ]
        assert len(marks) == len(rows)
        filled = [mark for mark in marks if mark.get_markerfacecolor() != "white"]
        assert len(filled) == rows["told"].isin(["B is larger", "B is smaller"]).sum()


def test_a_row_is_named_in_whole_parts() -> None:
    frame = changes(A, B, pairs(A, B)[0])
    figure = plots.comparison.changes(frame[frame["table"] == "attribution_strong"])
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels[0] == "KAN synthetic:32:1, 1 rank, DDP"
    assert "KAN synthetic:32:1, 4 ranks, data movement" in labels


def test_long_names_of_many_rows_do_not_touch() -> None:
    frame = changes(A, B, pairs(A, B)[0])
    for name in ("attribution_strong", "strong_scaling"):
        rows = frame[frame["table"] == name]
        rows = rows.assign(series=rows["series"] + ", batch 2048, bucket cap 0.001, sync buffers False")
        labels = plots.comparison.changes(rows).axes[0].get_yticklabels()
        assert any("\n" in label.get_text() for label in labels)
