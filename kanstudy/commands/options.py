"""Options that several commands have, named and explained alike."""

from __future__ import annotations

import click

from kanstudy.study.series import SERIES

profile_or_not = click.option("--profile", metavar="P", help="the profile whose results are meant")
results_dir = click.option(
    "--results-dir", default="", metavar="D", help="where the records lie  [default: results/<profile>]"
)
only = click.option(
    "--only",
    multiple=True,
    metavar="EXPERIMENT",
    type=click.Choice(list(SERIES)),
    help=f"this experiment alone; may be repeated: {', '.join(SERIES)}",
)
rounds = click.option(
    "--rounds", type=click.IntRange(min=1), metavar="N", help="rounds a point  [default: the profile's]"
)
launches = click.option(
    "--launches",
    type=click.IntRange(min=1),
    default=1,
    metavar="L",
    help="separate launches, each with all rounds; a number to quote rests on at least 5  [default: 1]",
)
