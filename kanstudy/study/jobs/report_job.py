"""`python -m kanstudy.study.jobs.report_job RUN`: the notebooks of a run, its figures and report, measuring nothing."""

from __future__ import annotations

import sys
from pathlib import Path

from kanstudy.study import batch
from kanstudy.study.jobs import submission
from kanstudy.study.places import project_root
from kanstudy.study.profile import builtin_profiles
from kanstudy.study.series import NOTEBOOKS


def main() -> None:
    """Execute the notebooks of the run's experiments with what is there, then the final one and the report."""
    run = submission.read(Path(sys.argv[1]))
    profile = run.profile
    parameters = {
        "profile": profile.name if profile.name in builtin_profiles() else str(profile.path),
        "launcher": "none",
        "launches": max(plan.launches for plan in run.plans.values()),
    }
    work = batch.Batch(project_root() / "notebooks", run.results, run.figures, parameters)
    work.run([NOTEBOOKS[name] for name in run.plans], f"kanstudy: {profile.name}")
    states = batch.point_states(run.plans, run.results)
    print(batch.summary(states), flush=True)
    sys.exit(batch.exit_code(states, work.failures, stopped=True))


if __name__ == "__main__":
    main()
