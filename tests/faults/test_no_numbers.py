"""Numbers that are none: in the data, and in a grid that is updated in mid-training."""

from __future__ import annotations

import pytest
import torch
from profiles_for_tests import STRONG
from trial import Trial

from kanstudy.model import KAN
from kanstudy.study.profile import ProfileError

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("word", ["nan", "inf", "", "1e999"])
def test_a_table_with_a_value_that_is_none_is_refused_before_anything_starts(tmp_path, word):
    rows = "".join(f"{row},{row * 2},{word if row == 7 else row % 5}\n" for row in range(100))
    (tmp_path / "table.csv").write_text("a,b,y\n" + rows)
    series = STRONG.replace("synthetic:4:1", f"file:{tmp_path}/table.csv:y").replace("n_samples = 64\n", "")
    trial = Trial(tmp_path, series=(series,))
    with pytest.raises(ProfileError, match=r"table\.csv: .*y"):
        trial.run()
    assert not (trial.results / "starts").exists()


@pytest.mark.parametrize("value", [0.0, 0.5, 40.0])
def test_a_grid_that_is_updated_on_constant_data_in_mid_training(value):
    torch.manual_seed(0)
    model = KAN([2, 4, 1])
    x, optimizer = torch.rand(64, 2) * 2 - 1, torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []

    def train() -> None:
        for _ in range(20):
            optimizer.zero_grad()
            loss = (model(x) - x.prod(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())

    train()
    before = model(x).detach()
    with pytest.warns(UserWarning, match="keep their grid: 2 of 2 in layer 0"):
        model.update_grid(torch.full((64, 2), value))
    assert torch.allclose(model(x), before, atol=1e-5)
    train()
    assert losses[-1] < losses[20] < losses[0]
