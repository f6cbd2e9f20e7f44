"""The study as a batch: all notebooks in order, and what came of every planned point."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kanstudy.record import FINAL_FAULTS
from kanstudy.study.folder import states
from kanstudy.study.live_bar import live_bar

if TYPE_CHECKING:
    from kanstudy.study.plan import ExperimentPlan

INTRODUCTION = "00_kan_model"
FINAL = "90_figures_and_tables"

OK, FAILED, BAD_INPUT, FAULTY_POINTS, INCOMPLETE = 0, 1, 2, 3, 4


@dataclass
class Batch:
    """Notebooks of one folder, run with the same parameters; `results` takes the executed copies and the report.

    `max_minutes` (0: no limit) is for all notebooks together. `parameters` holds what any of them may declare; each
    gets what it declares. `say` prints a line.
    """

    notebooks: Path
    results: Path
    figures: Path
    parameters: dict[str, Any]
    max_minutes: float = 0.0
    say: Callable[[str], object] = print
    failures: list[str] = field(default_factory=list)
    _started: float = field(default_factory=time.monotonic)

    @property
    def minutes_left(self) -> float:
        """Of `max_minutes`; infinite without a limit, and never below 0."""
        if not self.max_minutes:
            return float("inf")
        return max(0.0, self.max_minutes - (time.monotonic() - self._started) / 60)

    def check(self, names: Sequence[str]) -> None:
        """Raise `NotebookError` now for what would only show when the last notebook begins."""
        for name in [*names, FINAL]:
            self._parameters(name)

    def run(self, names: Sequence[str], title: str) -> None:
        """Run these notebooks, then the final one and the report of what is there by then.

        A failure is told, kept in `failures`, and does not keep the others from running. When the time is over no
        other experiment is begun.
        """
        from kanstudy.study.notebooks import NotebookError, run_notebook
        from kanstudy.study.report import write_report

        for number, name in enumerate([*names, FINAL], 1):
            if name != FINAL and not self.minutes_left:
                self.say(f"[{number}/{len(names) + 1}] {name}: not begun, the {self.max_minutes:g} minutes are over")
                continue
            self.say(f"[{number}/{len(names) + 1}] {name}")
            page = self.results / "report.html"
            try:
                if name == FINAL:
                    page.unlink(missing_ok=True)  # an old one must not pass for this run's
                with live_bar(self.results):
                    run_notebook(self._path(name), self._executed(name), self._parameters(name))
                if name == FINAL:
                    write_report(self._executed(name), page, title)
            except BrokenPipeError:  # nobody reads on
                raise
            except OSError as error:
                self.say(f"{error.filename or self.results}: cannot be written: {error.strerror or error}")
                self.failures.append(name)
            except NotebookError as error:
                self.say(str(error))
                self.failures.append(name)

    def _path(self, name: str) -> Path:
        return self.notebooks / f"{name}.ipynb"

    def _executed(self, name: str) -> Path:
        return self.results / "notebooks" / f"{name}.ipynb"

    def _parameters(self, name: str) -> dict[str, Any]:
        from kanstudy.study.notebooks import check_parameters, declared_parameters

        left = max(self.minutes_left, 0.01) if self.max_minutes else 0.0  # 0 would be: no limit
        offered = self.parameters | {"max_minutes": left}
        offered |= {"results_dir": str(self.results), "figures_dir": str(self.figures)}
        declared = declared_parameters(self._path(name))
        return check_parameters(self._path(name), {key: offered[key] for key in declared if key in offered})


def point_states(plans: Mapping[str, ExperimentPlan], results: Path) -> dict[str, str]:
    """What became of each planned point, `experiment/point_id`: a record's status, "missing" or "unreadable"."""
    return {f"{name}/{point}": state for name, plan in plans.items() for point, state in states(plan, results).items()}


def summary(states: Mapping[str, str]) -> str:
    """How many points are in which state, and by name those that are not `ok`; of an experiment that is in one state as
    a whole, such as not begun, its name."""
    counts = Counter(states.values())
    planned = Counter(point.partition("/")[0] for point in states)
    alike: dict[tuple[str, str], list[str]] = {}
    for point, state in states.items():
        alike.setdefault((point.partition("/")[0], state), []).append(point)
    lines = [f"Points planned: {len(states)} ({', '.join(f'{counts[state]} {state}' for state in sorted(counts))})"]
    for (experiment, state), points in alike.items():
        if state != "ok":
            is_whole = len(points) == planned[experiment] > 1
            named = [f"all {len(points)} points of {experiment}"] if is_whole else points
            lines += [f"  {state}: {name}" for name in named]
    return "\n".join(lines)


def exit_code(states: Mapping[str, str], failures: Sequence[str], stopped: bool) -> int:
    """0 if every point is `ok`; else what is worst: failed (1), incomplete for lack of time (4), faulty points (3).

    A notebook that cannot show what there was no time to measure has not failed.
    """
    kinds = set(states.values())
    unfinished = kinds & {"missing", "partial"}
    if kinds & {"failed", "timeout", "unreadable"} or (unfinished and not stopped):
        return FAILED
    if unfinished:
        return INCOMPLETE
    if failures:
        return FAILED
    return FAULTY_POINTS if kinds & set(FINAL_FAULTS) else OK
