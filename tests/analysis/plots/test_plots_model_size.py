from __future__ import annotations

import frames
from seen import legend_texts

from kanstudy.analysis.plots.model_size import model_size


def test_sizes_of_different_data_are_different_lines() -> None:
    figure = model_size(frames.models(("synthetic:32:1", "flights")))
    assert legend_texts(figure) == [
        f"KAN, grid {g}, dataset {d}" for g in (5, 15) for d in ("synthetic:32:1", "flights")
    ]
    assert legend_texts(model_size(frames.models())) == ["KAN, grid 5", "KAN, grid 15"]


def test_every_panel_has_its_unit() -> None:
    titles = [axis.get_title() for axis in model_size(frames.models()).axes]
    assert titles == ["step time (ms)", "peak memory a rank (MiB)", "parameters per MiB"]
