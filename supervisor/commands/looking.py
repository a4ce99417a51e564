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
from supervisor.showing.status import FleetView
from supervisor.showing.telling import age
from supervisor.showing.view import Picture, cell, console_for

if TYPE_CHECKING:
    from rich.console import Group

Show = Callable[["Group"], None]


def follow(look: Callable[[], FleetView], interval_s: float, stream: TextIO, every: bool) -> FleetView:
    """The last picture, when SIGINT or SIGTERM ends it. A first look that fails raises what `look` raises."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    fleet = look()
    try:
        with _screen(stream) as show:
            show(_picture(fleet, every))
            while True:
                time.sleep(interval_s)
                try:
                    fleet = look()
                    show(_picture(fleet, every))
                except Failed as failure:
                    show(_picture(fleet, every, failure))
    except KeyboardInterrupt:
        return fleet


@contextmanager
def _screen(stream: TextIO) -> Iterator[Show]:
    from rich.live import Live

    console = console_for(stream)
    if not console.is_terminal:
        yield lambda picture: console.print(picture, "")
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda picture: live.update(picture, refresh=True)


def _picture(fleet: FleetView, every: bool, failure: Failed | None = None) -> Group:
    """What is wrong stands at its top: its end may be below the screen."""
    from rich.console import Group

    if failure is None:
        line = cell(_time(fleet.at), "dim")
    else:
        what = "not read" if failure.code == exits.STORE else "nothing to show"
        since = f"{what} since {_time(fleet.at)} ({age(unix_ms() - fleet.at)})"
        line = cell(f"{since}: {'; '.join(failure.sentences)}", "bold red")
    return Group(line, Picture(fleet, every))


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000).strftime("%H:%M:%S")
