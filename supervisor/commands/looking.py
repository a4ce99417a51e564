"""`status --watch`: look at the fleet again and again, until it is interrupted.

What holds: the last picture stays while the store cannot be read or nothing matches, and says since when. On a terminal
it is one picture that changes; anywhere else each look is a block of text.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, TextIO

from supervisor import exits
from supervisor.clock import unix_ms
from supervisor.commands.means import Failed
from supervisor.showing.screen import cell, console_for
from supervisor.showing.telling import age
from supervisor.showing.view import Picture

if TYPE_CHECKING:
    from rich.console import Group

Show = Callable[["Group"], None]


def follow(look: Callable[[], Picture], interval_s: float, stream: TextIO) -> Picture:
    """The last picture, when SIGINT or SIGTERM ends it. A first look that fails raises what `look` raises."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    picture = look()
    try:
        with _screen(stream) as show:
            show(_dated(picture))
            while True:
                time.sleep(interval_s)
                try:
                    picture = look()
                    show(_dated(picture))
                except Failed as failure:
                    show(_dated(picture, failure))
    except KeyboardInterrupt:
        return picture


@contextmanager
def _screen(stream: TextIO) -> Iterator[Show]:
    from rich.live import Live

    console = console_for(stream)
    if not console.is_terminal:
        yield lambda picture: console.print(picture, "")
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda picture: live.update(picture, refresh=True)


def _dated(picture: Picture, failure: Failed | None = None) -> Group:
    """What is wrong stands at its top: its end may be below the screen."""
    from rich.console import Group

    at = picture.fleet.at
    if failure is None:
        line = cell(_time(at), "dim")
    else:
        what = "not read" if failure.code == exits.STORE else "nothing to show"
        since = f"{what} since {_time(at)} ({age(unix_ms() - at)})"
        line = cell(f"{since}: {'; '.join(failure.sentences)}", "bold red")
    return Group(line, picture)


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000).strftime("%H:%M:%S")
