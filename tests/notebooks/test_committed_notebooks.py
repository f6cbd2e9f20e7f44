"""The notebooks as committed: thin, of one kernel, with typed parameters, and nothing in them that changes by itself.

`make test` also runs them under nbval, which compares every cell that is not marked.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kanstudy.study.batch import FINAL, INTRODUCTION
from kanstudy.study.notebooks import declared_parameters
from kanstudy.study.series import NOTEBOOKS

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NAMES = [INTRODUCTION, *NOTEBOOKS.values(), FINAL]
TIMES_OF_RECORDS = {FINAL: "", NOTEBOOKS["calibration"]: "scoring.sentences("}
"""Notebooks that show times of committed records, and what the cells that do so contain."""
NOT_COMPARED = {"nbval-ignore-output", "nbval-skip"}
COMMON = {
    "profile": "str",
    "launcher": "str",
    "results_dir": "str",
    "rounds": "int",
    "launches": "int",
    "max_minutes": "float",
}


@pytest.fixture(params=NAMES)
def path(request) -> Path:
    return FOLDER / f"{request.param}.ipynb"


@pytest.fixture
def notebook(path: Path) -> Any:
    node = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(node)
    return node


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def is_compared(cell: Any) -> bool:
    return not NOT_COMPARED & set(cell.metadata.get("tags", []))


def texts(cell: Any) -> str:
    """Everything readable that a cell put out."""
    kinds = ("text/plain", "text/markdown", "text/html")
    shown = [item.get("data", {}).get(kind, "") for item in cell.outputs for kind in kinds]
    return "\n".join([*(item.get("text", "") for item in cell.outputs), *shown])


def test_these_are_all_the_notebooks():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == NAMES


def test_the_kernel_is_nobodys_own(notebook):
    assert notebook.metadata["kernelspec"]["name"] == "python3"
    assert notebook.metadata["kernelspec"]["display_name"] in ("Python 3", "Python 3 (ipykernel)")


def test_parameters_are_plain(path):
    declared = declared_parameters(path)
    if path.stem in NOTEBOOKS.values():
        assert declared == COMMON
    if path.stem == FINAL:
        assert declared == {"profile": "str", "results_dir": "str", "figures_dir": "str"}


def test_logic_lives_in_the_package(notebook):
    for cell in code(notebook):
        for node in ast.walk(ast.parse(cell.source)):  # which no magic and no shell line is
            assert not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)), cell.source
        assert cell.source.strip()


def test_a_compared_cell_has_been_executed_and_has_no_stray_output(notebook):
    """Without an execution count nbval would compare nothing, and say that all is well."""
    for cell in code(notebook):
        if is_compared(cell):
            assert cell.execution_count is not None, cell.source
        for item in cell.outputs:
            assert item.output_type != "error", cell.source
            assert item.get("name") != "stderr", cell.source


def test_something_is_compared(notebook):
    assert any(is_compared(cell) and cell.outputs for cell in code(notebook))


def test_what_changes_from_run_to_run_is_not_committed(path, notebook):
    for cell in code(notebook):
        if not is_compared(cell) and path.stem in NOTEBOOKS.values():
            assert not cell.outputs, f"a measured cell keeps its output: {cell.source}"
        said = texts(cell)
        assert not re.search(r"(/home/|/root/|/tmp/|/Users/|[A-Z]:\\\\)\S*", said), said
        assert not re.search(r"<\S+ (object|at) (at )?0x[0-9a-f]+", said), said
        if TIMES_OF_RECORDS.get(path.stem, "no such cell") not in cell.source:
            assert not re.search(r"\d (s|ms|µs|seconds|minutes)\b", said), said


def test_cells_have_ids_and_no_traces_of_a_run(notebook):
    assert (notebook.nbformat, notebook.nbformat_minor) >= (4, 5)
    ids = [cell.id for cell in notebook.cells]
    assert len(ids) == len(set(ids))
    assert "papermill" not in notebook.metadata
    for cell in notebook.cells:
        assert not {"papermill", "execution"} & set(cell.metadata)
        assert "injected-parameters" not in cell.metadata.get("tags", [])


def test_a_person_is_led_through_the_experiment(path, notebook):
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert prose.startswith("# ")
    if path.stem in NOTEBOOKS.values():
        headings = ("Question", "Parameters", "Plan", "Run", "Collect", "Result", "Checks", "How to read this")
        places = [prose.find(f"## {heading}\n") for heading in headings]
        assert -1 not in places, headings[places.index(-1)]
        assert places == sorted(places)
