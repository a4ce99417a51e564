"""All tests, as the README and the automation run them: `python -m tests [pytest's arguments]`.

First the engines are installed. Then most tests run side by side, each file in one process; those marked `alone`
judge times of real processes and run afterwards, when nothing else does. The exit code is the first that is not 0.
"""

from __future__ import annotations

import subprocess
import sys

from tests import engines

SIDE_BY_SIDE = ["-n", "3", "--dist", "loadfile", "-m", "not alone"]
ALONE = ["-m", "alone"]
NOTHING_SELECTED = 5  # of pytest's exit codes


def main(arguments: list[str]) -> int:
    engines.install()
    for part in (SIDE_BY_SIDE, ALONE):
        code = subprocess.run([sys.executable, "-m", "pytest", "-q", *part, *arguments], check=False).returncode
        if code and not (code == NOTHING_SELECTED and arguments):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
