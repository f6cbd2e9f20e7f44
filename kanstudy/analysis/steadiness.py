"""Was the machine steady while a point was measured? Warm-up, drift and outliers, arm by arm.

- *Warm-up*: the first tenth of a block's timed steps over the rest, median against median, and how many of the rounds
  find it slower (sign test, one-sided): steps that are still cold make a short block slower than a long one.
- *Drift*: Kendall's rank correlation of an arm's time with the round, within launches (the Mann-Kendall test, Mann
  1945, exact for few rounds). What drifts alike in all arms falls out of their ratios; so the same for the arm's time
  over the mean of its round, which does not.
- *Outliers*: rounds whose log time lies more than 3.5 scaled median absolute deviations from its launch's median
  (Iglewicz & Hoaglin 1993). They are marked, shown and counted, never left out: only covariates disturb a round.

A record asks many questions at once: each p-value is multiplied as Holm (1979) does, over all of the record.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import binomtest, kendalltau

from kanstudy.analysis.rows import columns, quality
from kanstudy.analysis.series import series_labels
from kanstudy.analysis.statistics.blocks import blocks
from kanstudy.analysis.statistics.intervals import ORDER_STATISTICS_FROM, median, seed_of
from kanstudy.analysis.statistics.paired_arms import PairedArms
from kanstudy.record import Arm, Record
from kanstudy.spec import ARMS
from kanstudy.stopping import decisions

FIRST_SHARE = 0.1
"""Of a block's timed steps, those that a warm-up too short would leave cold."""
OUTLIER_FROM = 3.5
_BY_CHANCE = 0.05
_SCALED = 1.4826  # a normal distribution's standard deviation over its median absolute deviation
COLUMNS = ["point_id", "source", "series", "scaling", "world_size", "arm", "n_rounds", "first_steps"]
COLUMNS += ["first_steps_low", "first_steps_high", "first_steps_p", "drift", "drift_p", "relative_drift"]
COLUMNS += ["relative_drift_p", "n_outliers", "n_disturbed"]
ROUNDS = ["point_id", "title", "arm", "launch", "round", "time_s", "deviation", "relative", "outlier", "disturbed"]
_QUESTIONS = ("first_steps_p", "drift_p", "relative_drift_p")
_NOT_COLD, _NO_DRIFT = "no slow first steps can be told", "no drift can be told"
_STEADY = f"{_NOT_COLD} and {_NO_DRIFT}"


def steadiness(records: Sequence[Record]) -> pd.DataFrame:
    """One row an arm of each record that has rounds.

    Columns: point_id, source, series, scaling, world_size, arm, n_rounds; first_steps (over the rest of the block) with
    its interval over rounds; drift and relative_drift (rank correlations with the round, -1 to 1); their p-values
    `_p`, each by itself; n_outliers and n_disturbed rounds. Below 6 rounds, or where nothing varies, no p-values.
    """
    lines = []
    for record, series in zip(records, series_labels(records), strict=True):
        marked = rounds([record])
        head: dict[str, object] = {"point_id": record.point_id, "source": record.source, "series": series}
        head |= {"scaling": record.scaling, "world_size": record.world_size}
        for name, own in marked.groupby("arm", sort=False):
            row = head | {"arm": name, "n_rounds": len(own)}
            row |= _first_steps(record.arms[str(name)], seed_of(record.point_id))
            for column, values in (("drift", own["deviation"]), ("relative_drift", own["relative"])):
                row |= {column: np.nan, f"{column}_p": np.nan} | _drift(column, own["round"], values)
            row |= {"n_outliers": int(own["outlier"].sum()), "n_disturbed": int(own["disturbed"].sum())}
            lines.append(row)
    return pd.DataFrame(lines, columns=COLUMNS)


def rounds(records: Sequence[Record]) -> pd.DataFrame:
    """One row a round of an arm, for the figure: point_id, title, arm, launch, round, time_s; deviation, the log time
    less its launch's median; relative, the log time less the mean of its round, less its launch's median; outlier,
    disturbed."""
    frames = [
        frame.assign(title=f"{record.experiment.replace('_', ' ')}, {series}, {_ranks(record)}")
        for record, series in zip(records, series_labels(records), strict=True)
        if len(frame := _rounds_of(record))
    ]
    return pd.concat(frames)[ROUNDS] if frames else pd.DataFrame(columns=ROUNDS)


def sentences(records: Sequence[Record], table: pd.DataFrame) -> pd.DataFrame:
    """One sentence a record, `point_id` and `sentence`; takes the frame of `steadiness` of the same records."""
    lines = []
    for record, series in zip(records, series_labels(records), strict=True):
        own = table[table["point_id"] == record.point_id]
        text = _found(own) if len(own) else "no round is measured"
        notes = [quality(record, PairedArms(record)), decisions(record) if record.status == "ok" else ""]
        text = "; ".join(filter(None, [text, *notes]))
        head = f"{record.experiment.replace('_', ' ').capitalize()}, {series}, {_ranks(record)}"
        lines.append({"point_id": record.point_id, "sentence": f"{head}: {text} ({record.source}: {record.point_id})."})
    return pd.DataFrame(lines, columns=["point_id", "sentence"])


def notable(sentences: pd.DataFrame) -> list[str]:
    """The sentences of what was not steady or cannot be told; of the rest, how many points there are."""
    steady = sentences["sentence"].str.contains(_STEADY, regex=False)
    rest = [f"{steady.sum()} of {len(steady)} points: {_STEADY}."] if steady.any() else []
    return [*sentences.loc[~steady, "sentence"], *rest]


def holm(p_values: np.ndarray) -> np.ndarray:
    """p-values (n,) adjusted for asking n questions at once (Holm 1979); NaN stays and does not count."""
    adjusted = np.full(len(p_values), np.nan)
    asked = np.flatnonzero(np.isfinite(p_values))
    order = asked[np.argsort(p_values[asked])]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(factors * p_values[order]))
    return adjusted


def outliers(deviations: np.ndarray) -> np.ndarray:
    """Which deviations from a median (n,) are outliers; none where more than half are the same."""
    spread = _SCALED * np.median(np.abs(deviations)) if len(deviations) else 0.0
    if not spread > 0:
        return np.zeros(len(deviations), dtype=bool)
    found: np.ndarray = np.abs(deviations) > OUTLIER_FROM * spread
    return found


def _rounds_of(record: Record) -> pd.DataFrame:
    found = blocks(record)
    times = found.times_s[[arm for arm in ARMS if arm in found.times_s]]
    logs = pd.DataFrame(np.log(times.to_numpy()), index=times.index, columns=times.columns)
    relative = logs.sub(logs.mean(axis=1), axis=0)
    frames = []
    for arm in map(str, times):
        frame = pd.DataFrame({"time_s": times[arm], "deviation": _within_launches(logs[arm])})
        frame["relative"] = _within_launches(relative[arm])
        marks = [outliers(group.to_numpy()) for _, group in frame["deviation"].groupby(level="launch")]
        frame["outlier"] = np.concatenate(marks)
        frame["disturbed"] = found.disturbed
        frames.append(frame.assign(arm=arm))
    if not frames:
        return pd.DataFrame()
    return pd.concat(frames).reset_index().assign(point_id=record.point_id)


def _ranks(record: Record) -> str:
    return f"{record.world_size} rank{'s' * (record.world_size > 1)}"


def _within_launches(values: pd.Series) -> pd.Series:
    return values - values.groupby(level="launch").transform("median")


def _first_steps(arm: Arm, seed: int) -> dict[str, float]:
    """The first steps over the rest, per round the median over its ranks' steps, and the one-sided sign test."""
    ratios = []
    for item in arm.rounds:
        parts = [(steps, max(1, int(FIRST_SHARE * len(steps)))) for steps in item.rank_step_times_s if len(steps) > 1]
        first = [step for steps, end in parts for step in steps[:end]]
        rest = [step for steps, end in parts for step in steps[end:]]
        if rest and None not in first + rest:
            ratios.append(float(np.median(first) / np.median(rest)))
    found = columns("first_steps", median(np.array(ratios), seed))
    slower, differ = sum(ratio > 1 for ratio in ratios), sum(ratio != 1 for ratio in ratios)
    tested = len(ratios) >= ORDER_STATISTICS_FROM and differ > 0
    return found | {"first_steps_p": binomtest(slower, differ, alternative="greater").pvalue if tested else np.nan}


def _drift(column: str, order: pd.Series, values: pd.Series) -> dict[str, float]:
    if len(values) < ORDER_STATISTICS_FROM or values.round(12).nunique() < 2 or order.nunique() < 2:
        return {}
    found = kendalltau(order, values)
    return {column: float(found.statistic), f"{column}_p": float(found.pvalue)}


def _found(table: pd.DataFrame) -> str:
    """What the rows of one record's arms say, in words."""
    n = int(table["n_rounds"].min())
    if n < ORDER_STATISTICS_FROM:
        return f"{n} round{' is' if n == 1 else 's are'} too few to tell whether it was steady"
    p_values = holm(table[list(_QUESTIONS)].to_numpy(float).ravel()).reshape(len(table), len(_QUESTIONS))
    cold, drift, relative = (table[p_values[:, place] < _BY_CHANCE] for place in range(len(_QUESTIONS)))
    texts = []
    if len(cold):
        texts.append(
            f"a longer warm-up is due: the first steps of a block are slower in {', '.join(cold['arm'])}, by up to "
            f"{cold['first_steps'].max() - 1:.1%}"
        )
    if len(relative):
        texts.append(f"{', '.join(relative['arm'])} drifted against the other arms: ratios moved over the rounds")
    elif len(drift):
        texts.append(f"{', '.join(drift['arm'])} drifted over the rounds, but not against the others: ratios hold")
    steady = [*([] if len(cold) else [_NOT_COLD]), *([] if len(drift) or len(relative) else [_NO_DRIFT])]
    texts += [" and ".join(steady)] if steady else []
    marked, total = int(table["n_outliers"].sum()), int(table["n_rounds"].sum())
    texts.append(f"outliers: {marked} of {total} blocks" + (", kept" if marked else ""))
    texts.append(f"{int(table['n_disturbed'].max())} of {n} rounds disturbed")
    return "; ".join(texts)
