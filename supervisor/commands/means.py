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
    from supervisor.configuration.config import Loaded
    from supervisor.stores.interface import Store

DEFAULT_FILE = "/etc/tenured/tenured.ini"
CALL_TIMEOUT_S = 10.0


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


def loaded_from(source: str, needed: Collection[str] = ()) -> Loaded:
    """The configuration, or its mistakes as our failure. Who asks the store or the supervisor of this host needs no
    secret of the streams, and may not be allowed to read any; `needed` says what must be there (see `examine`)."""
    from supervisor.configuration.config import ConfigError, examine

    try:
        return examine(source, os.environ, needed)
    except ConfigError as error:
        raise Failed(exits.NOT_PERMITTED if error.permission else exits.CONFIG, *error.problems) from None


def store_of(source: str, store_url: str | None) -> tuple[Store, Loaded | None]:
    """The store of the command line, or that of the configuration, which then comes along."""
    from supervisor.stores.location import open_store

    loaded = None if store_url else loaded_from(source)
    url, base = (loaded.settings.store, loaded.settings.base) if loaded else (store_url or "", Path.cwd())
    try:
        return open_store(url, base, CALL_TIMEOUT_S), loaded
    except ValueError as error:
        raise Failed(exits.CONFIG if loaded else exits.USAGE, str(error)) from None


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
