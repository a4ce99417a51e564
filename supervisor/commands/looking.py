"""Looks at a fleet that end in time, and `status --watch`: one after the other, until it is interrupted.

What holds: a look that the store does not answer is given up after `LOOK_MAX_S`, whatever its call waits for. In a
watch the last picture stays while the store cannot be read or nothing matches, and says since when, also while an
answer is awaited for `AWAITED_S` and longer. On a terminal it is one picture that changes; anywhere else each look is
a block of text.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Generic, TextIO, TypeVar

from supervisor import exits
from supervisor.clock import unix_ms
from supervisor.commands.means import Failed
from supervisor.showing.screen import cell, console_for
from supervisor.showing.telling import age
from supervisor.showing.view import Picture

if TYPE_CHECKING:
    from rich.console import Group

    from supervisor.stores.interface import Store

Show = Callable[["Group"], None]
T = TypeVar("T")

LOOK_MAX_S = 10.0
AWAITED_S = 2.0


class Looks(Generic[T]):
    """`look` at what a store says, each time in a thread of its own, which a call without an end keeps."""

    def __init__(self, store: Store, look: Callable[[], T]) -> None:
        self._store = store
        self._look = look
        self._last: Future[T] = Future()

    def begin(self) -> Future[T]:
        self._last = Future()
        threading.Thread(target=self._run, args=[self._last], daemon=True).start()
        return self._last

    def once(self) -> T:
        """Raises what `look` raises, and `Failed` if it takes too long."""
        answer = self.begin()
        if not wait([answer], LOOK_MAX_S).done:
            raise self.unanswered(LOOK_MAX_S)
        return answer.result()

    def unanswered(self, for_s: float) -> Failed:
        return Failed(exits.STORE, f"store {self._store.url} cannot be used: it has not answered for {for_s:.0f} s")

    def end(self) -> None:
        """Close the store, unless a call is still in its way: that ends with us."""
        if self._last.done():
            self._store.close()

    def _run(self, answer: Future[T]) -> None:
        try:
            answer.set_result(self._look())
        except BaseException as error:
            answer.set_exception(error)


def follow(looks: Looks[Picture], interval_s: float, stream: TextIO) -> Picture:
    """The last picture, when SIGINT or SIGTERM ends it. A first look that fails raises as `once` does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    picture = looks.once()
    try:
        with _screen(stream) as show:
            show(_dated(picture))
            while True:
                time.sleep(interval_s)
                began_s, answer = time.monotonic(), looks.begin()
                while not wait([answer], AWAITED_S).done:
                    show(_dated(picture, looks.unanswered(time.monotonic() - began_s)))
                try:
                    picture = answer.result()  # before it is shown, or the exit code could be that of the last but one
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
