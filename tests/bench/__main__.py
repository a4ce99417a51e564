"""All benchmarks in turn: python -m tests.bench [PART ...]. The exit code is 1 if one of them misses a goal."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence

from tests import engines

PARTS = (
    *("fleet", "sharing", "kills", "outage", "wishes", "status", "children", "memory"),
    *("receive", "many", "large", "slow", "page", "metrics"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all by default")
    parts = parser.parse_args(arguments).parts
    if unknown := set(parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}, expected some of {', '.join(PARTS)}")
    engines.install()
    failed = []
    for part in parts or PARTS:
        print(f"\n== python -m tests.bench.{part}", flush=True)
        if subprocess.run([sys.executable, "-m", f"tests.bench.{part}"], check=False).returncode:
            failed.append(part)
    print(f"\n{'missed in: ' + ', '.join(failed) if failed else 'every goal was met'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
