"""The figure of choices: every message on every layout has its colour and its time."""

from __future__ import annotations

from matplotlib.colors import to_rgb
from seen import legend_texts, texts

from kanstudy.analysis.network.choices import choices
from kanstudy.analysis.network.network import Link, Network
from kanstudy.analysis.plots import network

NCCL = Network(
    inside=Link(latency_s=5.7e-6, bytes_per_s=10e9),
    between=Link(latency_s=14e-6, bytes_per_s=12e9),
    algorithm="nccl",
    name="cluster",
)
LAYOUTS = [(2,), (1, 1, 1, 1), (2, 2, 2, 2)]


def test_each_choice_has_a_colour_and_each_cell_its_time():
    table = choices(NCCL, [2**12, 2**18, 2**25], LAYOUTS)
    figure = network.choices(table)
    left, right = figure.axes
    chosen = [choice for choice in ("Ring LL", "Ring Simple", "Tree LL") if choice in set(table["choice"])]
    assert legend_texts(figure) == [*chosen, "4 KiB", "256 KiB", "32 MiB"]
    assert len(left.patches) == len(left.texts) == 9
    found = {}
    for choice, patch in zip(table["choice"], left.patches, strict=True):
        assert found.setdefault(choice, patch.get_facecolor()) == patch.get_facecolor()
    assert len(set(found.values())) == table["choice"].nunique()
    assert left.texts[-1].get_text() == f"{1e3 * table['time_s'].iloc[-1]:.2g}"
    assert [tick.get_text() for tick in right.get_xticklabels()] == ["1x2", "4x1", "4x2"]
    assert "predicted: cluster, assumed" in left.get_title()
    assert [line.get_label() for line in right.lines] == ["4 KiB", "256 KiB", "32 MiB"]
    assert right.lines[0].get_ydata()[0] == 1


def test_a_choice_has_the_same_colour_beside_others():
    both = network.choices(choices(NCCL, [2**25, 2**12], LAYOUTS)).axes[0].patches[0]
    alone = network.choices(choices(NCCL, [2**25], LAYOUTS[:1])).axes[0].patches[0]
    assert to_rgb(both.get_facecolor()) == to_rgb(alone.get_facecolor())


def test_without_messages_it_says_so():
    assert "Nothing to choose" in texts(network.choices(choices(NCCL, [], LAYOUTS)))
