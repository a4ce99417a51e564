"""How the show looks: a live table on a terminal, one line per change otherwise. It decides nothing.

Both print the same notes and the same closing summary; the summary's words are ASCII, so that it survives any
terminal, pipe or log.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from supervisor.demo.plan import NAMES
from supervisor.demo.sight import Sight
from supervisor.demo.verdict import Promise

COLOURS = dict(zip(NAMES, ("cyan", "magenta", "green"), strict=True))
NOTES_SHOWN = 8


class Screen(Protocol):
    def note(self, text: str) -> None:
        """Something happened, once."""

    def show(self, sight: Sight, states: Mapping[str, str]) -> None:
        """What is to be seen now; `states` is a word for each supervisor."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class PlainScreen:
    """For pipes and logs: nothing is printed while nothing changes."""

    def __init__(self, shards: Sequence[str]) -> None:
        self._shards = shards
        self._began = time.monotonic()
        self._last = ""

    def note(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:5.1f} s  {text}", flush=True)

    def show(self, sight: Sight, states: Mapping[str, str]) -> None:
        shares = ", ".join(f"{name} {sight.shares[name]}" for name in states)
        seen = f"{len(sight.streams)} of {len(self._shards)} shards stream: {shares}"
        if sight.trouble:
            seen += f" (the store was not read: {sight.trouble})"
        if seen != self._last:
            self._last = seen
            self.note(f"{seen}; {sight.delivered} events so far")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


class LiveScreen:
    """For a terminal: supervisors, a grid of shards in the colour of their owner, and the last notes."""

    def __init__(self, shards: Sequence[str], console: Console) -> None:
        self._shards = shards
        self._began = time.monotonic()
        self._notes: list[str] = []
        # It redraws only when it is told to: a refreshing thread would be there while processes are forked.
        self._live = Live(console=console, auto_refresh=False)

    def note(self, text: str) -> None:
        self._notes.append(f"{time.monotonic() - self._began:5.1f} s  {text}")

    def show(self, sight: Sight, states: Mapping[str, str]) -> None:
        notes = Text("\n".join(self._notes[-NOTES_SHOWN:]), style="dim")
        parts: list[RenderableType] = [_supervisors(sight, states), _grid(self._shards, sight), notes]
        if sight.trouble:
            parts.append(Text(f"the store was not read: {sight.trouble}", style="red"))
        self._live.update(Group(*parts), refresh=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()


def _supervisors(sight: Sight, states: Mapping[str, str]) -> Table:
    owned = [owner for owner, _ in sight.owners.values()]
    table = Table("supervisor", "state", "leases", "streaming", title=f"{sight.delivered} events", title_justify="left")
    for name, state in states.items():
        table.add_row(Text(name, style=COLOURS[name]), state, str(owned.count(name)), str(sight.shares[name]))
    return table


def _grid(shards: Sequence[str], sight: Sight) -> Columns:
    """Bold: it streams; dim: it is owned and does not stream yet; a dash: nobody owns it."""
    cells: list[Text] = []
    for shard in shards:
        owner, epoch = sight.owners.get(shard, ("-", 0))
        shown = sight.streams.get(shard, owner)
        weight = "bold" if shard in sight.streams else "dim"
        cells.append(
            Text(f"{shard} {shown} {epoch or ''}".rstrip(), style=f"{weight} {COLOURS.get(shown, '')}".strip())
        )
    return Columns(cells, equal=True, padding=(0, 2))


def summary(promises: Sequence[Promise], console: Console) -> None:
    """The closing summary: every promise, whether it was kept, and the figure that says so."""
    console.print()
    for promise in promises:
        word, colour = ("kept  ", "green") if promise.kept else ("BROKEN", "bold red")
        line = Text.assemble((word, colour), f"  {promise.text}: ", (promise.figure, "bold"))
        console.print(line, soft_wrap=True)
    broken = sum(not promise.kept for promise in promises)
    verdict = "everything is as promised" if not broken else f"{broken} of {len(promises)} promises were broken"
    console.print(f"\n{verdict}", highlight=False)
