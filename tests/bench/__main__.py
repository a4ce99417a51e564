"""All benchmarks in turn: python -m tests.bench [--record | --json FILE] [PART ...]

Each part is a program of its own, `python -m tests.bench.PART`, and prints its figures as it finds them. With `--json`
the figures of those that ran replace theirs in FILE, beside the machine, the day and the time they took. `--record`
does that in docs/figures.json, and makes the tables and the picture in docs/ anew. The exit code is 1 if a part misses
one of its goals.
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

from tests.bench import parts, plot, tables


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(parts.NAMES)}; all by default")
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument("--json", type=Path, metavar="FILE", help="keep the figures there")
    kept.add_argument("--record", action="store_true", help="keep the figures in docs/, and show them there")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(parts.NAMES):
        parser.error(f"unknown part {', '.join(sorted(unknown))}, expected some of {', '.join(parts.NAMES)}")
    names = options.parts or parts.NAMES
    print(tables.estimate(tables.read(tables.RECORD), names), flush=True)
    failed = []
    for name in names:
        if not _measured(name, tables.RECORD if options.record else options.json):
            failed.append(name)
        if options.record:  # now, so that a run that is broken off leaves no page behind its record
            tables.render()
            plot.draw()
    print(f"\n{'missed in: ' + ', '.join(failed) if failed else 'every goal was met'}")
    return 1 if failed else 0


def _measured(part: str, kept: Path | None) -> bool:
    print(f"\n== python -m tests.bench.{part}", flush=True)
    began_s = time.monotonic()
    with tempfile.NamedTemporaryFile(suffix=".json") as found:
        ended = subprocess.run([sys.executable, "-m", f"tests.bench.{part}", "--json", found.name], check=False)
        text = Path(found.name).read_text()
    took_s = time.monotonic() - began_s
    print(f"took {took_s:.0f} s")
    if text and kept:  # a part that broke off leaves its last figures standing
        tables.keep(kept, part, json.loads(text), took_s)
    return ended.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
