"""The figure of a prediction: what is drawn is what was predicted, and scenarios look unlike the rest."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from kanstudy.analysis.plots import prediction
from kanstudy.analysis.prediction.predict import NEW_LAUNCH, SCENARIO


def predictions() -> pd.DataFrame:
    frame = pd.DataFrame({"world_size": [1, 2, 8, 64], "series": "strong scaling, KAN", "model": "kan"})
    frame["step_time_s"], frame["parallel_efficiency"] = [8e-3, 4.2e-3, 1.5e-3, 9e-4], [1.0, 0.95, 0.67, 0.14]
    for name in ("step_time_s", "parallel_efficiency"):
        frame[f"{name}_low"], frame[f"{name}_high"] = 0.9 * frame[name], 1.1 * frame[name]
    return frame.assign(interval=[NEW_LAUNCH, NEW_LAUNCH, SCENARIO, SCENARIO], level=[0.95, 0.95, np.nan, np.nan])


def test_values_are_drawn_in_ms_and_scenarios_are_dotted() -> None:
    figure = prediction.scaling(predictions())
    time, efficiency = figure.axes
    solid, dotted = time.lines[0], time.lines[1]
    assert (solid.get_linestyle(), dotted.get_linestyle()) == ("-", ":")
    assert solid.get_ydata() == pytest.approx([8.0, 4.2])
    assert dotted.get_ydata() == pytest.approx([4.2, 1.5, 0.9])
    assert np.concatenate([line.get_ydata() for line in efficiency.lines[2:3]]) == pytest.approx([1, 0.95, 0.67, 0.14])
    assert "predicted" in time.get_ylabel()
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["strong scaling, KAN", f"95 % {NEW_LAUNCH}", SCENARIO]


def test_nothing_predicted_says_so() -> None:
    assert "Nothing is predicted" in prediction.scaling(predictions().iloc[:0]).texts[0].get_text()
