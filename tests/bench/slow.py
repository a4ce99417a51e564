"""What a feed does to a child that is far faster than its consumer.

    python -m tests.bench.slow [--seconds N] [--json FILE]

A local feed offers 50,000 messages of 100 bytes in a second for a while. A real child hands them to a sink that takes
1,000 in a second; to a handler that does, in front of a file; and to that sink with `overflow = drop_oldest`. Goal: the
child's memory grows by less than 20 MiB, and all that was offered is accounted for: delivered, still at the server, or
dropped where that is allowed and then counted. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.figures import Figure, asked, in_folders, report
from tests.flood import flood

GROWN_MAX_MIB = 20.0


def behind(consumer: str, overflow: str, seconds: int, folder: Path) -> Iterator[Figure]:
    name = f"a slow {consumer}" + (", drop_oldest" if overflow == "drop_oldest" else "")
    found = flood(folder, consumer, seconds, overflow=overflow)
    lost = found.offered - found.delivered - found.waiting_at_server - found.dropped
    parts = f"{found.delivered} delivered + {found.waiting_at_server} at the server + {found.dropped} dropped"
    yield Figure(f"{name}: growth of the child", found.grown_mib, "MiB", GROWN_MAX_MIB, f"in {seconds} s")
    yield Figure(f"{name}: lost", abs(lost), "", 0, f"{found.offered} offered = {parts}")
    yield Figure(f"{name}: out of order", 0 if found.in_order else 1, "", 0)


if __name__ == "__main__":
    options = asked("slow", seconds=20)
    consumers = (("sink", "wait"), ("handler", "wait"), ("sink", "drop_oldest"))
    parts = ((consumer, partial(behind, consumer, overflow, options.seconds)) for consumer, overflow in consumers)
    sys.exit(report(in_folders(parts), options.json))
