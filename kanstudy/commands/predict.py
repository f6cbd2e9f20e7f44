"""`kanstudy predict`: what training on more ranks would take, from a calibration on one device or one node."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kanstudy.commands import folders
from kanstudy.commands.errors import BadInput, refusing

if TYPE_CHECKING:
    import pandas as pd

    from kanstudy.analysis.calibration.calibration import Calibration
    from kanstudy.analysis.prediction.costs import Limits, Prices
    from kanstudy.study.profile import Profile

EXIT_CODES = """\b
Exit codes:
  0  predicted
  2  the command cannot be used, or the calibration does not cover it; the message says what to measure"""


@click.command(epilog=EXIT_CODES, short_help="Predict training on more ranks than were measured.")
@click.option("--profile", required=True, metavar="P", help="finisterrae3, ..., or a path to your .toml")
@click.option("--world-sizes", metavar="SIZES", help="such as 8,64,512  [default: the profile's]")
@click.option(
    "--calibration",
    default="",
    metavar="RESULTS_OR_FILE",
    help="a results folder with the experiment calibration, or a calibration.json  [default: results/<profile>]",
)
@click.option(
    "--held-out",
    default="",
    metavar="TABLE",
    help="prediction_check_coverage.csv of kanstudy bench prediction: bands as wide as its held-out settings need",
)
@click.option("--scaling", type=click.Choice(["strong", "weak"]), help="only this  [default: both]")
@click.option(
    "--steps", type=click.IntRange(1, 10**12), default=100_000, metavar="N", help="of training [default: 100000]"
)
@click.option(
    "--budget",
    metavar="AMOUNT",
    help="at most so many device-hours (1500), or so much money (1500EUR): the fastest size, and the knee",
)
@click.option(
    "--deadline", type=click.FloatRange(min=0, min_open=True), metavar="HOURS", help="training takes at most so long"
)
@click.option("--out", required=True, metavar="DIR", help="write tables, figure and the calibration there")
def predict(
    profile: str,
    world_sizes: str | None,
    calibration: str,
    held_out: str,
    scaling: str | None,
    steps: int,
    budget: str | None,
    deadline: float | None,
    out: str,
) -> None:
    """Predict step time, efficiency, its factors, memory and costs on more ranks than were measured.

    Computation comes from the experiment calibration, measured on one rank and on the ranks of one node, here or
    elsewhere. The network is the one that was calibrated; of another machine's calibration the [network] of the
    profile. Nothing is predicted for batches and models beyond what is calibrated. [device] tells power and price.

    Bands are 95 % intervals where all is calibrated, and scenario ranges, without a level, beyond the calibrated ranks
    or over assumed links, whose constants go from half to twice what is stated.

    DIR gets prediction.csv, .md, .tex, .pdf and .png, proposal.txt, and calibration.json, to be used anywhere.

    \b
    Examples:
      kanstudy run --profile mine.toml --only calibration
      kanstudy predict --profile mine.toml --world-sizes 8,64,512 --out proposal
      kanstudy predict --profile finisterrae3 --calibration proposal/calibration.json --out there
      kanstudy predict --profile mine.toml --steps 200000 --budget 1500 --deadline 24 --out proposal
    """
    from kanstudy.analysis.calibration.domain import NotCovered
    from kanstudy.analysis.calibration.spread import TooFewSteps
    from kanstudy.analysis.prediction import costs, widening
    from kanstudy.analysis.prediction.predict import predict as predicted
    from kanstudy.analysis.prediction.site import PredictionError
    from kanstudy.described_machine import site_of
    from kanstudy.study.prediction import points
    from kanstudy.study.profile import ProfileError

    loaded = folders.load(profile)
    device = loaded.device_constants
    prices = costs.Prices(power_w=device.power_w, price_per_hour=device.price_per_hour, currency=device.currency)
    limits = _limits(budget, deadline, prices)
    sizes = _sizes(world_sizes, loaded)
    own = folders.results_folder(loaded, "")
    if not calibration and not own.is_dir():
        how = f"kanstudy {'submit' if loaded.cluster else 'run'} --profile {shlex.quote(profile)} --only calibration"
        raise BadInput(f"{folders.short(own)}: nothing is measured there: {how}, or name another with --calibration")
    with refusing(ProfileError, NotCovered, TooFewSteps, PredictionError, widening.WideningError):
        asked = points(loaded, sizes, scaling or "")
        found = folders.calibration_of(calibration or own)
        _check_device(loaded, found)
        frame = predicted(found, asked, site_of(loaded, found), widening.read(held_out) if held_out else None)
    costed = costs.with_costs(frame, steps, prices)
    folder = folders.made(out)  # last: of what is refused nothing is left
    _tell(costed, found, limits, steps, loaded, prices, folder)


def _limits(budget: str | None, deadline: float | None, prices: Prices) -> Limits:
    from kanstudy.analysis.prediction.costs import Limits

    if deadline is not None and math.isnan(deadline):
        raise BadInput(f"--deadline {deadline}: must be hours > 0")
    if budget is None:
        return Limits(hours=deadline)
    text = budget.strip()
    in_money = bool(prices.currency) and text.upper().endswith(prices.currency.upper())
    try:
        amount = float(text[: -len(prices.currency)] if in_money else text)
    except ValueError:
        amount = -1.0
    if not 0 < amount < float("inf"):
        raise BadInput(
            f"--budget {budget}: must be device-hours, such as 1500, or money, such as 1500{prices.currency}"
        )
    if in_money and not prices.price_per_hour:
        raise BadInput(f"--budget {budget}: needs price_per_hour in [device] of the profile")
    return Limits(hours=deadline, cost=amount) if in_money else Limits(hours=deadline, device_hours=amount)


def _sizes(text: str | None, profile: Profile) -> tuple[int, ...]:
    if text is None:
        return profile.world_sizes
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1 or len(set(sizes)) < len(sizes):
        raise BadInput(f"--world-sizes {text}: must be distinct whole numbers >= 1, such as 8,64,512")
    return tuple(sorted(sizes))


def _check_device(profile: Profile, calibration: Calibration) -> None:
    """`BadInput` where CPUs are calibrated for GPUs, or the other way round."""
    calibrated = {"nccl": "cuda", "gloo": "cpu"}.get(calibration.backend, profile.device)
    if profile.device not in ("auto", calibrated):
        raise BadInput(
            f"device = {profile.device!r} of {profile.path}: the calibration is of {calibrated}"
            f" ({calibration.device_name}); must be a calibration of {profile.device}"
        )


def _tell(
    costed: pd.DataFrame,
    calibration: Calibration,
    limits: Limits,
    steps: int,
    profile: Profile,
    prices: Prices,
    folder: Path,
) -> None:
    from kanstudy.analysis.calibration import calibration_file
    from kanstudy.analysis.plots import prediction as plots
    from kanstudy.analysis.plots.save import save_figure
    from kanstudy.analysis.prediction import costs
    from kanstudy.analysis.prediction.predict import tells_nothing
    from kanstudy.analysis.tables.save import save_table
    from kanstudy.analysis.tables.view import shown
    from kanstudy.files import write_atomically

    unit = "GPU" if profile.device == "cuda" else "rank"
    doubt = tells_nothing(costed)
    for note in filter(None, (*calibration.notes, doubt)):
        click.echo(f"Note: {note}")
    lines = [f"Do not use this: {doubt}."] if doubt else []
    for series, rows in costed.groupby("series", sort=False):
        row = costs.best(rows, limits) if limits.are_given else rows.iloc[-1]
        if row is None:
            lines.append(
                f"{series}: no world size among {', '.join(map(str, rows['world_size']))} keeps to the limits."
            )
        else:
            words = [_chosen(rows, row, limits, str(series))] if limits.are_given else []
            words.append(costs.sentence(row, steps, unit, prices))
            if profile.cluster and row["nodes"] > profile.cluster.nodes:
                words.append(f"[cluster] of the profile has {profile.cluster.nodes} nodes, fewer than these.")
            lines.append(" ".join(words))
    networks = " / ".join(costed.loc[costed["world_size"] > 1, "network"].unique()) or "none"
    caption = (
        f"Source: predicted, nothing here is measured. Profile: {profile.name}; computation: calibrated on"
        f" {calibration.device_name} ({calibration.source}, {calibration.launches} launch(es), points of"
        f" {calibration.profile}); network: {networks}; {steps} steps"
        f"{f', cost in {prices.currency}' if prices.price_per_hour else ''}. Brackets and bands:"
        f" {'; '.join(costed['holds'].unique())}."
    )
    try:
        save_table(costed, costs.TABLE, folder, "prediction", caption)
        save_figure(plots.scaling(costed), folder, "prediction", caption)
        write_atomically(folder / "proposal.txt", "\n\n".join(lines) + "\n")
        calibration_file.save(calibration, folder / "calibration.json")
    except OSError as error:
        raise BadInput(f"--out {folder}: cannot be written: {error.strerror or error}") from error
    brief = {
        name: costs.TABLE[name]
        for name in ("series", "world_size", "step_time_s", "parallel_efficiency", "device_hours")
    }
    click.echo(shown(costed, brief).to_string(index=False))
    for line in lines:
        click.echo(f"\n{line}")
    click.echo(f"\nLook at {folders.short(folder)}/prediction.csv, prediction.pdf and proposal.txt")


def _chosen(rows: pd.DataFrame, row: pd.Series, limits: Limits, series: str) -> str:
    """Which world size is best within the limits, and what the knee costs, if that is less."""
    from kanstudy.analysis.prediction import costs

    text = f"{series}: best within the limits is world size {row['world_size']}"
    knee = costs.knee(rows, limits, row)
    if knee is None:
        return f"{text}."
    longer, share = (knee[name] / row[name] for name in ("training_hours", "device_hours"))
    return (
        f"{text}, at an efficiency of {row['parallel_efficiency']:.2g}; the knee, where efficiency over time is"
        f" highest, is world size {knee['world_size']}: {longer:.2g} times as long for {share:.0%} of the device-hours,"
        f" at {knee['parallel_efficiency']:.2g}."
    )
