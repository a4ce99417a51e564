"""All tests, as the README and the automation run them: `python -m tests [pytest's arguments]`.

First the engines are installed. Then most tests run side by side, each file in one process; those marked `alone`
judge times of real processes and run afterwards, when nothing else does. The exit code is the first that is not 0.

On a machine with few and busy cores a test may fail beside others only because its processes got no time. So a few that
fail beside others are judged once more, alone, and named; more than a few are a failure at once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests import engines

SIDE_BY_SIDE = ["-n", "3", "--dist", "loadfile", "-m", "not alone", "--cache-clear"]
ALONE = ["-m", "alone"]
AGAIN = ["--last-failed", "-m", "not alone"]
AGAIN_MAX = 3
FAILED, NOTHING_SELECTED = 1, 5  # of pytest's exit codes


def main(arguments: list[str]) -> int:
    engines.install()
    for part in (SIDE_BY_SIDE, ALONE):
        code = _pytest(part, arguments)
        if code == FAILED and part is SIDE_BY_SIDE and not arguments and len(failed := _failed()) <= AGAIN_MAX:
            print("once more, alone:", *failed, sep="\n    ", flush=True)
            code = _pytest(AGAIN, arguments)
        if code and not (code == NOTHING_SELECTED and arguments):
            return code
    return 0


def _pytest(part: list[str], arguments: list[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *part, *arguments], check=False).returncode


def _failed() -> list[str]:
    """As pytest has noted it for `--last-failed`."""
    return list(json.loads(Path(".pytest_cache/v/cache/lastfailed").read_text()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
