"""What a large fleet goes through: a cold start, minutes in which nothing happens, the loss of hosts, a rolling deploy.

Each run lets a `Fleet` live through one of them and says how long it took and which calls that made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from supervisor.configuration import relations
from supervisor.core.model import MS, SECOND, Rules
from tests.sim import parts
from tests.sim.scale import Fleet

BOOT_S = 2.0  # within which all hosts of a cold start, or of one wave of a deploy, come up
JOIN_S = 10.0  # between two waves of a deploy


@dataclass(frozen=True, slots=True)
class Size:
    supervisors: int
    shards: int
    lease_s: int = 10

    def rules(self) -> Rules:
        """With the defaults of the configuration, and room for everything everywhere."""
        lease_ms = self.lease_s * 1000
        renew_ms = relations.renew_interval_ms(lease_ms)
        return parts.rules(
            self.shards,
            capacity=self.shards,
            duration_ns=lease_ms * MS,
            renew_every_ns=renew_ms * MS,
            attempt_ns=relations.call_timeout_ms(renew_ms) * MS,
            margin_ns=relations.margin_ms(lease_ms) * MS,
        )


@dataclass(frozen=True, slots=True)
class Passed:
    """How long it took, the calls that were made meanwhile, children that were started, and for how long each of their
    shards had none before."""

    seconds: float
    calls: Counter[str]
    starts: int
    gaps_s: list[float]

    @property
    def refused_share(self) -> float:
        """Of the claims, those that somebody else was faster with; in percent."""
        return 100 * self.calls["claims refused"] / max(1, self.calls["claims"])


def _passed(fleet: Fleet, run: Callable[[], object]) -> Passed:
    calls, starts, begun_ns, fleet.gaps_s = fleet.counts.copy(), fleet.starts.total(), fleet.now_ns, []
    run()
    seconds = (fleet.now_ns - begun_ns) / SECOND
    return Passed(seconds, fleet.counts - calls, fleet.starts.total() - starts, fleet.gaps_s)


def cold_start(size: Size, seed: int = 1) -> tuple[Fleet, Passed]:
    """All hosts within two seconds, on an empty table."""
    fleet = Fleet(seed, size.rules())
    _boot(fleet, size.supervisors)

    def run() -> None:
        assert fleet.run(300, fleet.all_owned), f"{len(fleet.owners)} of {size.shards} are owned after 300 s"

    return fleet, _passed(fleet, run)


def _boot(fleet: Fleet, number: int) -> None:
    for _ in range(number):
        fleet.at(fleet.now_ns + int(BOOT_S * SECOND * fleet.rng.random()), fleet.add)


def calm(fleet: Fleet, seconds: float) -> Passed:
    return _passed(fleet, lambda: fleet.run(seconds))


def lose(fleet: Fleet, number: int) -> Passed:
    """So many hosts disappear in one instant; until all shards are owned again."""

    def run() -> None:
        for host in fleet.running[:number]:
            fleet.kill(host)
        assert fleet.run(300, fleet.all_owned), f"{len(fleet.owners)} are owned 300 s after the loss"

    return _passed(fleet, run)


def deploy(fleet: Fleet, at_once: int) -> Passed:
    """Each host is stopped and replaced by a new one, so many at a time, until the last new one has its share."""

    def run() -> None:
        old = fleet.running
        for first in range(0, len(old), at_once):
            wave = old[first : first + at_once]
            for host in wave:
                fleet.stop(host)
            assert fleet.run(120, lambda wave=wave: not any(host.up for host in wave)), "a host does not stop"
            _boot(fleet, len(wave))
            fleet.run(BOOT_S + JOIN_S)
        assert fleet.run(1800, lambda: fleet.all_owned() and _is_even(fleet)), "the loads do not become even"

    return _passed(fleet, run)


def _is_even(fleet: Fleet) -> bool:
    loads = [len(host.children) for host in fleet.running]
    return max(loads) - min(loads) < 2
