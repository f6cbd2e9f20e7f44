"""Running a notebook as a batch: parameters checked strictly, and success only when every cell ran to its end.

Papermill alone warns about a parameter that the notebook does not have, changes types, and takes a `sys.exit(0)` in
the middle for success. Here each of these is a `NotebookError`. A finished notebook is known by its name: the output
takes it only when every code cell has completed; a failed one is kept beside it as `NAME.failed.ipynb`.
"""

from __future__ import annotations

import ast
import contextlib
import logging
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import nbformat

KERNEL = "python3"
TYPES = ("bool", "int", "float", "str", "list[int]", "list[str]")
"""What a parameter may be annotated with: exactly the values that papermill passes on unchanged."""

_QUIET_END = [
    "--log-level=CRITICAL",
    "--IPKernelApp.exec_lines=__import__('logging').getLogger('asyncio').setLevel('CRITICAL')",
]
"""Else a kernel that is interrupted or ended speaks of itself, and of its tasks that are pending."""
MAX_ERROR_LINES = 40
"""Lines of a cell's error that are repeated; the failed notebook keeps all of it."""


class NotebookError(RuntimeError):
    """A notebook that cannot be run as asked, or did not run to its end; the message says where and why."""


def run_notebook(path: Path, output: Path, parameters: Mapping[str, Any]) -> None:
    """Run a notebook in its own folder, its printed lines passed on as they come, and keep the executed copy.

    `output` is replaced only by a finished notebook. Raises `NotebookError`: before anything runs for a parameter
    that the notebook does not declare, a value of another type, or a kernel of another environment; afterwards
    when a cell failed or the notebook was left early.
    """
    path, output = path.resolve(), output.absolute()
    if output == path:
        raise NotebookError(f"{path}: the executed copy must not replace the notebook itself")
    checked = check_parameters(path, parameters)
    _check_kernel()
    failed = output.with_name(f"{output.stem}.failed.ipynb")
    running = output.with_name(f".{output.stem}.{uuid4().hex}.running.ipynb")  # of two at once each has its own
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        _execute(path, running, checked)
        problem = unfinished(read_notebook(running))
        if problem:
            raise NotebookError(f"{path.name}: {problem}")
        os.replace(running, output)
        failed.unlink(missing_ok=True)
    except NotebookError as error:
        if not running.exists():
            raise
        os.replace(running, failed)
        raise NotebookError(f"{error}\nThe notebook as far as it ran: {failed}") from error
    finally:
        running.unlink(missing_ok=True)


def read_notebook(path: Path) -> Any:
    """The notebook in a file; `NotebookError` where it cannot be read."""
    try:
        return nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.ValidationError) as error:
        raise NotebookError(f"{path}: not a readable notebook: {error}") from error


def declared_parameters(path: Path) -> dict[str, str]:
    """Name and type of each parameter: the lines `name: type = default` of the one cell tagged `parameters`."""
    cells = [cell for cell in read_notebook(path).cells if "parameters" in cell.metadata.get("tags", [])]
    if len(cells) != 1:
        raise NotebookError(f"{path}: {len(cells)} cells are tagged `parameters`, must be exactly one")
    try:
        return _declared(path, cells[0].source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotebookError(f"{path}: the parameters cell is not Python: {error}") from error


def _declared(path: Path, source: str) -> dict[str, str]:
    """Name and type of each parameter that the cell's source declares."""
    declared = {}
    for line in ast.parse(source).body:
        if not (isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.value is not None):
            raise NotebookError(f"{path}: parameters cell: `{ast.unparse(line)}` must be written `name: type = value`")
        name, kind = line.target.id, ast.unparse(line.annotation)
        if kind not in TYPES:
            raise NotebookError(f"{path}: parameter {name}: type {kind} must be one of {', '.join(TYPES)}")
        try:
            _checked(ast.literal_eval(line.value), kind)
        except ValueError:
            raise NotebookError(
                f"{path}: parameter {name}: default {ast.unparse(line.value)} is not a plain {kind}"
            ) from None
        declared[name] = kind
    return declared


def check_parameters(path: Path, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as the notebook takes them; `NotebookError` on an unknown name or a value of another type."""
    declared = declared_parameters(path)
    checked = {}
    for name, value in parameters.items():
        if name not in declared:
            raise NotebookError(f"{path.name}: unknown parameter {name!r}: must be one of {', '.join(declared)}")
        try:
            checked[name] = _checked(value, declared[name])
        except ValueError:
            raise NotebookError(
                f"{path.name}: parameter {name} = {value!r} ({type(value).__name__}): must be a plain {declared[name]}"
            ) from None
    return checked


def _checked(value: Any, kind: str) -> Any:
    """The value, if its type is exactly `kind` (a whole number may stand for a float); else `ValueError`."""
    if kind.startswith("list["):
        if type(value) is not list:
            raise ValueError
        return [_checked(item, kind[5:-1]) for item in value]
    if kind == "float" and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise ValueError from None
    if type(value).__name__ != kind or type(value).__module__ != "builtins":
        raise ValueError
    if kind == "float" and not math.isfinite(value):
        raise ValueError
    return value


def unfinished(notebook: Any) -> str | None:
    """Why an executed notebook is not finished, or None: every code cell has completed, and none raised.

    Cells are numbered from 1 as in the notebook that was run, without those that papermill adds.
    """
    added = {"injected-parameters", "papermill-error-cell-tag"}
    own = [cell for cell in notebook.cells if not added & set(cell.metadata.get("tags", []))]
    code = [(number, cell) for number, cell in enumerate(own, 1) if cell.cell_type == "code"]
    for number, cell in code:
        for item in cell.outputs:
            if item.output_type == "error":
                how = "left early with" if item.ename == "SystemExit" else "raised"
                return f"cell {number} {how} {_shortened(f'{item.ename}: {item.evalue}')}"
    for number, cell in code:
        if cell.source.strip() and cell.metadata.get("papermill", {}).get("status") != "completed":
            return f"cell {number} did not run to its end"
    return None


def _execute(path: Path, output: Path, parameters: dict[str, Any]) -> None:
    import papermill  # imported where it is needed: takes a second
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillException, PapermillExecutionError

    try:
        papermill.execute_notebook(
            _literal(path),
            _literal(output),
            parameters,
            kernel_name=KERNEL,
            language="python",
            progress_bar=False,
            stdout_file=sys.stdout,
            stderr_file=sys.stderr,
            cwd=path.parent,
            extra_arguments=_QUIET_END,
        )
    except PapermillExecutionError:
        pass  # `unfinished` says where and why
    except (KeyboardInterrupt, SystemExit):
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # nobody waits for the interrupted cell any more
        raise
    except DeadKernelError:
        raise NotebookError(f"{path.name}: its kernel died (ended by a signal or for lack of memory)") from None
    except (PapermillException, RuntimeError) as error:
        raise NotebookError(f"{path.name}: {_shortened(str(error))}") from error


def _literal(path: Path) -> str:
    """The path for papermill, which fills in `{name}`."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _shortened(text: str) -> str:
    lines = text.strip().splitlines()
    return "\n".join(lines if len(lines) <= MAX_ERROR_LINES else [lines[0], "...", *lines[2 - MAX_ERROR_LINES :]])


def _check_kernel() -> None:
    """Kernel `python3` must start this environment's Python: a user-wide one may start another, without kanstudy."""
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    cure = f"{sys.executable} -m ipykernel install --sys-prefix --name {KERNEL}"
    with contextlib.suppress(NoSuchKernel):
        command = KernelSpecManager().get_kernel_spec(KERNEL).argv[0]
        if os.sep not in command or Path(command).parent == Path(sys.executable).parent:
            return
        raise NotebookError(f"Jupyter's kernel {KERNEL!r} starts {command}, not this environment's Python; run: {cure}")
    raise NotebookError(f"Jupyter knows no kernel {KERNEL!r}; run: {cure}")
