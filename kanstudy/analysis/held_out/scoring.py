"""Predicted against measured: errors, skill against what predicts without a model of communication, and coverage.

The error of exposed time is a difference in ms, that of everything else the logarithm of predicted over measured. Skill
is 1 - MAE / MAE of a rival (Murphy 1988): 1 is perfect, 0 no better, below 0 worse. The setting is the replicate.
Groups are never mixed: ranks as they lie, and ranks over emulated links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kanstudy.analysis.held_out import frozen as freezing
from kanstudy.analysis.held_out.conformal import Conformal, conformal
from kanstudy.analysis.held_out.frozen import Frozen
from kanstudy.analysis.held_out.observed import launches
from kanstudy.analysis.held_out.rivals import OWN, QUANTITIES, RIVALS, WRONG
from kanstudy.analysis.statistics.intervals import LEVEL, resamples, seed_of
from kanstudy.analysis.statistics.launches import over_launches
from kanstudy.emulated_link import parse
from kanstudy.record import Record
from kanstudy.sizes import widths_text
from kanstudy.spec import PointSpec

WITHIN = 0.15
"""Of a step over an emulated link: what a prediction should be within."""
LEAST_SETTINGS = 6
"""Settings that an interval of a skill needs."""


@dataclass(frozen=True)
class Scores:
    """What became of frozen predictions.

    - `settings`: a row a point, predictor and quantity: predicted (low, high), measured (mean over launches with its t
      interval), error, n launches;
    - `skill`: a row a source, quantity and rival: mae, mae_rival, skill (low, high, over settings), n settings;
    - `coverage`: a row a source and quantity: the share of single launches inside the band, the band's half-width
      (median over settings, in the error's unit), n settings, n launches, and the factor on the band's width with which
      new settings are covered (`conformal`);
    - `links`: a row an emulated link: the largest error of the step and of the exposed time, and whether the former is
      within `WITHIN`;
    - `messages`: a row a blocking all-reduce of more ranks than were learned from: link, world_size, message_bytes,
      predicted_s, measured_s, error.
    """

    settings: pd.DataFrame
    skill: pd.DataFrame
    coverage: pd.DataFrame
    links: pd.DataFrame
    messages: pd.DataFrame
    sha256: str


def score(frozen: Frozen, records: Sequence[Record]) -> Scores:
    """The scores of predictions by records; `FrozenError` unless every record was measured after exactly these.

    Records that are not complete are left out; `ValueError` where none is left.
    """
    freezing.check(frozen, records)
    measured = launches(records)
    if measured.empty:
        raise ValueError("no held-out setting is measured completely: nothing can be scored")
    settings = _settings(frozen, measured)
    return Scores(
        settings,
        _skill(settings),
        _coverage(settings, measured),
        _links(settings),
        _messages(frozen, records),
        frozen.sha256,
    )


def sentences(scores: Scores) -> list[str]:
    """What the scores came to, one line each: exposed time and step, skill, coverage, links."""
    lines = []
    for row in scores.skill[scores.skill["quantity"] == "exposed_s"].to_dict("records"):
        low, high = row["skill_low"], row["skill_high"]
        interval = f" [{low:.2f}, {high:.2f}]" if np.isfinite(low) else ""
        lines.append(
            f"{row['source']}, exposed communication: error {row['mae']:.2f} ms, {row['rival']}"
            f" {row['mae_rival']:.2f} ms: skill {row['skill']:.2f}{interval} over {row['settings']} settings"
        )
    for row in scores.coverage[scores.coverage["quantity"].isin(("step_time_s", "exposed_s"))].to_dict("records"):
        name = "step time" if row["quantity"] == "step_time_s" else "exposed communication"
        half = f"{row['half_width']:.2f} ms" if row["unit"] == "ms" else f"{np.expm1(row['half_width']):.0%}"
        wider = "too few settings to say how much wider they should be"
        if np.isfinite(row["conformal"]):
            wider = f"{row['conformal']:.2f} times as wide covers a new launch at {row['level']:.0%}"
        lines.append(
            f"{row['source']}, {name}: bands of ±{half} hold {row['coverage']:.0%} of {row['launches']} launches of"
            f" {row['settings']} settings; {wider}"
        )
    for row in scores.links.to_dict("records"):
        lines.append(
            f"link {row['link']}: step off by at most {row['step_error']:+.1%}, exposed communication by"
            f" {row['exposed_error']:+.1%}: {'within' if row['within'] else 'NOT within'} {WITHIN:.0%}"
        )
    for (link, ranks), group in scores.messages.groupby(["link", "world_size"], sort=False):
        worst = np.expm1(group["error"].iloc[int(group["error"].abs().argmax())])
        lines.append(f"link {link}: all-reduces of {ranks} ranks, learned on fewer, off by at most {worst:+.1%}")
    return lines


def _settings(frozen: Frozen, measured: pd.DataFrame) -> pd.DataFrame:
    rows = []
    by_point = frozen.predictions.groupby("point_id")
    labels = {point.point_id: _label(point) for point in frozen.points}
    for (point_id, source, link), seen in measured.groupby(["point_id", "source", "link"], sort=False):
        for quantity in QUANTITIES:
            values = seen[quantity].to_numpy()
            is_difference = quantity == "exposed_s"
            estimate = over_launches(values if is_difference else np.log(values), seed_of(str(point_id)))
            if not is_difference:
                estimate = estimate.mapped(np.exp)
            for predicted in by_point.get_group(point_id).to_dict("records"):
                value = predicted[quantity]
                error = 1e3 * (value - estimate.value) if is_difference else np.log(value / estimate.value)
                rows.append(
                    {"point_id": point_id, "label": labels[str(point_id)], "source": source, "link": link}
                    | {"predictor": predicted["predictor"]}
                    | {"quantity": quantity, "predicted": value, "error": error}
                    | {f"predicted_{end}": predicted[f"{quantity}_{end}"] for end in ("low", "high")}
                    | {"measured": estimate.value, "measured_low": estimate.low, "measured_high": estimate.high}
                    | {"launches": len(seen)}
                )
    return pd.DataFrame(rows)


def _label(point: PointSpec) -> str:
    """A setting in few words: hidden widths, global batch, bucket cap, link."""
    words = [widths_text(point.layer_widths[1:-1]), f"{point.global_batch_size} rows"]
    words.append(f"{point.bucket_cap_mb:g} MiB")
    if point.link:
        link = parse(point.link)
        words.append(f"{8e-6 * link.bytes_per_s:g} Mbit/s + {1e3 * link.latency_s:g} ms")
    return ", ".join(words)


def _skill(settings: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for (source, quantity), group in settings.groupby(["source", "quantity"], sort=False):
        errors = group.pivot(index="point_id", columns="predictor", values="error").abs()
        for rival in (*RIVALS, WRONG):
            both = errors[[OWN, rival]].dropna().to_numpy()
            if not len(both):  # the rival says nothing of it
                continue
            rows.append(
                {"source": source, "quantity": quantity, "rival": rival, "unit": _unit(str(quantity))}
                | {"mae": both[:, 0].mean(), "mae_rival": both[:, 1].mean()}
                | _with_interval(both, seed_of(f"{source}{quantity}{rival}"))
                | {"settings": len(both)}
            )
    return pd.DataFrame(rows)


def _with_interval(errors: np.ndarray, seed: int) -> dict[str, float]:
    """Skill with its percentile interval over resampled settings (n, 2) of own and rival's absolute errors."""

    def skill(means: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(1 - means[..., 0] / means[..., 1])

    low = high = np.nan
    if len(errors) >= LEAST_SETTINGS:
        draws = skill(errors[resamples(len(errors), seed)].mean(axis=1))
        low, high = np.nanquantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return {"skill": float(skill(errors.mean(axis=0))), "skill_low": float(low), "skill_high": float(high)}


def _unit(quantity: str) -> str:
    return "ms" if quantity == "exposed_s" else "log ratio"


def _coverage(settings: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame:
    own = settings[settings["predictor"] == OWN]
    rows = []
    for (source, quantity), group in own.groupby(["source", "quantity"], sort=False):
        is_difference = quantity == "exposed_s"
        bands = group.set_index("point_id")[["predicted", "predicted_low", "predicted_high"]]
        distances, widths = [], []
        for point_id, band in bands.iterrows():
            seen = measured[measured["point_id"] == point_id][str(quantity)].to_numpy()
            value, low, high = band if is_difference else np.log(band)
            distances.append(_distances(seen if is_difference else np.log(seen), value, low, high))
            widths.append((1e3 if is_difference else 1.0) * (high - low) / 2)
        inside = np.concatenate(distances) <= 1
        found: Conformal = conformal(distances)
        rows.append(
            {"source": source, "quantity": quantity, "coverage": inside.mean(), "nominal": LEVEL}
            | {"half_width": float(np.median(widths)), "unit": _unit(str(quantity))}
            | {"settings": len(distances), "launches": len(inside), "conformal": found.factor, "level": found.level}
            | {"coverage_left_out": found.coverage_left_out}
        )
    return pd.DataFrame(rows)


def _distances(seen: np.ndarray, value: float, low: float, high: float) -> np.ndarray:
    """How far each launch lies from the prediction, in half-widths of the band on that side (launches,)."""
    above = np.where(seen >= value, high - value, value - low)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(seen == value, 0.0, np.abs(seen - value) / above)


def _links(settings: pd.DataFrame) -> pd.DataFrame:
    own = settings[(settings["predictor"] == OWN) & (settings["link"] != "")]
    rows = []
    for link, group in own.groupby("link", sort=False):
        step = np.expm1(group.loc[group["quantity"] == "step_time_s", "error"])
        exposed = group[group["quantity"] == "exposed_s"]
        share = exposed["predicted"] / exposed["measured"] - 1
        worst = float(step.iloc[step.abs().argmax()])
        rows.append(
            {"link": link, "settings": len(step), "step_error": worst}
            | {"exposed_error": float(share.iloc[share.abs().argmax()]), "within": abs(worst) <= WITHIN}
        )
    return pd.DataFrame(rows, columns=["link", "settings", "step_error", "exposed_error", "within"])


def _messages(frozen: Frozen, records: Sequence[Record]) -> pd.DataFrame:
    predicted = frozen.messages.set_index(["point_id", "message_bytes"])["time_s"]
    rows = [
        {"link": record.link, "world_size": record.world_size, "message_bytes": item.message_bytes}
        | {
            "predicted_s": float(predicted[record.point_id, item.message_bytes]),
            "measured_s": float(np.mean(item.times_s)),
        }
        for record in records
        for item in record.allreduce
        if (record.point_id, item.message_bytes) in predicted.index
    ]
    columns = ["link", "world_size", "message_bytes", "predicted_s", "measured_s"]
    found = pd.DataFrame(rows, columns=columns)
    return found.assign(error=np.log(found["predicted_s"].astype(float) / found["measured_s"].astype(float)))
