"""Notebooks as batches: strict parameters, and nothing that did not run to its end counts as success."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kanstudy.study import notebooks
from kanstudy.study.notebooks import NotebookError, check_parameters, declared_parameters, run_notebook

PARAMETERS = """# a comment with = in it
profile: str = "smoke"  # name = value
rounds: int = 3
share: float = 0.5
on: bool = False
sizes: list[int] = [1, 2]
names: list[str] = []
"""


def texts(path: Path) -> str:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "".join("".join(out.get("text", "")) for cell in cells for out in cell.get("outputs", []))


def test_parameters_are_read_with_their_types(make_notebook):
    assert declared_parameters(make_notebook("a", PARAMETERS)) == {
        "profile": "str", "rounds": "int", "share": "float", "on": "bool", "sizes": "list[int]", "names": "list[str]",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rounds", "4"),
        ("rounds", 4.0),
        ("rounds", True),
        ("rounds", np.int64(4)),
        ("rounds", None),
        ("profile", 4),
        ("profile", Path("x")),
        ("profile", np.str_("x")),
        ("share", "0.5"),
        ("share", True),
        ("share", float("nan")),
        ("share", np.float64(0.5)),
        ("on", 1),
        ("sizes", (1, 2)),
        ("sizes", [1, "2"]),
        ("sizes", [True]),
        ("sizes", np.array([1, 2])),
        ("names", "ab"),
    ],
)
def test_a_value_of_another_type_is_refused(make_notebook, name, value):
    with pytest.raises(NotebookError, match=rf"a\.ipynb: parameter {name} = .*must be a plain"):
        check_parameters(make_notebook("a", PARAMETERS), {name: value})


def test_values_of_the_declared_types_pass_unchanged(make_notebook):
    given = {"profile": 'x "ü\n', "rounds": 4, "share": 1, "on": True, "sizes": [], "names": ["a"]}
    assert check_parameters(make_notebook("a", PARAMETERS), given) == given


def test_an_unknown_parameter_is_refused_before_anything_runs(make_notebook, tmp_path):
    path = make_notebook("a", "world_size: int = 2", f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(NotebookError, match="unknown parameter 'worldsize': must be one of world_size"):
        run_notebook(path, tmp_path / "out" / "a.ipynb", {"worldsize": 4})
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (None, "0 cells are tagged `parameters`"),
        ("rounds = 3", "must be written `name: type = value`"),
        ("rounds: int", "must be written"),
        ("rounds: int | None = None", "must be one of bool, int"),
        ("rounds: int = 'x'", "is not a plain int"),
        ("rounds: int = 2 + x", "is not a plain int"),
        ("a: int = 1\nprint(a)", "must be written"),
        ("a: int = (", "is not Python"),
    ],
)
def test_a_bad_parameters_cell_is_refused(make_notebook, cell, message):
    with pytest.raises(NotebookError, match=message.replace("|", r"\|")):
        declared_parameters(make_notebook("a", cell, "print(1)"))


def test_a_file_that_is_no_notebook_is_refused(tmp_path):
    (tmp_path / "a.ipynb").write_text("{")
    with pytest.raises(NotebookError, match="not a readable notebook"):
        declared_parameters(tmp_path / "a.ipynb")
    with pytest.raises(NotebookError, match="not a readable notebook"):
        declared_parameters(tmp_path / "absent.ipynb")


def test_a_notebook_runs_from_anywhere_with_its_parameters(make_notebook, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "größe {x} of it"
    path = make_notebook("01_a", PARAMETERS, "import os\nprint(profile, sizes, os.getcwd())", folder=folder)
    monkeypatch.chdir(tmp_path)
    output = Path("results ü") / "notebooks" / "01_a.ipynb"
    (tmp_path / output).parent.mkdir(parents=True)
    (tmp_path / output).with_name("01_a.failed.ipynb").write_text("of an earlier run")
    run_notebook(path, output, {"profile": "ünï", "sizes": [4]})
    assert texts(tmp_path / output) == f"ünï [4] {folder}\n"
    assert "ünï [4]" in capsys.readouterr().out  # what a cell prints reaches the terminal
    assert [file.name for file in (tmp_path / output).parent.iterdir()] == ["01_a.ipynb"]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("raise ValueError('three is too many')", "cell 3 raised ValueError: three is too many"),
        ("import sys; sys.exit(0)", "cell 3 left early with SystemExit"),
        ("import os; os._exit(0)", "its kernel died"),
        (
            "import subprocess, sys\nsubprocess.run([sys.executable, '-c', '1/0'], check=True)",
            "raised CalledProcessError",
        ),
    ],
)
def test_a_cell_that_does_not_end_well_fails_the_notebook(make_notebook, tmp_path, cell, message):
    path = make_notebook("a", PARAMETERS, "print('before')", cell, "print('after')")
    output = tmp_path / "out" / "a.ipynb"
    output.parent.mkdir()
    output.write_text("the result of an earlier run")
    with pytest.raises(NotebookError, match=message) as caught:
        run_notebook(path, output, {})
    assert "a.failed.ipynb" in str(caught.value)
    assert output.read_text() == "the result of an earlier run"
    assert sorted(file.name for file in output.parent.iterdir()) == ["a.failed.ipynb", "a.ipynb"]
    assert "before" in texts(output.with_name("a.failed.ipynb"))
    assert "after" not in texts(output.with_name("a.failed.ipynb"))


def test_two_at_once_do_not_disturb_each_other(make_notebook, tmp_path, monkeypatch):
    """As two reports of one folder do: each has a running copy of its own, and the last one stays."""
    path, output = make_notebook("a", PARAMETERS), tmp_path / "out" / "a.ipynb"
    execute, begun = notebooks._execute, []

    def while_another_begins_and_ends(path, running, parameters):
        begun.append(running)
        if len(begun) == 1:
            run_notebook(path, output, {"profile": "second"})
            assert "second" in output.read_text()
        execute(path, running, parameters)

    monkeypatch.setattr(notebooks, "_execute", while_another_begins_and_ends)
    run_notebook(path, output, {"profile": "first"})
    assert len(set(begun)) == 2
    assert "first" in output.read_text()
    assert list(output.parent.iterdir()) == [output]


def test_a_long_error_is_shortened_and_keeps_its_end(make_notebook, tmp_path):
    path = make_notebook("a", PARAMETERS, r"raise ValueError('\n'.join(f'line {i}' for i in range(500)))")
    with pytest.raises(NotebookError, match=r"(?s)ValueError: line 0\n\.\.\.\n.*line 499") as caught:
        run_notebook(path, tmp_path / "out.ipynb", {})
    assert str(caught.value).count("\n") < 50


def test_the_notebook_itself_is_never_overwritten(make_notebook):
    path = make_notebook("a", PARAMETERS)
    with pytest.raises(NotebookError, match="must not replace"):
        run_notebook(path, path, {})


def test_a_kernel_of_another_environment_is_refused(make_notebook, tmp_path, monkeypatch):
    spec = tmp_path / "jupyter" / "kernels" / "python3"
    spec.mkdir(parents=True)
    argv = ["/opt/other/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "x", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    with pytest.raises(NotebookError, match=r"starts /opt/other/bin/python.*ipykernel install --sys-prefix"):
        run_notebook(make_notebook("a", PARAMETERS), tmp_path / "out.ipynb", {})


def test_an_unexecuted_notebook_is_not_finished(make_notebook):
    assert (
        notebooks.unfinished(notebooks.read_notebook(make_notebook("a", PARAMETERS))) == "cell 1 did not run to its end"
    )
