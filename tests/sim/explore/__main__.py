"""Explore every schedule of small fleets: python -m tests.sim.explore. Exit code 1: a bad world was found.

    python -m tests.sim.explore                 all scopes, about two minutes on two cores
    python -m tests.sim.explore --short         a few seconds
    python -m tests.sim.explore --deeper 4      four moves more in each scope, for as long as that takes

A line for each scope: how many different worlds were found, how many moves were taken, and how deep it went: to the end
of all that can happen with so many faults, or so far.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import click

from tests.sim.explore.search import SCOPES, SHORT, outcome


@click.command()
@click.option("--short", is_flag=True, help="The few scopes that the tests run.")
@click.option("--deeper", default=0, help="Moves more than usual.")
def main(short: bool, deeper: int) -> None:
    """Explore every scope; exit 1 if a bad world was found."""
    scopes = [replace(scope, moves_max=scope.moves_max + deeper) for scope in (SHORT if short else SCOPES)]
    states = 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for found, line in pool.map(outcome, scopes):
            click.echo(line)
            states += found.states
            if found.bad:
                pool.shutdown(wait=False, cancel_futures=True)
                sys.exit(1)
    click.echo(f"{states} states, 0 bad: in none can two children deliver, none is stuck, and no epoch comes back")


if __name__ == "__main__":
    main()
