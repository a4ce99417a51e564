"""All benchmarks in turn: python -m tests.bench [--json FILE] [PART ...]

Each part is a program of its own, `python -m tests.bench.PART`, and prints its figures as it finds them. Those of the
parts that ran replace theirs in FILE (docs/figures.json by default), beside the machine and the day they were measured
on, and the tables and the picture in docs/ are made anew. The exit code is 1 if a part misses one of its goals.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests import engines
from tests.bench import plot, tables

PARTS = (
    *("kills", "failover", "sharing", "outage", "wishes", "renewals", "idle", "status", "fleet", "children", "memory"),
    *("receive", "many", "large", "slow", "page", "metrics", "growth", "scale"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all by default")
    parser.add_argument("--json", type=Path, default=tables.RECORD, metavar="FILE", help="where the figures are kept")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}, expected some of {', '.join(PARTS)}")
    engines.install()
    failed = [part for part in options.parts or PARTS if not _measured(part, options.json)]
    tables.render(options.json)
    plot.draw(options.json)
    print(f"\n{'missed in: ' + ', '.join(failed) if failed else 'every goal was met'}")
    return 1 if failed else 0


def _measured(part: str, record: Path) -> bool:
    print(f"\n== python -m tests.bench.{part}", flush=True)
    began_s = time.monotonic()
    with tempfile.NamedTemporaryFile(suffix=".json") as found:
        ended = subprocess.run([sys.executable, "-m", f"tests.bench.{part}", "--json", found.name], check=False)
        text = Path(found.name).read_text()
    print(f"took {time.monotonic() - began_s:.0f} s")
    if text:  # a part that broke off leaves its last figures standing
        tables.keep(record, part, json.loads(text))
    return ended.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
