"""What systemd is told: ready, reloading, stopping, a line of status, and that the loop still turns.

What holds: nothing here raises or blocks, and where `NOTIFY_SOCKET` is missing nothing happens. Children never see the
variables. A change of state that the socket did not take (its queue is full while systemd is busy) is sent before
whatever comes next; a ping or a status is not, because the next one says the same.

The watchdog has a third of the lease duration T, at least 500 ms, at most 10 s. A loop that hangs may have renewed its
leases up to T/3 earlier, so that T/3 is left of them when it is killed: from T = 3 s on that is enough to start again
and to reclaim them (measured: under a second) before anybody else may. More than 10 s would help nobody; less than
500 ms would kill healthy ones on a busy machine. Pings come at a quarter of it, so that two may be late.

Not promised: that systemd listens. It ignores whoever is not the main process of a unit with `Type=notify`.
"""

from __future__ import annotations

import os
import re
import socket
from collections import deque
from collections.abc import MutableMapping
from typing import Self

WATCHDOG_MIN_S = 0.5
WATCHDOG_MAX_S = 10.0
PINGS_PER_TIMEOUT = 4
STATUS_EVERY_NS = 1_000_000_000
STATUS_MAX = 500  # systemd drops messages beyond 4 KiB
AROUND_STOP_S = 10  # a stop also settles claims, waits a poll for its peers to see it, and releases
_OWED_MAX = 8


def watchdog_s(lease_duration_s: float) -> float:
    """How long the loop may stand still before it is replaced."""
    return min(WATCHDOG_MAX_S, max(WATCHDOG_MIN_S, lease_duration_s / 3))


class Notifier:
    """One for the process; `address` "" tells nobody. `watchdog_every_s`: how often to call `alive`; None: never."""

    __slots__ = ("_address", "_owed", "_socket", "_status", "_status_ns", "watchdog_every_s")

    def __init__(self, address: str, watchdog_timeout_s: float | None) -> None:
        self._address = b"\0" + os.fsencode(address[1:]) if address.startswith("@") else os.fsencode(address)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) if address else None
        self._owed: deque[str] = deque(maxlen=_OWED_MAX)
        self._status = ""
        self._status_ns: int | None = None
        self.watchdog_every_s = watchdog_timeout_s and watchdog_timeout_s / PINGS_PER_TIMEOUT

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str]) -> Self:
        """Takes the variables out, so that no process that we start takes itself for the service."""
        address = environ.pop("NOTIFY_SOCKET", "")
        timeout_us, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        known = address.startswith(("/", "@"))
        watched = (
            known and re.fullmatch("[0-9]{1,19}", timeout_us) and int(timeout_us) > 0 and pid in ("", str(os.getpid()))
        )
        return cls(address if known else "", int(timeout_us) / 1e6 if watched else None)

    def ready(self, status: str) -> None:
        """Also the end of a reload, whether it was taken or rejected."""
        self._status = _line(status)
        self._change(f"READY=1\nSTATUS={self._status}")

    def reloading(self, monotonic_us: int) -> None:
        """`monotonic_us`: CLOCK_MONOTONIC, now; systemd 253 and later wants to know which signal this answers."""
        self._change(f"RELOADING=1\nMONOTONIC_USEC={monotonic_us}")

    def stopping(self, within_s: float = 0) -> None:
        """`within_s`: the grace of the children, which may be longer than the unit allows for the whole stop."""
        extend = f"\nEXTEND_TIMEOUT_USEC={(within_s + AROUND_STOP_S) * 1e6:.0f}" if within_s else ""
        self._change(f"STOPPING=1{extend}")

    def status(self, text: str, now_ns: int) -> None:
        """Call it at will, again and again: only a change is sent, and at most one a second."""
        line = _line(text)
        early = self._status_ns is not None and now_ns - self._status_ns < STATUS_EVERY_NS
        if line != self._status and not early and self._pay() and self._send(f"STATUS={line}"):
            self._status, self._status_ns = line, now_ns

    def watch(self, lease_duration_s: float) -> None:
        """Set the timeout that this lease duration asks for, if systemd watches us at all, and it is another one."""
        timeout_s = watchdog_s(lease_duration_s)
        if self.watchdog_every_s not in (None, timeout_s / PINGS_PER_TIMEOUT):
            self.watchdog_every_s = timeout_s / PINGS_PER_TIMEOUT
            self._change(f"WATCHDOG_USEC={timeout_s * 1e6:.0f}")

    def alive(self) -> None:
        if self.watchdog_every_s is not None and self._pay():
            self._send("WATCHDOG=1")

    def close(self) -> None:
        """Harmless when repeated; afterwards nothing is said."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _change(self, message: str) -> None:
        if self._socket is not None:
            self._owed.append(message)
            self._pay()

    def _pay(self) -> bool:
        """Whether everything that is owed was taken, in its order."""
        while self._owed and self._send(self._owed[0]):
            self._owed.popleft()
        return not self._owed

    def _send(self, message: str) -> bool:
        # Not connected: systemd may make its socket anew.
        try:
            return self._socket is not None and self._socket.sendto(message.encode(errors="replace"), self._address) > 0
        except OSError:
            return False  # said above: it is owed, or the next one says the same


def _line(text: str) -> str:
    return " ".join(text.split())[:STATUS_MAX]
