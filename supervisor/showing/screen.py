"""What a terminal, or a pipe, is given to show: cells, and tables that fit.

Names come from rows that anybody with access to the store may have written, so that what cannot be printed or moves
the cursor is made visible before a terminal sees it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from workers.texts import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment
    from rich.text import Text

PLAIN_WIDTH = 200
_CELL_MAX = 400  # longer than any name that we make
_GAP = 2
_RIGHT = ("EPOCH", "SINCE", "OPEN", "QUIET", "RENEWED", "SHARDS", "CAPACITY")
_FOLDED = ("SUPERVISOR", "TASK", "SHARD", "OWNER", "NOTE")  # where nothing else helps
_FOLDED_MIN_WIDTH = 12
_WORDS = ("WHICH", "WHAT")  # between words, so that it costs little
_WORDS_MIN_WIDTH = 24

Row = dict[str, "Text"]


def console_for(stream: TextIO) -> Console:
    """Where nobody sees colours and widths, the same tables are wide and plain."""
    from rich.console import Console

    return Console(file=stream, highlight=False, width=None if stream.isatty() else PLAIN_WIDTH)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of at least one row, all with the same columns. Empty columns are left out, and so are those of
    `dropped`, one after the other, until the rest fits. No line ends with blanks."""

    rows: Sequence[Row]
    dropped: Sequence[str] = ()

    def columns(self, width: int) -> list[str]:
        """Those that are shown on a screen of this width."""
        names = [name for name in self.rows[0] if any(row[name] for row in self.rows)]
        widths = {name: self._width(name) for name in names}
        for name in self.dropped:
            if _total(widths) <= width:
                break
            widths.pop(name, None)
        return list(widths)

    def fits(self, width: int) -> bool:
        return _total({name: self._width(name) for name in self.columns(width)}) <= width

    def _width(self, name: str) -> int:
        width = max(len(name), *(row[name].cell_len for row in self.rows))
        return min(width, _WORDS_MIN_WIDTH) if name in _WORDS else width

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        from rich.segment import Segment
        from rich.table import Table

        columns = self.columns(options.max_width)
        narrower = _WORDS if self.fits(options.max_width) else (*_WORDS, *_FOLDED)
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in columns:
            table.add_column(
                name,
                justify="right" if name in _RIGHT else "left",
                no_wrap=name not in narrower,
                overflow="fold",
                min_width=min(_FOLDED_MIN_WIDTH, self._width(name)) if name in narrower else None,
            )
        for row in self.rows:
            table.add_row(*(row[name] for name in columns))
        for line in console.render_lines(table, options, pad=False):
            while line and not line[-1].text.rstrip():
                line.pop()
            yield from line[:-1]
            yield from (Segment(last.text.rstrip(), last.style) for last in line[-1:])
            yield Segment.line()


def _total(widths: dict[str, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def cell(text: object, style: str = "") -> Text:
    from rich.text import Text

    shown = str(text)
    return Text(printable(shown if len(shown) <= _CELL_MAX else f"{shown[:_CELL_MAX]}..."), style)
