"""`kanstudy simulate`: the study of a machine that is not there, as records that say so."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kanstudy.commands import folders, options
from kanstudy.commands.errors import BadInput, refusing

if TYPE_CHECKING:
    from kanstudy.analysis.machine_model.model import MachineModel
    from kanstudy.spec import PointSpec
    from kanstudy.study.plan import ExperimentPlan
    from kanstudy.study.profile import Profile


EXIT_CODES = """\b
Exit codes:
  0  simulated
  1  the records cannot be written
  2  the command, the profile or the calibration cannot be used; nothing was written"""


@click.command(epilog=EXIT_CODES, short_help="Write simulated records of a machine that is not there.")
@click.option("--profile", required=True, metavar="P", help="finisterrae3, ..., or a path to your .toml")
@options.only
@click.option("--out", default="", metavar="D", help="where the records go  [default: results/<profile>-simulated]")
@options.rounds
@options.launches
@click.option(
    "--calibration",
    default="",
    metavar="RESULTS_OR_FILE",
    help="draw from this calibration instead: a results folder with that experiment, or a calibration.json",
)
@click.option("--mixed", is_flag=True, help="take another machine's calibration, on the network of the profile")
def simulate(
    profile: str,
    only: tuple[str, ...],
    out: str,
    rounds: int | None,
    launches: int,
    calibration: str,
    mixed: bool,
) -> None:
    """Write records of a machine that is not there: every point of the study, drawn from a model of the machine.

    The model comes from the profile's [device] and [network], a data sheet and shares of it that are assumed to be
    reached; or from a calibration, which carries only what it covers. Records, tables and figures say that they are
    simulated. Nothing is measured, and nothing needs torch.

    \b
    Examples:
      kanstudy simulate --profile finisterrae3
      kanstudy report --results-dir results/finisterrae3-simulated
      kanstudy simulate --profile mine.toml --calibration proposal/calibration.json --only weak_scaling
    """
    from kanstudy.described_machine import machine_of
    from kanstudy.study import experiments
    from kanstudy.study.profile import ProfileError

    loaded = folders.load(profile)
    with refusing(ProfileError):
        plans = experiments.plans(loaded, only, rounds or 0, launches, "none")
    machine = _calibrated(loaded, calibration, mixed) if calibration or mixed else partial(machine_of, loaded)
    machines, refused = _machines(plans, machine)
    results = folders.results_folder(None, out, "--out") if out else folders.simulated_folder(loaded)
    _check(results, loaded)
    _write(plans, machines, results)
    for name, plan in plans.items():
        whys = [refused[point] for point in plan.points if point in refused]
        why = f", {len(whys)} not: {whys[0]}" if whys else ""
        click.echo(f"{name}: {len(plan.points) - len(whys)} points simulated{why}")
    click.echo(f"Figures, tables and the report: kanstudy report --results-dir {shlex.quote(folders.short(results))}")


def _machines(
    plans: Mapping[str, ExperimentPlan], machine: Callable[[PointSpec], MachineModel]
) -> tuple[dict[PointSpec, MachineModel], dict[PointSpec, str]]:
    """The machine of each point, and why there is none for the others; `BadInput` where there is none at all."""
    machines, refused = {}, {}
    for point in (point for plan in plans.values() for point in plan.points):
        try:
            machines[point] = machine(point)
        except ValueError as error:  # the profile does not describe it, or the calibration does not cover it
            refused[point] = str(error)
    if not machines:
        raise BadInput(next(iter(refused.values()), "the profile has no points of these experiments"))
    return machines, refused


def _write(plans: Mapping[str, ExperimentPlan], machines: Mapping[PointSpec, MachineModel], results: Path) -> None:
    from kanstudy.analysis.simulation.simulate import record_of
    from kanstudy.record_files import write_record
    from kanstudy.run_spec import data_key
    from kanstudy.study import folder
    from kanstudy.study.run_spec import run_spec

    try:
        with folder.opened(results):
            for plan in plans.values():
                files = {data_key(point): "" for point in plan.points}
                run = run_spec(
                    plan, plan.points, launch=0, results=results, files=files, progress=results, provenance={}
                )
                run = dataclasses.replace(run, oversubscribed=False)  # whatever cores this machine has
                folder.write_plan(plan, results)
                for point in plan.points:
                    if point in machines:
                        write_record(record_of(point, machines[point], run), results)
    except folder.FolderError as error:
        raise BadInput(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{results}: cannot be written: {error.strerror or error}") from error


def _calibrated(profile: Profile, given: str, mixed: bool) -> Callable[[PointSpec], MachineModel]:
    """The machine of a calibration, by point; computation and network of one machine unless `mixed` asks for two."""
    from kanstudy.analysis.prediction import drawn
    from kanstudy.analysis.prediction.site import PredictionError
    from kanstudy.described_machine import is_own, site_of

    if not given:
        raise click.UsageError("--mixed needs --calibration")
    calibration = folders.calibration_of(given)
    if not is_own(profile, calibration) and not mixed:
        raise BadInput(
            f"--calibration {given}: is of {calibration.profile} ({calibration.device_name}); --mixed takes its"
            f" computation on the network of {profile.name}"
        )
    nodes = profile.cluster.nodes if profile.cluster else None
    with refusing(PredictionError):
        site = dataclasses.replace(site_of(profile, calibration), nodes=nodes)
    return lambda point: drawn.machine_of(calibration, point, site)


def _check(results: Path, profile: Profile) -> None:
    """Nothing that was measured lies in the folder, or will."""
    from kanstudy.analysis.results import ResultsError, load

    if results == folders.results_folder(profile, ""):
        raise BadInput(f"--out {folders.short(results)}: is where what is measured goes, must be another folder")
    with refusing(ResultsError):
        records = load(results).records if results.exists() else []
    if others := [record for record in records if record.source != "simulated"]:
        raise BadInput(
            f"--out {folders.short(results)}: holds {len(others)} records that are {others[0].source}, such as"
            f" {others[0].point_id}; must be another folder"
        )
