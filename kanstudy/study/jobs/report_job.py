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
    if set(batch.point_states(run.plans, run.results).values()) == {"missing"}:
        print("Nothing is measured yet, so there is nothing to report")
        return
    profile = run.profile
    parameters = {
        "profile": profile.name if profile.name in builtin_profiles() else str(profile.path),
        "launcher": "none",
        "launches": max(plan.launches for plan in run.plans.values()),
    }
    work = batch.Batch(project_root() / "notebooks", run.results, run.figures, parameters)
    work.run([NOTEBOOKS[name] for name in run.plans], f"kanstudy: {profile.name}")
    print(batch.summary(batch.point_states(run.plans, run.results)), flush=True)
    sys.exit(batch.FAILED if work.failures else batch.OK)  # what is not measured is the other job's failure


if __name__ == "__main__":
    main()
