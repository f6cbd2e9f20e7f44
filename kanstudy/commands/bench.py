"""`kanstudy bench`: what single parts of the study cost, measured side by side."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kanstudy.bench_record import DEFAULT_SHAPES, OPERATORS, PEERS
from kanstudy.commands import folders
from kanstudy.commands.errors import BadInput, keeps
from kanstudy.study.batch import FAILED, FAULTY_POINTS, OK

if TYPE_CHECKING:
    from kanstudy.bench_record import BenchRecord

EXIT_CODES = """\b
Exit codes:
  0    everything is measured; peers that are not installed, and steps too slow to repeat, are rows that say so
  1    a candidate failed, was ended or was silent for too long; its row says why
  2    the command cannot be used; nothing was started
  3    all is measured, but some candidate ran out of memory
  130  interrupted; what was measured is kept, the same command begins anew"""


@click.group()
def bench() -> None:
    """Measure what single parts of the study cost.

    \b
    Example:
      kanstudy bench operator --profile laptop
    """


@bench.command(epilog=EXIT_CODES, short_help="Time, memory and accuracy of KAN layers.")
@click.option("--profile", metavar="P", help="whose results and figures folders to use")
@click.option("--results-dir", default="", metavar="D", help="write to D/bench, figures to D/figures")
@click.option(
    "--shapes",
    multiple=True,
    metavar="SHAPE",
    help=f"layer widths and rows of a batch; may be repeated  [default: {' '.join(DEFAULT_SHAPES)}]",
)
@click.option(
    "--operators",
    metavar="NAMES",
    help=f"only these, separated by commas: {', '.join((*OPERATORS, *PEERS))}  [default: all]",
)
@click.option("--no-peers", is_flag=True, help="leave out other packages' layers (pip install 'kanstudy[peers]')")
@click.option(
    "--add",
    "added",
    multiple=True,
    metavar="NAME=FILE.py:CLASS",
    help="your own layer, or a public one: called as CLASS(layer_widths, grid_size=5, spline_order=3); may be repeated",
)
@click.option("--threads", type=click.IntRange(min=1), default=1, metavar="N", help="threads of a step  [default: 1]")
@click.option("--rounds", type=click.IntRange(min=1), metavar="N", help="rounds a shape  [default: 20]")
def operator(
    profile: str | None,
    results_dir: str,
    shapes: tuple[str, ...],
    operators: str | None,
    no_peers: bool,
    added: tuple[str, ...],
    threads: int,
    rounds: int | None,
) -> None:
    """Time, memory and accuracy of KAN layers: every operator, the floor under them, an MLP, and other packages.

    One record, bench/operator.json, in the results folder; table and figure operator_speed in the figures folder.
    Takes about half an hour; the machine should do nothing else meanwhile.

    \b
    Examples:
      kanstudy bench operator --profile laptop
      kanstudy bench operator --results-dir out --shapes 64,64,1:512 --operators floor,fused --rounds 6
      kanstudy bench operator --profile laptop --add efficient-kan=kan.py:KAN
    """
    from kanstudy.study import bench as benches
    from kanstudy.study.bench_plan import DEFAULT_ROUNDS, plan_bench
    from kanstudy.study.folder import FolderError

    loaded, results = folders.given(profile, results_dir)
    figures = folders.figures_folder(loaded, results_dir)
    try:
        names = [name for name in (part.strip() for part in (operators or "").split(",")) if name]
        if operators is not None and not names:
            raise BadInput(f"--operators {operators}: must be names, separated by commas")
        plan = plan_bench(
            shapes,
            names,
            _added(added),
            peers=not no_peers,
            threads=threads,
            rounds=rounds or DEFAULT_ROUNDS,
            profile=profile,
        )
        click.echo(
            f"{len(plan.candidates)} candidates at {len(plan.shapes)} shapes, {plan.threads} thread(s), {plan.rounds} "
            f"rounds; results in {results / 'bench'}"
        )
        keeps("What was measured is kept in the record; the same command begins anew.")
        record = benches.run(plan, results, click.echo)
    except (ValueError, FolderError) as error:
        raise BadInput(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error}; what was measured until then is in {results / 'bench'}") from error
    _show(record, figures)


def _show(record: BenchRecord, figures: Path) -> None:
    """Table, figure, and what it came to."""
    from kanstudy.analysis import operator_speed, plots

    click.echo(operator_speed.table(record))
    try:
        operator_speed.save(record, figures)
        figure = plots.operator_speed.operator_speed(operator_speed.estimates(record))
        plots.save.save_figure(figure, figures, operator_speed.NAME, operator_speed.caption(record))
    except OSError as error:
        raise click.ClickException(f"{figures}: cannot be written: {error.strerror}; the record is kept") from error
    code = exit_code(record)
    click.echo(f"Look at {figures}{'' if code == OK else f'  (exit code {code})'}")
    sys.exit(code)


def exit_code(record: BenchRecord) -> int:
    """What is worst: failed (1), out of memory (3), nothing (0)."""
    kinds = {part.status for part in record.parts()}
    if kinds & {"failed", "timeout", "not measured"}:
        return FAILED
    return FAULTY_POINTS if "oom" in kinds else OK


def _added(texts: Sequence[str]) -> dict[str, str]:
    """Name to `FILE.py:CLASS`, its path absolute; `ValueError` unless the file defines such a name. It is not run."""
    added: dict[str, str] = {}
    for text in texts:
        match = re.fullmatch(r"([A-Za-z0-9][\w.-]*)=(.+\.py):([A-Za-z_]\w*)", text)
        if not match:
            raise ValueError(f"--add {text}: must be NAME=FILE.py:CLASS")
        name, file, wanted = match.groups()
        if name in (*OPERATORS, *PEERS, *added):
            raise ValueError(f"--add {text}: the name {name} is taken")
        path = folders.path_given(file, "--add")
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"--add {text}: {file} cannot be read as Python: {error}") from error
        if wanted not in _top_level_names(tree):
            raise ValueError(f"--add {text}: {file} defines no {wanted}")
        added[name] = f"{path}:{wanted}"
    return added


def _top_level_names(tree: ast.Module) -> set[str]:
    """Names that a module binds: definitions, imports and assignments."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names
