"""What options of the command line take."""

from __future__ import annotations

import click
import pytest

from supervisor.cli import commands
from supervisor.commands.means import duration

CONTEXT = click.Context(commands)
ANY = click.Option(["--any"])
TIMES = [
    (name, option)
    for name, command in commands.commands.items()
    for option in command.params
    if isinstance(option, click.Option) and {"--timeout", "--wait", "--interval"} & set(option.opts)
]


def test_every_time_of_a_command_is_given_with_its_unit_or_in_seconds() -> None:
    names = {name for name, _ in TIMES}
    assert names == {"move", "pause", "resume", "forget", "drain", "check", "status"}
    for name, option in TIMES:
        assert option.callback is not None
        read = [option.callback(CONTEXT, option, text) for text in ("5", "5s", "5000ms", "5.0")]
        assert read == [5.0] * 4, name


@pytest.mark.parametrize(("text", "seconds"), [("0.5", 0.5), ("2m", 120), ("1h", 3600), ("1.5s", 1.5), ("250ms", 0.25)])
def test_a_time_becomes_seconds(text: str, seconds: float) -> None:
    assert duration()(CONTEXT, ANY, text) == seconds


@pytest.mark.parametrize("text", ["", "s", "5x", "-1", "inf", "nan", "1e3", "5 s", "25h", "٥"])
def test_what_is_no_time_is_told_with_what_would_be_right(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is no time from 0s to 24h, expected for example 5, 5s, 1\.5s, "):
        duration()(CONTEXT, ANY, text)


@pytest.mark.parametrize("text", ["0", "nan", "inf"])
def test_a_command_that_writes_has_a_time_that_is_some_and_ends(text: str) -> None:
    for name, option in TIMES:
        if name in ("move", "pause", "resume", "forget"):
            assert option.callback is not None
            with pytest.raises(click.BadParameter, match=r"is no time from 0\.1s to 24h"):
                option.callback(CONTEXT, option, text)
