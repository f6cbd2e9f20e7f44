"""How a command says that what was asked for cannot be done, and what is left where it is ended before its time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click

from kanstudy.study.batch import BAD_INPUT

GOES_ON = "Complete rounds are kept; the same command goes on from there."
_KEPT = "kanstudy.kept"


class BadInput(click.ClickException):
    """What was asked for cannot be done; nothing was started."""

    exit_code = BAD_INPUT


@contextlib.contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    """An error of these kinds within it is `BadInput`, in its own words."""
    try:
        yield
    except kinds as error:
        raise BadInput(str(error)) from error


def keeps(what: str = GOES_ON) -> None:
    """From here on the running command keeps something if it is interrupted or terminated: say what."""
    click.get_current_context().meta[_KEPT] = what


def ended(ctx: click.Context, how: str) -> str:
    """One line for a command that was interrupted or terminated, `how`: that, and what is kept, if anything."""
    return " ".join(filter(None, [how, ctx.meta.get(_KEPT)]))
