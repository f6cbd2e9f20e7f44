"""How a command says that what was asked for cannot be done."""

from __future__ import annotations

import click

from kanstudy.study.batch import BAD_INPUT


class BadInput(click.ClickException):
    """What was asked for cannot be done; nothing was started."""

    exit_code = BAD_INPUT
