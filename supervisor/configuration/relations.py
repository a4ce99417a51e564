"""Which durations fit together, and what follows from one that was left out. Pure: milliseconds in, sentences out.

What holds for settings without a sentence: an attempt to renew ends before the next one is due; two renewals in a
row may be lost and the third still comes in time; and from the sending of a renewal to the death of the child
there is always room for one more interval, one attempt and the margin.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from supervisor.configuration.values import duration_text as text

MARGIN_MIN_MS = 250
CALL_TIMEOUT_DEFAULT_MS = 2000


@dataclass(frozen=True, slots=True)
class Broken:
    """A relation that does not hold; `keys` are those that could mend it, the likeliest first."""

    keys: tuple[str, ...]
    sentence: str


def renew_interval_ms(lease_duration_ms: int) -> int:
    return lease_duration_ms // 3


def call_timeout_ms(renew_interval_ms: int) -> int:
    return min(CALL_TIMEOUT_DEFAULT_MS, renew_interval_ms // 2)


def margin_ms(lease_duration_ms: int) -> int:
    """Also the least that may be set: less would void the promise about clocks whose rates differ by 5 % each."""
    return max(MARGIN_MIN_MS, -(-lease_duration_ms // 10))


def broken_in_supervisor(ms: Mapping[str, int | None], derived: Collection[str] = ()) -> list[Broken]:
    """`ms`: every duration of `[supervisor]` by its key; `derived` are those that nobody wrote down. None is one that
    was wrong by itself: what holds whatever it should have been is checked all the same, and a value that was found to
    be wrong here counts as mended below, so that no mistake hides another, or is told twice."""
    lease, renew, call = ms["lease_duration"], ms["renew_interval"], ms["call_timeout"]
    margin, poll = ms["margin"], ms["poll_interval"]
    found: list[Broken] = []
    if lease and renew and 3 * renew > lease:
        sentence = f"renew_interval {text(renew)} must fit three times into lease_duration {text(lease)}"
        renew = renew_interval_ms(lease)
        call = call_timeout_ms(renew) if "call_timeout" in derived else call
        found.append(_broken(sentence, renew, "renew_interval", "lease_duration"))
    if call and renew and call >= renew:
        sentence = f"call_timeout {text(call)} must be below renew_interval {text(renew)}"
        call = call_timeout_ms(renew)
        found.append(_broken(sentence, call, "call_timeout", "renew_interval"))
    elif call and not renew and lease and call >= renew_interval_ms(lease):
        sentence = f"call_timeout {text(call)} must be below renew_interval, a third of lease_duration at most"
        call = call_timeout_ms(renew_interval_ms(lease))
        found.append(_broken(sentence, call, "call_timeout", "lease_duration"))
    if lease and margin and margin < margin_ms(lease):
        sentence = f"margin {text(margin)} must be at least 250ms and a tenth of lease_duration {text(lease)}"
        margin = margin_ms(lease)
        found.append(_broken(sentence, margin, "margin", "lease_duration"))
    if lease and poll and poll > lease:
        sentence = f"poll_interval {text(poll)} must not exceed lease_duration {text(lease)}"
        found.append(_broken(sentence, min(1000, lease), "poll_interval", "lease_duration"))
    parts = {"margin": margin, "renew_interval": renew, "call_timeout": call}
    known = {name: value for name, value in parts.items() if value}
    if lease and margin and sum(known.values()) >= lease:
        *first, last = (f"{name} {text(value)}" for name, value in known.items())
        terms = f"{', '.join(first)} and {last} together" if first else last
        sentence = f"{terms} must be below lease_duration {text(lease)}"
        found.append(_broken(sentence, margin_ms(lease), "margin", "lease_duration", "renew_interval", "call_timeout"))
    return found


def broken_in_stream(ms: Mapping[str, int | None]) -> list[Broken]:
    """`ms`: every duration of a `[stream:NAME]` by its key."""
    found: list[Broken] = []
    low, high = ms["reconnect_min"], ms["reconnect_max"]
    if low and high and low > high:
        sentence = f"reconnect_min {text(low)} must not exceed reconnect_max {text(high)}"
        found.append(_broken(sentence, high, "reconnect_min", "reconnect_max"))
    age, idle = ms["max_age"], ms["idle_timeout"]
    if age and idle and age < 2 * idle:  # it is spared up to a tenth of its age, and silence counts from its opening
        sentence = f"max_age {text(age)} must be twice idle_timeout {text(idle)} or more, or no silence is ever noticed"
        found.append(_broken(sentence, 2 * idle, "max_age", "idle_timeout"))
    return found


def _broken(sentence: str, works_ms: int, *keys: str) -> Broken:
    return Broken(keys, f"{sentence}; {keys[0]} = {text(works_ms)} works")
