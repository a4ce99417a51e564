"""One attempt to connect: resolution, TCP, TLS and the WebSocket upgrade, in a thread of its own.

What holds:

- the loop never waits for an attempt. It abandons one soon after the connect timeout; what an abandoned attempt still
  achieves is closed by its thread. Every step but resolution (and a handler's `target`) has that deadline itself, so
  only those two can keep a thread, and a connection with `STUCK_MAX` such threads starts no further one;
- the answer's head is bounded in size and time; what came after it is kept for the parser;
- no redirect is followed, no cookie kept, no proxy taken from the environment;
- a refusal names status or cause, never a header or a query.
"""

from __future__ import annotations

import _thread
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

from workers.kernel import boottime_ns
from workers.session import Refusal
from workers.target import Target
from workers.template import TemplateError
from workers.upgrade import Refused, Request

HEAD_MAX_BYTES = 65_536
STUCK_MAX = 2

_HEAD_END = b"\r\n\r\n"
_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Opened:
    """A WebSocket, ready for frames; `rest` are frame bytes that came with the answer's head."""

    sock: socket.socket
    rest: bytes
    target: Target


class Attempt:
    """`make` computes the target and `connect` connects to it, both in the thread; then `done` is called there."""

    __slots__ = ("_abandoned", "_lock", "outcome", "stuck", "target")

    def __init__(
        self, make: Callable[[], Target], connect: Callable[[Target], Opened], done: Callable[[Attempt], None]
    ) -> None:
        self.outcome: Opened | Refusal | None = None
        self.target: Target | None = None
        self._abandoned = False
        self._lock = _thread.allocate_lock()
        self.stuck = True  # the thread has not ended
        # not `threading`, for the same reason as in `fence`; nothing that `_run` does leaves an exception uncaught
        _thread.start_new_thread(self._run, (make, connect, done))

    def abandon(self) -> None:
        """The outcome is not wanted any more."""
        with self._lock:
            self._abandoned = True
            if isinstance(self.outcome, Opened):
                self.outcome.sock.close()

    def _run(
        self, make: Callable[[], Target], connect: Callable[[Target], Opened], done: Callable[[Attempt], None]
    ) -> None:
        outcome: Opened | Refusal
        try:
            self.target = make()
            outcome = connect(self.target)
        except Refused as error:
            outcome = error.refusal
        except TemplateError as error:
            outcome = Refusal(str(error))
        except Exception as error:  # of a template, of a handler's target, of a library: the loop must hear of it
            outcome = Refusal(f"the attempt failed: {type(error).__name__}: {error}")
        with self._lock:
            self.outcome = outcome
            if self._abandoned and isinstance(outcome, Opened):
                outcome.sock.close()
        self.stuck = False
        done(self)


def dial(
    target: Target,
    context: Callable[[], ssl.SSLContext],
    timeout_ns: int,
    reached: Callable[[socket.socket], object] | None = None,
) -> Opened:
    """Connect within the timeout. `reached` is called after TCP, after TLS if there is any, and after the upgrade.
    Raises `Refused`."""
    deadline_ns = boottime_ns() + timeout_ns
    request = Request(target)
    sock = _connected(request.host, request.port, deadline_ns)
    try:
        if reached:
            reached(sock)
        if request.secure:
            sock = _secured(sock, context(), request.host, deadline_ns)
            if reached:
                reached(sock)
        rest = _upgraded(sock, request, deadline_ns)
        if reached:
            reached(sock)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return Opened(sock, rest, target)


def _left_s(deadline_ns: int, doing: str) -> float:
    left_ns = deadline_ns - boottime_ns()
    if left_ns <= 0:
        raise Refused(Refusal(f"no connection in time: {doing} was not complete"))
    return left_ns / _S


# --- TCP and TLS --------------------------------------------------------------------------------------------


def _connected(host: str, port: int, deadline_ns: int) -> socket.socket:
    """Each address in turn, so that none can use up the time of those after it."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Refused(Refusal(f"{host} cannot be resolved: {_cause(error)}")) from None
    cause = "it has no address"
    for number, (family, kind, protocol, _, address) in enumerate(found):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(_left_s(deadline_ns, "the TCP connection") / (len(found) - number))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError as error:
            sock.close()
            cause = _cause(error)
        except Refused:
            sock.close()
            raise
        else:
            return sock
    raise Refused(Refusal(f"{host} port {port} cannot be reached: {cause}"))


def _cause(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def _secured(sock: socket.socket, context: ssl.SSLContext, host: str, deadline_ns: int) -> ssl.SSLSocket:
    sock.settimeout(_left_s(deadline_ns, "the TCP connection"))  # Python applies it to the whole handshake
    try:
        return context.wrap_socket(sock, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise Refused(
            Refusal(f"the certificate of {host} is refused: {error.verify_message}", permanent=True)
        ) from None
    except OSError as error:
        raise Refused(Refusal(f"TLS with {host} failed: {_cause(error)}")) from None


# --- the upgrade --------------------------------------------------------------------------------------------


def _upgraded(sock: socket.socket, request: Request, deadline_ns: int) -> bytes:
    """Ask for it, read the answer; returns the bytes that came after the answer's head."""
    held = b""
    try:
        sock.settimeout(_left_s(deadline_ns, "the upgrade"))
        sock.sendall(request.head)
        while _HEAD_END not in held:
            if len(held) > HEAD_MAX_BYTES:
                raise Refused(Refusal(f"the answer's header has more than {HEAD_MAX_BYTES} bytes"))
            sock.settimeout(_left_s(deadline_ns, "the upgrade"))
            more = sock.recv(4096)
            if not more:
                raise Refused(Refusal("the server closed the connection during the upgrade"))
            held += more
    except TimeoutError:
        raise Refused(Refusal("no connection in time: the upgrade was not complete")) from None
    except OSError as error:
        raise Refused(Refusal(f"the upgrade failed: {_cause(error)}")) from None
    head, _, rest = held.partition(_HEAD_END)
    request.check(head, time.clock_gettime(time.CLOCK_REALTIME))  # a Retry-After may be a date
    return rest
