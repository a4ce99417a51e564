"""`python -m tests.systemd`: the service in a real systemd, every scenario with its figure. Exit 0: all held, 1: one
did not, and the journal is shown. `--can` only tries whether a container can be made and started here: exit 0, or 1
and why not.

It wants root, debootstrap and systemd-nspawn, and a network the first time; a minute or two, the first time three.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from tests.systemd.image import prepare
from tests.systemd.machine import Machine, obstacle
from tests.systemd.scenarios import SCENARIOS, Scenario
from tests.systemd.service import Service, seconds_since
from workers.process.kernel import boottime_ns


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.systemd", description="The service in a real systemd.")
    parser.add_argument("--can", action="store_true", help="only say whether it can run here")
    options = parser.parse_args()
    why_not = obstacle() or (_trouble() if options.can else "")
    if why_not or options.can:
        print(why_not or "a real systemd can be started here")
        return 1 if why_not else 0
    start_ns = boottime_ns()
    image = prepare()
    with Machine(image) as machine:
        service = Service(machine, image.wheels)
        held = all(_holds(scenario, service) for scenario in SCENARIOS)
        if not held:
            print(machine.attempt("journalctl --no-pager -o short-monotonic | tail -n 80").stdout)
    print(f"{'all held' if held else 'one did not hold'}, {seconds_since(start_ns):.0f} s")
    return 0 if held else 1


def _trouble() -> str:
    """What keeps a container from being made and started here."""
    try:
        with Machine(prepare()):
            return ""
    except (OSError, RuntimeError, AssertionError, subprocess.CalledProcessError) as error:
        return f"a container cannot be made or started here: {error}"


def _holds(scenario: Scenario, service: Service) -> bool:
    what = " ".join((scenario.__doc__ or "").split())
    try:
        figure = scenario(service)
    except AssertionError as error:
        print(f"FAILED  {what}\n        {error}", flush=True)
        return False
    print(f"held    {what}: {figure}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
