"""Which faults strike whom, when and for how long: drawn from a seed before anything runs, and the same ever after.

What holds: exactly `count` faults, at instants spread at random over the rounds' first part; every round ends in a calm
in which no fault begins, so that the time to recover can be seen. Kinds are dealt from a shuffled deck, so that each is
struck about as often as its weight says also in a short campaign. Half of the durations lie well below the lease
duration and half above. Not promised: that each fault can be struck; a supervisor may be down at that moment.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ROUND_S = 30.0
CALM = 0.25  # of each round
RESTART_MAX_S = 3.0
DOWN = ("kill", "stop")  # `lasts_s` of these is how long the supervisor stays down

# The weight of each kind: how many cards it has in the deck.
PROCESSES = {
    "kill": 5,
    "stop": 3,
    "freeze": 5,
    "freeze-host": 2,
    "freeze-server": 2,
    "freeze-child": 3,
    "kill-server": 2,
    "kill-child": 3,
}
ROWS = {"seize": 2, "usurp": 1, "delete": 1, "garble": 2}
NETWORK = {
    "hang": 2,
    "refuse": 2,
    "eat-answers": 2,
    "swallow-answers": 1,
    "close": 1,
    "delay-answers": 2,
    "delay-requests": 2,
    "duplicate": 1,
    "server-error": 1,
    "throttle": 2,
    "deny": 1,
    "nonsense": 1,
    "empty-answers": 1,
    "cut-answers": 1,
    "trickle": 1,
}
LOCKS = {"lock-all": 3, "lock-writers": 2, "lock-by-reader": 2}
DECKS = {"sqlite": PROCESSES | ROWS | LOCKS, "ministack": PROCESSES | ROWS | NETWORK}


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault. `supervisor` and `shard` are indices, of which a kind uses what it needs; `chance`, in [0, 1), decides
    what the kind leaves open."""

    number: int
    at_s: float
    kind: str
    lasts_s: float
    supervisor: int
    shard: int
    chance: float

    def __str__(self) -> str:
        return (
            f"{self.number:>4} {self.at_s:>8.2f} s  {self.kind:<16} for {self.lasts_s:4.2f} s  "
            f"supervisor {self.supervisor}, shard {self.shard}, chance {self.chance:.2f}"
        )


def plan(
    seed: int, deck: dict[str, int], count: int, seconds: float, supervisors: int, shards: int, lease_s: float
) -> tuple[Planned, ...]:
    """`count` faults within `seconds`, in the order of their beginnings."""
    dice = random.Random(seed)
    kinds = _dealt(dice, deck)
    instants = sorted(dice.uniform(0, _busy_s(seconds)) for _ in range(count))
    return tuple(
        Planned(
            number=number,
            at_s=_at_s(busy_s),
            kind=(kind := next(kinds)),
            lasts_s=_lasts_s(dice, kind, lease_s),
            supervisor=dice.randrange(supervisors),
            shard=dice.randrange(shards),
            chance=dice.random(),
        )
        for number, busy_s in enumerate(instants, 1)
    )


def _dealt(dice: random.Random, deck: dict[str, int]) -> Iterator[str]:
    """One card of each kind first, so that a short campaign has them all; then whole decks."""
    yield from _shuffled(dice, list(deck))
    while True:
        yield from _shuffled(dice, [kind for kind, weight in deck.items() for _ in range(weight)])


def _shuffled(dice: random.Random, kinds: list[str]) -> Sequence[str]:
    return dice.sample(kinds, len(kinds))


def _busy_s(seconds: float) -> float:
    """How much of `seconds` is no calm."""
    rounds, rest_s = divmod(seconds, ROUND_S)
    busy_s = ROUND_S * (1 - CALM)
    return rounds * busy_s + min(rest_s, busy_s)


def _at_s(busy_s: float) -> float:
    """The instant at which so many seconds that were no calm have passed."""
    rounds, rest_s = divmod(busy_s, ROUND_S * (1 - CALM))
    return rounds * ROUND_S + rest_s


def _lasts_s(dice: random.Random, kind: str, lease_s: float) -> float:
    if kind in DOWN:
        return dice.choice((0.0, dice.uniform(0, RESTART_MAX_S)))
    below, above = dice.uniform(0.1, 0.8), dice.uniform(1.1, 2.0)
    return lease_s * dice.choice((below, above))
