"""Several machines without Slurm: a run folder with the plan of each launch, which `slurm/torchrun.sh` measures."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from kanstudy.files import write_atomically
from kanstudy.run_spec import to_json
from kanstudy.study.folder import opened
from kanstudy.study.jobs import costs, submission
from kanstudy.study.places import project_root
from kanstudy.study.plan import ExperimentPlan
from kanstudy.study.profile import Profile, ProfileError
from kanstudy.study.provenance import collect
from kanstudy.study.run_spec import data_files, own_environment, run_spec


def write(
    plans: Mapping[str, ExperimentPlan],
    profile: Profile,
    results: Path,
    figures: Path,
    say: Callable[[str], object] = print,
) -> submission.Submission | None:
    """Write what has no final record yet as `RUN/plans/*.json`, one a launch, and say what to start where; None where
    nothing is left.

    Raises `ProfileError` without a checkout, and without a cluster, which says how many machines there are and how many
    ranks on each; `FolderError` or `OSError` where the results cannot be written.
    """
    cluster = profile.require_cluster()
    script = project_root() / "slurm" / "torchrun.sh"
    if not script.is_file():
        raise ProfileError(f"{script}: not there: submit from a checkout of the project")
    left = submission.unfinished(plans, results)
    if not left:
        say("Every planned point has its final record")
        return None
    with opened(results):
        text = costs.plan_text(left, profile)
        say(text)
        written = submission.write(left, profile, results, figures, text)
        submission.write_jobs(written.folder, {})
        folder = written.folder / "plans"
        launches = [(plan, launch) for plan in left.values() for launch in range(plan.launches)]
        for number, (plan, launch) in enumerate(launches):
            name = f"{number:03d}-{plan.experiment}-{launch}"
            spec = run_spec(
                plan,
                plan.points,
                launch=launch,
                results=results,
                files=data_files(plan.points, results),
                progress=folder / f"{name}.progress.jsonl",
                provenance=collect(),
            )
            write_atomically(folder / f"{name}.json", to_json(spec))
    variables = own_environment(profile.machine.threads_per_rank)
    variables |= {
        "KANSTUDY_MACHINES": str(cluster.nodes),
        "KANSTUDY_RANKS": str(cluster.ranks_per_node),
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items() if name != "PYTHONPATH"]
    write_atomically(written.folder / "environment.sh", "\n".join(lines) + "\n")
    say(f"On each of the {cluster.nodes} machines, K = 0, 1, ..., ADDRESS being that of the first:")
    say(f"  {shlex.quote(str(script))} {shlex.quote(str(written.folder))} K ADDRESS")
    return written
