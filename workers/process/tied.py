"""The first thing that a process of ours does: tie its life to its parent's. Only then it imports what it is about.

    python -P -m workers.process.tied PARENT_PID NAME ARGUMENTS...        runs `main` of the module `workers.NAME`

The imports take longer than all else at a start, and a process that is stopped or hangs in them would outlive its
parent, with the lock in its hands. What is left is the start of the interpreter itself.
"""

from __future__ import annotations

import importlib
import os
import sys

from workers.process.kernel import die_with_parent

ORPHANED = 1


def main() -> int:
    parent, name = int(sys.argv[1]), sys.argv[2]
    die_with_parent()
    if os.getppid() != parent:  # it died before the line above could notice
        return ORPHANED
    del sys.argv[1:3]
    status: int = importlib.import_module(f"workers.{name}").main()
    return status


if __name__ == "__main__":
    sys.exit(main())
