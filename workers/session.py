"""When a connection pings, is given up, and is tried again: policy as values, without clock and I/O.

What holds:

- a silent peer is found dead within ping interval + ping timeout; any byte counts as life, not only a pong;
- a frame that has begun is complete within the frame timeout, however its bytes trickle;
- attempts back off exponentially with full jitter up to a cap, and only a connection that stayed open for
  `stable_after` starts over. Jitter can be short many times in a row, so a floor holds besides: at most
  `ATTEMPTS_MAX` attempts in any `reconnect_max`;
- a refusal that no retry can mend (401, a certificate, a redirect ...) is retried at `reconnect_max`: slowly, but
  for ever, since the other end may be mended;
- `Retry-After` is a floor on top of all that.

Times are CLOCK_BOOTTIME nanoseconds and passed in, 0 = never; so is the chance that a wait depends on, 0 to below 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.spec import StreamSpec

CLOSE_TIMEOUT_NS = 1_000_000_000  # how long the peer may take to answer a close frame
ATTEMPTS_MAX = 10
RETRY_AFTER_MAX_S = 3600.0  # a wrong date must not silence a connection for years
_DOUBLINGS_MAX = 60
_TRANSIENT_4XX = (408, 425, 429)
_MS = 1_000_000
_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Policy:
    """The durations of a stream."""

    connect_timeout_ns: int
    ping_interval_ns: int
    ping_timeout_ns: int
    frame_timeout_ns: int
    stable_after_ns: int
    reconnect_min_ns: int
    reconnect_max_ns: int


def policy_of(spec: StreamSpec) -> Policy:
    return Policy(
        connect_timeout_ns=spec.connect_timeout_ms * _MS,
        ping_interval_ns=spec.ping_interval_ms * _MS,
        ping_timeout_ns=spec.ping_timeout_ms * _MS,
        frame_timeout_ns=spec.frame_timeout_ms * _MS,
        stable_after_ns=spec.stable_after_ms * _MS,
        reconnect_min_ns=spec.reconnect_min_ms * _MS,
        reconnect_max_ns=spec.reconnect_max_ms * _MS,
    )


# --- an open connection -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Link:
    """What timing knows of an open connection. `pinged_ns`: of the ping since the last byte heard."""

    opened_ns: int
    heard_ns: int
    pinged_ns: int = 0
    frame_ns: int = 0  # when the frame that is still incomplete began


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before then."""

    until_ns: int


@dataclass(frozen=True, slots=True)
class Probe:
    """Send a ping now."""


@dataclass(frozen=True, slots=True)
class Dead:
    """Give the connection up. `silent`: nothing came at all, not even a pong."""

    reason: str
    silent: bool


def watch(policy: Policy, link: Link, now_ns: int) -> Wait | Probe | Dead:
    """What an open connection needs now."""
    frame_end_ns = link.frame_ns + policy.frame_timeout_ns if link.frame_ns else 0
    if frame_end_ns and now_ns >= frame_end_ns:
        return Dead(f"a frame was incomplete for {_seconds(now_ns - link.frame_ns)}", silent=False)
    if link.pinged_ns > link.heard_ns:
        until_ns = link.pinged_ns + policy.ping_timeout_ns
        if now_ns >= until_ns:
            return Dead(f"nothing came for {_seconds(now_ns - link.heard_ns)}, no answer to a ping", silent=True)
    else:
        until_ns = link.heard_ns + policy.ping_interval_ns
        if now_ns >= until_ns:
            return Probe()
    return Wait(min(until_ns, frame_end_ns) if frame_end_ns else until_ns)


def _seconds(duration_ns: int) -> str:
    return f"{duration_ns / _S:.1f} s"


# --- attempts -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an attempt failed or a connection ended. `floor_s`: what the server asked us to wait; `status`: of its
    answer, 0 without one."""

    reason: str
    permanent: bool = False
    floor_s: float = 0.0
    status: int = 0


def answered(status: int, retry_after: str | None, unix_s: float) -> Refusal:
    """What an HTTP status other than 101 means."""
    if 300 <= status < 400:
        reason = f"the server answered {status}: redirects are not followed, configure the final url"
        return Refusal(reason, permanent=True, status=status)
    permanent = 400 <= status < 500 and status not in _TRANSIENT_4XX
    floor_s = _retry_after_s(retry_after, unix_s) if status in (429, 503) and retry_after else 0.0
    return Refusal(f"the server answered {status}", permanent, floor_s, status)


def _retry_after_s(text: str, unix_s: float) -> float:
    """Seconds, or a date; anything else means nothing."""
    # not at the top: it imports `random`, whose hook at each fork would cost every child more than this is worth
    from email.utils import parsedate_to_datetime

    try:
        number = text.isascii() and text.strip().isdecimal()
        wanted_s = float(text) if number else parsedate_to_datetime(text).timestamp() - unix_s
    except (ValueError, OverflowError):
        return 0.0
    return min(max(wanted_s, 0.0), RETRY_AFTER_MAX_S)


@dataclass(frozen=True, slots=True)
class Retry:
    """What the next wait depends on. `attempts`: when the last ones began."""

    failures: int = 0
    attempts: tuple[int, ...] = ()


def begun(retry: Retry, now_ns: int) -> Retry:
    """An attempt begins."""
    return Retry(retry.failures, (*retry.attempts, now_ns)[-ATTEMPTS_MAX:])


def ended(policy: Policy, link: Link, retry: Retry, now_ns: int) -> Retry:
    """An open connection ended: only a stable one starts over."""
    return Retry() if now_ns - link.opened_ns >= policy.stable_after_ns else retry


def failed(policy: Policy, retry: Retry, refusal: Refusal, now_ns: int, chance: float) -> tuple[Retry, int]:
    """After a refusal or an end: the new state, and when the next attempt may begin."""
    retry = Retry(retry.failures + 1, retry.attempts)
    if refusal.permanent:
        wait_ns = int(policy.reconnect_max_ns * (1 + chance / 10))
    else:
        doublings = min(retry.failures - 1, _DOUBLINGS_MAX)
        wait_ns = int(min(policy.reconnect_min_ns << doublings, policy.reconnect_max_ns) * chance)
    until_ns = now_ns + max(wait_ns, int(refusal.floor_s * _S))
    if len(retry.attempts) == ATTEMPTS_MAX:
        until_ns = max(until_ns, retry.attempts[0] + policy.reconnect_max_ns)
    return retry, until_ns
