"""Any profile, notebook parameter or argument of a plan works, or ends in one clear error of this package."""

from __future__ import annotations

import contextlib
import json
import tomllib
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from odd import ODD_VALUES, SETTINGS, spoilt

from kanstudy.study.experiments import EXPERIMENTS, plan
from kanstudy.study.notebooks import NotebookError, check_parameters, declared_parameters
from kanstudy.study.profile import ProfileError, builtin_profiles, load_profile

pytestmark = pytest.mark.faults


def toml(value: Any) -> str:
    """A value as TOML has it; what it has not (null) is text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return {"inf": "inf", "-inf": "-inf", "nan": "nan"}.get(str(value), repr(value))
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items()) + "}"
    return json.dumps(value) if isinstance(value, str) else '"null"'


def document(tables: dict[str, Any]) -> str:
    return "\n".join(f"{json.dumps(key)} = {toml(value)}" for key, value in tables.items())


PROFILES = {name: tomllib.loads(path.read_text(encoding="utf-8")) for name, path in builtin_profiles().items()}


@given(data=st.data(), name=st.sampled_from(sorted(PROFILES)))
@settings(SETTINGS, max_examples=300)
def test_any_profile(tmp_path, data, name):
    path = tmp_path / "mine.toml"
    path.write_text(document(spoilt(PROFILES[name], data)), encoding="utf-8", errors="surrogatepass")
    with contextlib.suppress(ProfileError):
        profile = load_profile(path)
        for experiment in EXPERIMENTS:
            with contextlib.suppress(ProfileError):
                plan(profile, experiment, launcher="none").table()


def test_a_spoilt_profile_is_refused_and_one_that_is_whole_is_not(tmp_path):
    """The check above sees both."""
    path = tmp_path / "mine.toml"
    path.write_text(document(PROFILES["smoke"]))
    assert plan(load_profile(path), "strong_scaling", launcher="none").points
    path.write_text(document(PROFILES["smoke"] | {"study": {"rounds": "x"}}))
    with pytest.raises(ProfileError):
        load_profile(path)


@given(content=st.binary(max_size=60))
@settings(SETTINGS, max_examples=100)
@example(b"\xff\xfe")
@example(b"x = " + b"[" * 5000)
@example(b"a." * 5000 + b"b = 1")
@example(b"x = " + b"9" * 5000)
def test_any_bytes_as_a_profile(tmp_path, content):
    (tmp_path / "mine.toml").write_bytes(content)
    with contextlib.suppress(ProfileError):
        load_profile(tmp_path / "mine.toml")


PARAMETERS = (
    'profile: str = "smoke"\nrounds: int = 3\nshare: float = 0.5\non: bool = False\nsizes: list[int] = [1]\n'
    "names: list[str] = []\n"
)


@given(name=st.sampled_from(["profile", "rounds", "share", "on", "sizes", "names", "x", ""]), value=ODD_VALUES)
@settings(SETTINGS, max_examples=200)
def test_any_value_of_a_parameter(tmp_path, name, value):
    path = notebook(tmp_path, PARAMETERS)
    with contextlib.suppress(NotebookError):
        checked = check_parameters(path, {name: value})
        assert checked[name] in (value, float(value) if name == "share" else value)


@given(source=st.text(max_size=40) | st.sampled_from(PARAMETERS.splitlines()).map(lambda line: line[:-1] + "'"))
@settings(SETTINGS, max_examples=200)
@example("a: int = 1\x00")
@example("a: int = " + "9" * 5000)
@example("a: int = " + "-" * 5000 + "1")
@example("a: list[int] = " + "[" * 500 + "]" * 500)
@example("a: int = 1\ud800")
def test_any_parameters_cell(tmp_path, source):
    with contextlib.suppress(NotebookError):
        declared_parameters(notebook(tmp_path, source))


def notebook(folder: Path, source: str) -> Path:
    cell = nbformat.v4.new_code_cell("", metadata={"tags": ["parameters"]}, id="a")
    values = nbformat.v4.new_notebook(cells=[cell])
    values["cells"][0]["source"] = source
    path = folder / "a.ipynb"
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


@given(rounds=ODD_VALUES, launches=ODD_VALUES, experiment=st.sampled_from([*EXPERIMENTS, "", "x"]))
@settings(SETTINGS, max_examples=100)
def test_any_argument_of_a_plan(rounds, launches, experiment):
    with contextlib.suppress(ProfileError):
        plan(load_profile("smoke"), experiment, rounds, launches, "none").table()
