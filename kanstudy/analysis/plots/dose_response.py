"""The figure of the dose-response: recovered against injected, and where each cause shows."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from kanstudy.analysis import captions
from kanstudy.analysis.dose_response.cause import EFFECTS
from kanstudy.analysis.dose_response.responses import DoseResponse
from kanstudy.analysis.plots.style import PALETTE, STYLE, WIDTH, NotebookFigure, message
from kanstudy.record import Record

NAME = "dose_response"
NOTHING = (
    "No dose-response is measured here: kanstudy bench attribution puts causes of lost efficiency into real runs, and "
    "shows whether each is found"
)
_HEADINGS = {
    "heterogeneity": "hetero-\ngeneity",
    "contention": "conten-\ntion",
    "ddp": "DDP",
    "synchronisation": "synchro-\nnisation",
    "data_movement": "data\nmovement",
    "data_wait": "data wait",
}
_COLUMNS = 4


def dose_response(found: DoseResponse) -> Figure:
    """A panel a cause, recovered against injected change of ln f in the factor it must land in (a stall of the input:
    of the data wait, in steps), in percent, identity dashed; below, the response of every factor to every cause, framed
    where it must be 1, elsewhere less what is expected on paper, so that it must be 0; bold where the bounds say that
    it is not."""
    causes = list(dict.fromkeys(found.responses["cause"]))
    if not causes:
        return message(NOTHING)
    lines = -(-len(causes) // _COLUMNS)
    with matplotlib.rc_context(STYLE):
        heights = (1.55 * lines + 0.3, 0.27 * len(causes) + 0.9)
        figure = NotebookFigure(figsize=(WIDTH, sum(heights)), layout="constrained")
        upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=heights).flat
        axes = upper.subplots(lines, _COLUMNS, squeeze=False)
        for axis in axes.flat[len(causes) :]:
            axis.set_visible(False)
        for axis, cause in zip(axes.flat, causes, strict=False):
            _panel(axis, found.responses[(found.responses["cause"] == cause) & found.responses["own"]])
        upper.supxlabel("injected (change of 100 ln f)", fontsize=8)
        upper.supylabel("recovered (change of 100 ln f)", fontsize=8)
        lower.suptitle("response of each factor to each cause, per unit injected", fontsize=8)
        _matrix(lower.subplots(), found.confusion, causes)
    return figure


def caption(found: DoseResponse, records: Sequence[Record]) -> str:
    """What the figure rests on, for under it."""
    if not len(found.responses):
        return NOTHING + "."
    landed = int(found.verdicts["lands"].sum())
    untold = int(found.verdicts["verdict"].str.contains("cannot be told").sum())
    rest = f", of {untold} that cannot be told" if untold else ""
    return (
        f"{landed} of {len(found.verdicts)} causes land in their own factor and in no other, by bounds that hold for "
        f"all at once{rest}. Above: every dose, its 95 % interval; dashed: recovered is injected. Below: the response "
        "of a factor to a cause, per unit of what is injected into the cause's own factor (framed); elsewhere less "
        "what is expected since a longer step makes other losses a smaller share; starred where the bounds leave out "
        "what must be. Records with an injection are emulated: none of this says how fast anything is. "
        + captions.caption(records)
    )


def _panel(axis: Axes, rows: pd.DataFrame) -> None:
    x, y = 100 * rows["injected"].to_numpy(float), 100 * rows["recovered"].to_numpy(float)
    low, high = 100 * rows["recovered_low"].to_numpy(float), 100 * rows["recovered_high"].to_numpy(float)
    ends = np.array([min(0, x.min()), max(0, x.max())]) * 1.12
    axis.axhline(0, color="0.8", linewidth=0.6, zorder=1)
    axis.plot(ends, ends, "--", color="0.4", linewidth=0.9, zorder=1)
    axis.vlines(x, low, high, color=PALETTE[0], linewidth=2.2, alpha=0.6)
    axis.plot(x, y, "o", color=PALETTE[0])
    effect = str(rows["effect"].iloc[0])
    axis.set_title(f"{_words(rows['cause'].iloc[0])}\n→ {_words(_HEADINGS.get(effect, effect)).replace('- ', '')}")
    axis.locator_params(nbins=4)


def _matrix(axis: Axes, confusion: pd.DataFrame, causes: Sequence[str]) -> None:
    shown = confusion.assign(shown=confusion["response"] - confusion["expected"].where(~confusion["own"], 0.0))
    table = shown.pivot(index="cause", columns="effect", values="shown").loc[list(causes), list(EFFECTS)]
    axis.imshow(table.to_numpy(float), cmap="RdBu", vmin=-1.3, vmax=1.3, aspect="auto")
    axis.grid(False)
    axis.set_xticks(range(len(EFFECTS)), [_HEADINGS.get(name, name) for name in EFFECTS])
    axis.xaxis.tick_top()
    axis.set_yticks(range(len(causes)), [_words(cause) for cause in causes])
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    for cause, effect, value, told, own in shown[["cause", "effect", "shown", "told", "own"]].to_numpy():
        x, y = EFFECTS.index(effect), causes.index(cause)
        text = f"{round(value, 2) + 0:.2f}".replace("-", "−") + "*" * told
        colour, weight = "white" if abs(value) > 0.8 else "0.15", "bold" if told else "normal"
        axis.text(x, y, text, ha="center", va="center", fontsize=7, fontweight=weight, color=colour)
        if own:
            axis.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, fill=False, edgecolor="0.1"))


def _words(name: object) -> str:
    return str(name).replace("_", " ").replace("\n", " ").replace("ddp", "DDP")
