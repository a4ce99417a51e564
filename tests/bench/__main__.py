"""All benchmarks, one after the other: python -m tests.bench. The exit code is 1 if one of them misses a goal."""

from __future__ import annotations

import subprocess
import sys

PARTS = ("fleet", "sharing", "kills", "outage", "children", "memory", "receive")


def main() -> int:
    failed = []
    for part in PARTS:
        print(f"\n== python -m tests.bench.{part}", flush=True)
        if subprocess.run([sys.executable, "-m", f"tests.bench.{part}"], check=False).returncode:
            failed.append(part)
    print(f"\n{'missed in: ' + ', '.join(failed) if failed else 'every goal was met'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
