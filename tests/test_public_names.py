"""The names of `kanstudy` that are for use on their own: few, lazy, documented, and they do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import nn

import kanstudy

ROOT = Path(__file__).resolve().parent.parent


def test_they_are_few_and_listed() -> None:
    assert kanstudy.__all__ == ["KAN", "analyse", "attribution", "load"]
    assert set(kanstudy.__all__) <= set(dir(kanstudy))


@pytest.mark.parametrize("name", kanstudy.__all__)
def test_each_is_documented_where_it_is_defined_and_where_it_is_offered(name: str) -> None:
    assert len(getattr(kanstudy, name).__doc__) > 80
    assert f"- `{name}`," in kanstudy.__doc__
    assert f"kanstudy.{name}(" in (ROOT / "notebooks" / "your_own.md").read_text(encoding="utf-8")


def test_another_name_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'attribute'"):
        kanstudy.attribute  # noqa: B018  # asking is the test
    with pytest.raises(ImportError):
        exec("from kanstudy import nothing_of_the_kind")


def test_a_name_brings_no_more_than_it_needs() -> None:
    code = (
        "import sys, kanstudy; kanstudy.analyse, kanstudy.load; print('torch' in sys.modules, 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_a_kan_is_a_layer_in_a_model_of_ones_own() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), kanstudy.KAN([8, 1]))
    x = torch.rand(128, 3)
    y = (x**2).sum(dim=1, keepdim=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


LAPTOP = ROOT / "results" / "reference" / "laptop"
TABLE = pd.DataFrame({"gpus": [1, 2, 4], "images_per_s": [100.0, 190.0, 320.0], "impl": ["a", "a", "b"]})


@pytest.mark.parametrize("folder", [None, 3, b"/tmp", "a\0b", __file__])
def test_what_is_no_folder_is_refused(folder: Any) -> None:
    with pytest.raises(ValueError, match=r"results_dir = .*: must be a folder that exists"):
        kanstudy.load(folder)


@pytest.mark.parametrize("name", [5, "", "..", "../laptop", "/", ["strong_scaling"]])
def test_what_names_no_experiment_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match=r"experiment = .*: must be the name of one, such as strong_scaling, or None"):
        kanstudy.load(LAPTOP, name)
    assert kanstudy.load(LAPTOP, "other").records == []


@pytest.mark.parametrize("records", [None, "x", [1], {}, LAPTOP, iter([])])
def test_what_is_no_list_of_records_is_refused(records: Any) -> None:
    with pytest.raises(TypeError, match=r"records = .*: must be a list of records"):
        kanstudy.attribution(records)
    assert kanstudy.attribution([]).empty


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ("x.csv", {}, "table: is str: must be a data frame"),
        (TABLE["gpus"], {}, "table: is Series: must be a data frame"),
        (TABLE, {"roles": ["gpus"]}, "roles = ['gpus']: must be a dictionary by column"),
        (TABLE, {"baseline": ["impl"]}, "baseline = ['impl']: must be a dictionary by column"),
        (TABLE, {"by": 3}, "by = 3: must be a list of columns"),
        (TABLE, {"by": [3]}, "by = [3]: must be a list of columns"),
        (TABLE, {"by": "imple"}, "'imple' is no column"),
        (TABLE, {"scaling": 3}, "scaling 3: must be strong or weak"),
    ],
)
def test_what_cannot_be_analysed_is_one_line(table: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        kanstudy.analyse(table, **options)
    assert "\n" not in str(raised.value)


def test_one_key_may_be_given_as_text_and_columns_may_have_numbers() -> None:
    assert kanstudy.analyse(TABLE, by="impl").keys == ("impl",)
    numbered = TABLE[["gpus", "images_per_s"]].set_axis([0, 1], axis=1)
    assert kanstudy.analyse(numbered, roles={0: "world_size", 1: "throughput"}).used == 3


def test_an_attribution_of_a_folders_records() -> None:
    found = kanstudy.load(ROOT / "results" / "reference" / "laptop", "strong_scaling")
    frame = kanstudy.attribution(found.records)
    whole = frame[frame["factor"] == "efficiency"].set_index("point_id")["value"]
    product = frame[~frame["factor"].isin(["efficiency", "none"])].groupby("point_id")["value"].prod()
    assert len(whole) >= 4
    assert product[whole.index].to_numpy() == pytest.approx(whole.to_numpy())


def test_an_analysis_of_a_table_of_ones_own() -> None:
    table = pd.DataFrame({"gpus": [1, 2, 4], "images_per_s": [100.0, 190.0, 320.0]})
    found = kanstudy.analyse(table, roles={"gpus": "world_size", "images_per_s": "throughput"})
    assert list(found.efficiency["parallel_efficiency"]) == pytest.approx([1.0, 0.95, 0.8])
