"""`kanstudy bench prediction`: are predictions right about what they were not fitted to?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kanstudy.commands import folders
from kanstudy.commands.errors import BadInput, keeps
from kanstudy.files import write_atomically
from kanstudy.study.batch import FAILED

if TYPE_CHECKING:
    from kanstudy.analysis.held_out.frozen import Frozen
    from kanstudy.study.plan import ExperimentPlan

EXIT_CODES = """\b
Exit codes:
  0    everything is measured and scored, whatever the scores are
  1    something failed; the message says what and where its log is
  2    the command cannot be used; nothing was started
  130  interrupted; the same command goes on"""


@click.command(epilog=EXIT_CODES, short_help="Write predictions down, then measure and score.")
@click.option("--profile", metavar="P", required=True, help="whose calibration and machine to use")
@click.option("--out", metavar="DIR", required=True, help="records, predictions, tables and figures go there")
@click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="WIDTHS:BATCH:BUCKET",
    help="held-out hidden widths, global batch and bucket cap in MiB; may be repeated  [default: eight]",
)
@click.option(
    "--link",
    "links",
    multiple=True,
    metavar="RATEmbit:LATENCYms",
    help="held-out emulated link, which needs root; may be repeated  [default: five]",
)
@click.option("--no-links", is_flag=True, help="nothing over emulated links: needs no root")
@click.option("--launches", type=click.IntRange(min=1), metavar="N", help="launches of all held-out points")
@click.option("--rounds", type=click.IntRange(min=1), metavar="N", help="rounds of each launch")
def prediction(
    profile: str,
    out: str,
    settings: tuple[str, ...],
    links: tuple[str, ...],
    no_links: bool,
    launches: int | None,
    rounds: int | None,
) -> None:
    """Calibrate, write predictions down, then measure what was predicted, and score.

    Held out are whole widths, batches, bucket sizes and links. The predictions' SHA-256 goes into every record measured
    after them, and scores are refused where it does not match. The first two settings are measured over each emulated
    link too. Takes about ten minutes on two cores, and the machine should do nothing else meanwhile; what is measured
    already is not measured again.

    \b
    Examples:
      kanstudy bench prediction --profile laptop --out out
      kanstudy bench prediction --profile laptop --out mine --setting 72,72:384:0.1 --link 75mbit:1.5ms
    """
    from kanstudy.analysis.calibration.calibration import CalibrationError
    from kanstudy.analysis.calibration.domain import NotCovered, domain_of
    from kanstudy.analysis.calibration.spread import TooFewSteps
    from kanstudy.analysis.held_out.emulated import LinksError
    from kanstudy.analysis.held_out.frozen import FrozenError
    from kanstudy.study import held_out, launch
    from kanstudy.study import profile as profiles
    from kanstudy.study.datasets.rows import DataError
    from kanstudy.study.emulation import ranks as emulation

    results = folders.path_given(out, "--out")
    try:
        loaded = profiles.load_profile(profile)
        plan = held_out.held_out_plan(
            loaded,
            settings or held_out.SETTINGS,
            () if no_links else links or held_out.LINKS,
            rounds or held_out.ROUNDS,
            launches or held_out.LAUNCHES,
        )
        more = held_out.more_ranks_plan(loaded, plan.links)
        if more.points:
            emulation.check()
        calibration = held_out.calibration_plan(loaded)
        covered = domain_of([point for point in calibration.points if point.world_size == 1])
        for point in plan.points:
            covered.check(point, needs_global_batch=True)
        keeps()
        for known in (calibration, *([held_out.links_plan(loaded)] if more.points else [])):
            launch.run(known, results)
        frozen = _frozen(plan, more, results)
        click.echo(f"predictions are frozen: {results / 'predictions.json'}, SHA-256 {frozen.sha256}")
        for unknown in (plan, *([more] if more.points else [])):
            launch.run(replace(unknown, provenance=frozen.provenance), results)
    except (profiles.ProfileError, launch.FolderError, DataError, NotCovered, TooFewSteps) as error:
        raise BadInput(str(error)) from error
    except (launch.LaunchError, CalibrationError, LinksError, FrozenError, OSError) as error:
        click.echo(str(error), err=True)
        raise SystemExit(FAILED) from error
    _show(results)


def _frozen(plan: ExperimentPlan, more: ExperimentPlan, results: Path) -> Frozen:
    """The predictions of both plans' points: those that are written down already, or new ones."""
    import pandas as pd

    from kanstudy.analysis.calibration import calibration as calibrations
    from kanstudy.analysis.held_out import emulated, frozen, rivals
    from kanstudy.analysis.results import load
    from kanstudy.study import held_out

    path = results / frozen.FILE
    if path.exists():
        known = frozen.read(path)
        if set(known.points) != {*plan.points, *more.points}:
            raise frozen.FrozenError(f"{path}: predicts other settings than those asked for: choose another --out")
        return known
    records = load(results, "calibration").records
    found = calibrations.calibrate(records)
    for note in found.notes:
        click.echo(f"  calibration: {note}")
    law = emulated.learn(load(results, held_out.LINKS_EXPERIMENT).records) if more.points else None
    messages = emulated.messages(law, more.points) if law else pd.DataFrame()
    basis = {
        "calibration": list(found.point_ids),
        "machine": repr(found.constants),
        "amdahl_serial_share": rivals.amdahl_share(found, records),
        "notes": list(found.notes),
        "links": None if law is None else {"learned_from": law.links, "coefficients": law.coefficients},
    }
    predictions = rivals.predictions(found, records, plan.points, law)
    return frozen.freeze(path, (*plan.points, *more.points), predictions, messages, basis)


def _show(results: Path) -> None:
    """Tables and figures of the scores, and what they came to."""
    from kanstudy.analysis.held_out import frozen, scoring
    from kanstudy.analysis.plots import prediction_check as plots
    from kanstudy.analysis.plots.save import save_figure
    from kanstudy.analysis.results import load
    from kanstudy.study import held_out

    try:
        predicted = frozen.read(results / frozen.FILE)
        found = load(results).records
        own = [record for record in found if record.experiment in (held_out.EXPERIMENT, held_out.RANKS_EXPERIMENT)]
        scores = scoring.score(predicted, own)
        figures = results / "figures"
        for name in ("settings", "skill", "coverage", "links", "messages"):
            table = getattr(scores, name).to_csv(index=False, float_format="%.6g")
            write_atomically(figures / f"{plots.NAME}_{name}.csv", table)
        save_figure(plots.predicted_versus_measured(scores), figures, plots.NAME, plots.caption(scores))
    except (frozen.FrozenError, OSError, ValueError) as error:
        raise click.ClickException(f"{error}; the records are kept") from error
    for line in scoring.sentences(scores):
        click.echo(f"  {line}")
    click.echo(f"Look at {figures}")
