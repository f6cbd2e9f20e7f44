"""Any file in a results folder is read, or refused by name; any record that is read can be analysed."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from odd import SETTINGS, places, spoilt

sys.path.append(str(Path(__file__).resolve().parents[1] / "analysis"))
from fabricate import make_record

from kanstudy.analysis import (
    complementarity,
    controls,
    controls_words,
    estimates,
    guidelines,
    published,
    results,
    steadiness,
)
from kanstudy.analysis.attribution import beside, chain, decomposition, verdict
from kanstudy.analysis.attribution.identity import identity_check
from kanstudy.analysis.captions import caption
from kanstudy.analysis.scaling_laws import fits, words
from kanstudy.analysis.tables import layouts
from kanstudy.analysis.tables.view import view
from kanstudy.record_files import read_record, write_record
from kanstudy.run_spec import RunSpec, data_key, run_spec_from_json, to_json
from kanstudy.spec import PointSpec, SpecError
from kanstudy.strict_json import RecordError
from kanstudy.study.progress import Progress

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Records of a strong and of a weak series, with a plan, as a study leaves them."""
    place = tmp_path_factory.mktemp("results")
    names = {}
    for scaling in ("strong", "weak"):
        for size in (1, 2):
            batch = 2048 if scaling == "strong" else 1024 * size
            times = {"allreduce": {1024: [1e-3, 2e-3]}} if scaling == "strong" else {}
            record = make_record(
                scaling=scaling, experiment=f"{scaling}_scaling", world_size=size, global_batch_size=batch,
                rounds=3, noise=0.01, noise_seed=size, **times,
            )  # fmt: skip
            names[write_record(record, place).stem] = {"world_size": size}
    planned = {"experiment": "strong_scaling", "launches": 1, "points": names, "rounds": dict.fromkeys(names, 3)}
    (place / "plans").mkdir()
    (place / "plans" / "strong_scaling.json").write_text(json.dumps(planned | {"target_width": {}}))
    return place


@contextlib.contextmanager
def changed(path: Path, text: str):
    """The file with another content, for as long as the context lasts."""
    whole = path.read_text()
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        yield
    finally:
        path.write_text(whole)


def one_of(folder: Path, pattern: str, data: st.DataObject) -> Path:
    return data.draw(st.sampled_from(sorted(folder.glob(pattern))))


@given(data=st.data())
@settings(SETTINGS, max_examples=200)
def test_any_record_is_read_or_refused_by_name(folder, data):
    path = one_of(folder, "strong_scaling/*.json", data)
    with changed(path, json.dumps(spoilt(json.loads(path.read_text()), data))):
        with contextlib.suppress(RecordError):
            read_record(path)
        results.planned_versus_done(folder)


NUMBERS = [0, 1, 2, 3, 5, 100, 2**40, -1, -7, 0.0, 0.5, -0.5, 1e-300, 1e-12, 1e12, 1e300]
WORDS = ["", "x", "ok", "partial", "failed", "nan", "mlp", "kan", "emulated", "simulated", "strong", "weak", "é|$"]


def of_its_kind(value: Any, draw: st.DataObject) -> Any:
    """Another value that a reader of types alone takes for one like it."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return draw.draw(st.sampled_from([type(value)(number) for number in NUMBERS] + [None]))
    if isinstance(value, str):
        return draw.draw(st.sampled_from(WORDS))
    if isinstance(value, list):
        return draw.draw(st.sampled_from([[], value[:1], value + value[-1:], value[::-1]]))
    return draw.draw(st.sampled_from([None, {}, value]))


@given(data=st.data())
@settings(SETTINGS, max_examples=40)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_any_record_that_is_read_can_be_analysed(folder, data):
    path = one_of(folder, "*_scaling/*.json", data)
    values = json.loads(path.read_text())
    found = list(places(values))
    for _ in range(data.draw(st.integers(1, 3))):
        *parents, last = data.draw(st.sampled_from(found))
        parent = values
        with contextlib.suppress(KeyError, IndexError, TypeError):  # what was there is gone by then
            for key in parents:
                parent = parent[key]
            parent[last] = of_its_kind(parent[last], data)
    with changed(path, json.dumps(values)), contextlib.suppress(results.ResultsError):
        analysed(folder)


def analysed(folder: Path) -> None:
    """What the final notebook makes of a folder, but for its figures."""
    strong, weak = (results.load(folder, f"{name}_scaling").records for name in ("strong", "weak"))
    every = [*strong, *weak]
    tables = estimates.strong(strong), estimates.weak(weak), estimates.overhead(strong), estimates.model_size(strong)
    chains = chain.with_chain(strong)
    factors, verdicts = decomposition.attribution(chains), verdict.verdicts(chains)
    control, operators = controls.controls(strong), complementarity.complementarity(strong)
    laws = fits.table([*fits.strong(tables[0]), *fits.weak(tables[1])])
    words.sentences(laws, tables[0])
    estimates.per_round(every)
    controls_words.sentences(control)
    published.compare(*tables, operators)
    steadiness.sentences(every, steadiness.steadiness(every))
    guidelines.guidelines(*tables[:2], tables[2], tables[3], factors, verdicts, operators, control)
    caption(every)
    for frame, layout in (
        (tables[0], layouts.STRONG), (tables[1], layouts.WEAK), (tables[2], layouts.OVERHEAD),
        (factors, layouts.ATTRIBUTION), (verdicts, layouts.VERDICT), (beside.beside(chains), layouts.BESIDE),
        (estimates.phases(strong), layouts.PHASES), (estimates.allreduce(strong), layouts.ALLREDUCE),
        (identity_check(strong, weak), layouts.IDENTITY), (results.planned_versus_done(folder), layouts.PLANNED),
    ):  # fmt: skip
        view(frame, layout).to_markdown()


def test_the_analysis_of_what_is_whole_has_no_error(folder):
    """What the tests above spoil is whole."""
    assert results.load(folder).problems.empty
    assert set(results.planned_versus_done(folder)["status"]) == {"ok", "missing"}
    analysed(folder)


@given(data=st.data())
@settings(SETTINGS, max_examples=200)
def test_any_plan_that_is_kept_there(folder, data):
    path = folder / "plans" / "strong_scaling.json"
    with changed(path, json.dumps(spoilt(json.loads(path.read_text()), data))):
        assert len(results.planned_versus_done(folder)) >= 4
        results.load(folder)


POINT = PointSpec(
    experiment="a", scaling="strong", world_size=2, global_batch_size=8, dataset="synthetic:2:1", n_samples=64,
    layer_widths=(2, 3, 1), arms=("ddp",),
)  # fmt: skip
RUN = RunSpec(
    profile="a", experiment="a", points=(POINT,), data_files={data_key(POINT): "x"}, results_dir="r",
    progress_file="p", rounds={POINT.point_id: 3},
)  # fmt: skip


@given(data=st.data())
@settings(SETTINGS, max_examples=300)
def test_any_plan_of_a_launch(data):
    with contextlib.suppress(SpecError):
        run_spec_from_json(json.dumps(spoilt(json.loads(to_json(RUN)), data)))


@given(text=st.text(max_size=30))
@settings(SETTINGS, max_examples=100)
@example("[" * 100_000)
@example("9" * 5000)
def test_any_text_as_the_plan_of_a_launch(text):
    with contextlib.suppress(SpecError):
        run_spec_from_json(text)


EVENTS = [
    {"event": "block", "unix_s": 1.0, "point_id": "a", "arm": "ddp", "round": 0, "done": 1, "total": 3},
    {"event": "point", "unix_s": 1.0, "point_id": "a", "status": "ok"},
]


@given(data=st.data(), cut=st.integers(0, 10))
@settings(SETTINGS, max_examples=200)
def test_any_line_of_progress(tmp_path, data, cut):
    path = tmp_path / "progress.jsonl"
    lines = [json.dumps(spoilt(event, data)) for event in EVENTS]
    path.write_text("\n".join([lines[0], lines[1][cut:], ""]))
    Progress(path, 2, str).poll()
