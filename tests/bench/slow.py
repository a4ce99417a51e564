"""What a feed does to a child that is far faster than its consumer: python -m tests.bench.slow [--seconds N]

A local feed offers 50,000 messages of 100 bytes in a second for a minute. A real child hands them to a sink that takes
1,000 in a second; to a handler that does, in front of a file; and to that sink with `overflow = drop_oldest`. Goal: the
child's memory grows by less than 20 MiB, and all that was offered is accounted for: delivered, still at the server, or
dropped where that is allowed and then counted. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.arguments import whole
from tests.bench.figures import HEAD, Figure, line
from tests.flood import RATE_PER_S, SLOW_PER_S, flood

GROWN_MAX_MIB = 20.0


def figures(folder: Path, consumer: str, seconds: float, overflow: str) -> Iterator[Figure]:
    name = f"a slow {consumer}" + (", drop_oldest" if overflow == "drop_oldest" else "")
    found = flood(folder, consumer, seconds, overflow=overflow)
    lost = found.offered - found.delivered - found.waiting_at_server - found.dropped
    parts = f"{found.delivered} delivered + {found.waiting_at_server} at the server + {found.dropped} dropped"
    yield Figure(f"growth of the child behind {name}", found.grown_mib, "MiB", GROWN_MAX_MIB, f"in {seconds:g} s")
    yield Figure(f"lost behind {name}", abs(lost), "", 0, f"{found.offered} offered = {parts}")
    yield Figure(f"out of order behind {name}", 0 if found.in_order else 1, "", 0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.slow")
    parser.add_argument("--seconds", type=whole, default=60)
    seconds = parser.parse_args().seconds
    print(f"{RATE_PER_S} messages in a second for {seconds} s, of which {SLOW_PER_S} can be borne\n{HEAD}", flush=True)
    met = True
    for consumer, overflow in (("sink", "wait"), ("handler", "wait"), ("sink", "drop_oldest")):
        with tempfile.TemporaryDirectory(prefix="bench-slow-") as folder:
            for figure in figures(Path(folder), consumer, seconds, overflow):
                print(line(figure), flush=True)
                met = met and figure.met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
