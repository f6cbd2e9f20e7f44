"""The operators' figure: a row a candidate, a look a shape, blanks that say why."""

from __future__ import annotations

import numpy as np
import pytest
from bench_records import bench_record

from kanstudy.analysis import operator_speed
from kanstudy.analysis.plots.operator_speed import operator_speed as draw
from kanstudy.analysis.plots.save import save_figure
from kanstudy.bench_record import Memory, Timing


def test_every_value_is_drawn_once_in_its_row_on_log_axes():
    estimates = operator_speed.estimates(bench_record())
    left, right = draw(estimates).axes
    assert (left.get_xscale(), right.get_xscale()) == ("log", "log")
    names = [label.get_text() for label in left.get_yticklabels()]
    assert names == ["floor", "fused", "reference", "pykan", "flashkan"]  # by speed, without one last
    for axis, column, scale in ((left, "floor_ratio", 1), (right, "peak_bytes", 2**20)):
        points = [line for line in axis.lines if line.get_marker() in ("o", "s") and len(line.get_xdata()) == 1]
        drawn = {(names[round(float(line.get_ydata()[0]))], line.get_marker()): line.get_xdata()[0] for line in points}
        assert len(drawn) == len(points) == 8
        expected = {
            (row["candidate"], "o" if row["batch_size"] == 256 else "s"): row[column] / scale
            for _, row in estimates.iterrows()
            if np.isfinite(row[column])
        }
        assert drawn == pytest.approx(expected)
    assert [text.get_text() for text in left.texts] == ["absent"]


def test_nothing_measured_is_a_figure_that_says_so():
    record = bench_record()
    for cell in record.cells:
        cell.timing, cell.memory = Timing(), Memory()
    assert "No operator is measured" in draw(operator_speed.estimates(record)).texts[0].get_text()


def test_the_figure_is_saved_and_the_same_each_time(tmp_path):
    estimates = operator_speed.estimates(bench_record())
    contents = []
    for folder in ("a", "b"):
        paths = save_figure(draw(estimates), tmp_path / folder, operator_speed.NAME, "A caption.")
        contents.append([path.read_bytes() for path in paths])
    assert contents[0] == contents[1]
    assert [path.suffix for path in paths] == [".pdf", ".png", ".txt"]
