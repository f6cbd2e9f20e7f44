"""How a command says that what was asked for cannot be done."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click

from kanstudy.study.batch import BAD_INPUT


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
