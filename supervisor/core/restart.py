"""When a crashed child may start again: exponential backoff with full jitter, and a bound on starts per window.

Full jitter is the rule of the "Exponential Backoff And Jitter" article of the AWS Architecture Blog: a uniform
choice between nothing and a ceiling that doubles. It gives no lower bound, so a second rule caps the number of
crashes in a window; together they make a hot restart loop impossible whatever the dice say. There is no terminal
state: a shard that crashes for ever is tried for ever, at the ceiling's pace.
"""

from __future__ import annotations

from supervisor.core.model import SECOND

BASE_NS = SECOND
CEILING_NS = 60 * SECOND
CRASHES_MAX = 15  # in one window


def remember(crashes: tuple[int, ...], now_ns: int, window_ns: int) -> tuple[int, ...]:
    """The crashes of the last window, this one included, oldest first; at most `CRASHES_MAX`."""
    recent = [crash for crash in crashes if now_ns - crash < window_ns]
    return (*recent, now_ns)[-CRASHES_MAX:]


def start_at(crashes: tuple[int, ...], window_ns: int, fraction: float) -> int:
    """The instant from which the child may start again. `crashes` is what `remember` gave, `fraction` is in [0, 1)."""
    ceiling_ns = min(CEILING_NS, BASE_NS << min(len(crashes) - 1, 30))
    backoff_ns = crashes[-1] + int(ceiling_ns * fraction)
    if len(crashes) < CRASHES_MAX:
        return backoff_ns
    return max(backoff_ns, crashes[0] + window_ns)
