"""What became of a request to a network sink, and how long to wait before the next one. Pure.

What holds:

- only `Safe` lets events go; all else keeps them, for as long as it takes;
- what may pass by itself (no answer, throttling, a server's error) is tried again after an exponential wait with full
  jitter, at most `PAUSE_MAX_S` long; what somebody has to mend (a permission, a missing queue, a wrong path) every
  `REFUSED_PAUSE_S`, so that it heals by itself but hammers nobody;
- what the far end asks for (Retry-After) is a floor, up to `FLOOR_MAX_S`.

Reasons are one short phrase: a status or code, and of an address host and port alone. No header, no body.
"""

from __future__ import annotations

from dataclasses import dataclass

PAUSE_MIN_S = 0.25
PAUSE_MAX_S = 30.0
REFUSED_PAUSE_S = 60.0
FLOOR_MAX_S = 600.0  # a wrong date must not silence a sink for years
_DOUBLINGS_MAX = 16


@dataclass(frozen=True, slots=True)
class Safe:
    """The far end has taken all of it."""


@dataclass(frozen=True, slots=True)
class Again:
    """It may or may not have arrived; the same may pass later. `floor_s`: what the far end asked us to wait."""

    reason: str
    floor_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Partly:
    """The events at these places are to be sent again, in this order; the others are safe."""

    places: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was taken, and the same will not pass until somebody mends something."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unfit:
    """Refused for what is in it, or for its size: a smaller request may pass."""

    reason: str
    too_large: bool = False


Outcome = Safe | Again | Partly | Refused | Unfit


def pause_s(outcome: Again | Partly | Refused | Unfit, failures: int, chance: float) -> float:
    """`failures` in a row, this one included; `chance` from 0 to below 1."""
    if isinstance(outcome, Refused | Unfit):
        return REFUSED_PAUSE_S * (1 + chance / 10)
    wait_s = min(PAUSE_MIN_S * 2.0 ** min(failures - 1, _DOUBLINGS_MAX), PAUSE_MAX_S) * chance
    return max(wait_s, min(outcome.floor_s, FLOOR_MAX_S)) if isinstance(outcome, Again) else wait_s
