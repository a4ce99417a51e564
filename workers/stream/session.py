"""When a connection pings, is given up, and is tried again: policy as values, without clock and I/O.

What holds:

- a silent peer is found dead within ping interval + ping timeout; any byte counts as life, not only a pong;
- a peer that answers pings and sends no message for `idle_timeout` is told once, and again only after it spoke;
- a frame that has begun is complete within the frame timeout, however its bytes trickle;
- a connection that is old enough is replaced, some up to a tenth earlier so that not all are at once; the old one goes
  when the new one delivers, or has had `SETTLE_MAX_NS` to do so;
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
from workers.websocket.retry_after import retry_after_s

CLOSE_TIMEOUT_NS = 1_000_000_000  # how long the peer may take to answer a close frame
SETTLE_MIN_NS, SETTLE_MAX_NS = 1_000_000_000, 5_000_000_000  # how long a connection and its replacement deliver both
NEVER_NS = 2**63 - 1
ATTEMPTS_MAX = 10
RETRY_AFTER_MAX_S = 3600.0  # a wrong date must not silence a connection for years
_DOUBLINGS_MAX = 60
_TRANSIENT_4XX = (408, 425, 429)
_MS = 1_000_000
_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Policy:
    """The durations of a stream. 0 in those that may be off: `idle_timeout_ns`, `max_age_ns`, `send_interval_ns`."""

    connect_timeout_ns: int
    ping_interval_ns: int
    ping_timeout_ns: int
    frame_timeout_ns: int
    stable_after_ns: int
    reconnect_min_ns: int
    reconnect_max_ns: int
    idle_timeout_ns: int
    idle_reconnects: bool
    max_age_ns: int
    send_interval_ns: int
    close_code: int


def policy_of(spec: StreamSpec) -> Policy:
    return Policy(
        connect_timeout_ns=spec.connect_timeout_ms * _MS,
        ping_interval_ns=spec.ping_interval_ms * _MS,
        ping_timeout_ns=spec.ping_timeout_ms * _MS,
        frame_timeout_ns=spec.frame_timeout_ms * _MS,
        stable_after_ns=spec.stable_after_ms * _MS,
        reconnect_min_ns=spec.reconnect_min_ms * _MS,
        reconnect_max_ns=spec.reconnect_max_ms * _MS,
        idle_timeout_ns=spec.idle_timeout_ms * _MS,
        idle_reconnects=spec.on_idle == "reconnect",
        max_age_ns=spec.max_age_ms * _MS,
        send_interval_ns=int(_S / spec.send_rate) if spec.send_rate else 0,
        close_code=spec.close_code,
    )


# --- an open connection -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Timing:
    """When things happened on an open connection. `pinged_ns`: of the ping since the last byte heard."""

    heard_ns: int  # any byte
    data_ns: int  # the last message, or the opening
    pinged_ns: int = 0
    frame_ns: int = 0  # when the frame that is still incomplete began
    idle: bool = False  # that no message comes was told


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before then."""

    until_ns: int


@dataclass(frozen=True, slots=True)
class Probe:
    """Send a ping now."""


@dataclass(frozen=True, slots=True)
class Idle:
    """The peer lives, and its data does not come."""

    reason: str


@dataclass(frozen=True, slots=True)
class Dead:
    """Give the connection up. `silent`: nothing came at all, not even a pong."""

    reason: str
    silent: bool


def watch(policy: Policy, timing: Timing, now_ns: int) -> Wait | Probe | Idle | Dead:
    """What an open connection needs now."""
    until_ns = NEVER_NS
    if timing.frame_ns:
        until_ns = timing.frame_ns + policy.frame_timeout_ns
        if now_ns >= until_ns:
            return Dead(f"a frame was incomplete for {_seconds(now_ns - timing.frame_ns)}", silent=False)
    if policy.idle_timeout_ns and not timing.idle:
        idle_ns = timing.data_ns + policy.idle_timeout_ns
        if now_ns >= idle_ns:
            return Idle(f"no message came within idle_timeout, {_seconds(policy.idle_timeout_ns)}")
        until_ns = min(until_ns, idle_ns)
    if timing.pinged_ns > timing.heard_ns:
        end_ns = timing.pinged_ns + policy.ping_timeout_ns
        if now_ns >= end_ns:
            return Dead(f"nothing came for {_seconds(now_ns - timing.heard_ns)}, no answer to a ping", silent=True)
        return Wait(min(until_ns, end_ns))
    ping_ns = timing.heard_ns + policy.ping_interval_ns
    return Probe() if now_ns >= ping_ns else Wait(min(until_ns, ping_ns))


def _seconds(duration_ns: int) -> str:
    return f"{duration_ns / _S:.1f} s"


def retires_ns(policy: Policy, opened_ns: int, chance: float) -> int:
    """When a connection with a `max_age` is to be replaced."""
    return opened_ns + policy.max_age_ns - int(policy.max_age_ns * chance / 10)


def took_over(subscribed_ns: int, data_ns: int, now_ns: int) -> bool:
    """A replacement has its subscriptions out since `subscribed_ns` (0: not yet): may the one before it go?"""
    since_ns = now_ns - subscribed_ns
    speaks = data_ns > subscribed_ns and since_ns >= SETTLE_MIN_NS
    return subscribed_ns > 0 and (speaks or since_ns >= SETTLE_MAX_NS)


# --- attempts -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an attempt failed or a connection ended. `floor_s`: what the server asked us to wait; `status`: of its
    answer, 0 without one; `brief`: the reason without what others wrote, for places that more people see than the log.
    """

    reason: str
    permanent: bool = False
    floor_s: float = 0.0
    status: int = 0
    brief: str = ""


def answered(status: int, retry_after: str | None, unix_s: float) -> Refusal:
    """What an HTTP status other than 101 means."""
    if 300 <= status < 400:
        reason = f"the server answered {status}: redirects are not followed, configure the final url"
        return Refusal(reason, permanent=True, status=status)
    permanent = 400 <= status < 500 and status not in _TRANSIENT_4XX
    floor_s = min(retry_after_s(retry_after, unix_s), RETRY_AFTER_MAX_S) if status in (429, 503) else 0.0
    return Refusal(f"the server answered {status}", permanent, floor_s, status)


@dataclass(frozen=True, slots=True)
class Retry:
    """What the next wait depends on. `attempts`: when the last ones began."""

    failures: int = 0
    attempts: tuple[int, ...] = ()


def begun(retry: Retry, now_ns: int) -> Retry:
    """An attempt begins."""
    return Retry(retry.failures, (*retry.attempts, now_ns)[-ATTEMPTS_MAX:])


def ended(policy: Policy, opened_ns: int, retry: Retry, now_ns: int) -> Retry:
    """An open connection ended: only a stable one starts over."""
    return Retry() if now_ns - opened_ns >= policy.stable_after_ns else retry


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
