"""Runs the command that follows, `PYTHON -P -m MODULE ARGUMENT...`, in this process, whose loop a SIGUSR1 then blocks:
Python runs a handler of signals in the main thread, between two instructions of whatever runs there."""

from __future__ import annotations

import runpy
import signal
import sys
import threading

BLOCKED_S = 2.0


def main() -> None:
    module = sys.argv[sys.argv.index("-m") + 1]
    sys.argv = [module, *sys.argv[sys.argv.index("-m") + 2 :]]
    signal.signal(signal.SIGUSR1, lambda *_: threading.Event().wait(BLOCKED_S))
    runpy.run_module(module, run_name="__main__")


if __name__ == "__main__":
    main()
