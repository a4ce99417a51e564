"""What commands share: their options, the configuration or the store that they name, and how they fail."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from supervisor import exits

if TYPE_CHECKING:
    from supervisor.configuration.config import Basics, ConfigError, Loaded
    from supervisor.stores.interface import Store

DEFAULT_FILE = "/etc/tenured/tenured.ini"
CALL_TIMEOUT_S = 7.0  # of a command that takes its time to begin, so that it ends within ten


class Failed(Exception):
    """A command cannot do its work: sentences for stderr and an exit code."""

    def __init__(self, code: int, *sentences: str) -> None:
        super().__init__(*sentences)
        self.code = code
        self.sentences = sentences


def say(code: int, *sentences: str) -> int:
    """Sentences for stderr; the code comes back."""
    for sentence in sentences:
        print(f"tenured: {sentence}", file=sys.stderr)
    return code


file_option = click.option(
    "-c",
    "--config",
    "source",
    default=DEFAULT_FILE,
    show_default=True,
    metavar="FILE",
    help="The configuration; env:NAME reads its text from a variable.",
)
store_option = click.option(
    "--store",
    "store_url",
    metavar="URL",
    help="Use this store, and read no configuration: dynamodb://... or sqlite:///PATH.",
)


Reading = Callable[[click.Context, click.Parameter, str | None], float | None]


def duration(low_s: float = 0.0, high_s: float = 86_400.0) -> Reading:
    """For an option that is a time, the callback: seconds from a number of them, or from a number with its unit."""

    def read(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
        if text is None:
            return None
        match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|s|m|h|)", text)
        seconds = float(match[1]) * {"ms": 0.001, "m": 60, "h": 3600}.get(match[2], 1) if match else -1.0
        if not low_s <= seconds <= high_s:
            bounds = f"from {low_s:g}s to {high_s / 3600:g}h"
            raise click.BadParameter(f"{text!r} is no time {bounds}, expected for example 5, 5s, 1.5s, 250ms or 2m")
        return seconds

    return read


def loaded_from(source: str, needed: Collection[str]) -> Loaded:
    """The whole configuration, or its mistakes as our failure; for `needed` see `examine`."""
    from supervisor.configuration.config import ConfigError, examine

    try:
        return examine(source, os.environ, needed)
    except ConfigError as error:
        raise _failed(error) from None


def basics_of(source: str) -> Basics:
    """What is enough for who asks the store or the supervisor of this host: neither secrets of the streams nor a
    mistake among them are his concern, least of all when he looks whether a reload was rejected."""
    from supervisor.configuration.config import ConfigError, basics

    try:
        found = basics(source, os.environ)
    except ConfigError as error:
        raise _failed(error) from None
    if found.mistakes:
        say(exits.OK, f"warning: {source} has mistakes, a reload refuses it; `tenured check` names them")
    say(exits.OK, *(f"warning: {sentence}" for sentence in found.misspelt))
    return found


def _failed(error: ConfigError) -> Failed:
    sentences = (*error.problems, *(f"warning: {warning}" for warning in error.warnings))
    return Failed(exits.NOT_PERMITTED if error.permission else exits.CONFIG, *sentences)


def store_of(source: str, store_url: str | None) -> tuple[Store, Basics | None]:
    """The store of the command line, or that of the configuration, whose basics then come along."""
    from supervisor.stores.location import open_store

    found = None if store_url else basics_of(source)
    url, base = (found.store, found.base) if found else (store_url or "", Path.cwd())
    try:
        return open_store(url, base, CALL_TIMEOUT_S), found
    except ValueError as error:
        raise Failed(exits.CONFIG if found else exits.USAGE, str(error)) from None


def asked(store: Store, question: Callable[[], Any]) -> Any:
    """The store's answer, or its failure as ours."""
    from supervisor.stores.interface import Denied, Unavailable, Unfit

    try:
        return question()
    except Unfit as error:
        raise Failed(exits.STORE, str(error)) from None
    except Denied as error:
        raise Failed(exits.NOT_PERMITTED, f"store {store.url}: {error}") from None
    except Unavailable as error:
        raise Failed(exits.STORE, f"store {store.url} cannot be used: {error}") from None
