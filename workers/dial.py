"""One attempt to connect: resolution, TCP, a proxy, TLS and the WebSocket upgrade, in a thread of its own.

What holds:

- the loop never waits for an attempt. It abandons one soon after the connect timeout; what an abandoned attempt still
  achieves is closed by its thread. Every step but resolution (and a handler's `target`) has that deadline itself, so
  only those two can keep a thread, and a connection with `STUCK_MAX` such threads starts no further one;
- the head of each answer is bounded in size and time; what came after the server's is kept for the parser;
- no redirect is followed, no cookie kept; whether the environment is asked for a proxy says the configuration;
- TLS is spoken with the host of the url, also through a proxy, and it is that host's certificate that is verified;
- a refusal names status or cause, never a header or a query.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import re
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workers import outgoing
from workers.kernel import boottime_ns
from workers.session import Refusal
from workers.spec import StreamSpec
from workers.target import Target
from workers.template import TemplateError
from workers.upgrade import Refused, Request

if TYPE_CHECKING:  # both are imported only where they are needed: not every child shall pay for them
    from workers.deflate import Inflater
    from workers.proxy import Proxy

HEAD_MAX_BYTES = 65_536
STUCK_MAX = 2

# what a server says when it misses or refuses a certificate of ours, or when no version or cipher is common to both
_PERMANENT_IN_TLS = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE", "PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL")
_HEAD_END = b"\r\n\r\n"
_INTERIM = re.compile(rb"HTTP/1\.[01] 1(?!01)\d\d[ \r]")  # RFC 9110, section 15.2: read over, but for 101
_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Opened:
    """A WebSocket, ready for frames; `rest` are frame bytes that came with the answer's head. `inflater` None: the
    server compresses nothing."""

    sock: socket.socket
    rest: bytes
    target: Target
    inflater: Inflater | None = None


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
        except BaseException as error:  # of a template, of a handler's target, of a library: the loop must hear of it
            what = f"the attempt failed: {type(error).__name__}"
            outcome = Refusal(f"{what}: {error}", brief=what)
        with self._lock:
            self.outcome = outcome
            if self._abandoned and isinstance(outcome, Opened):
                outcome.sock.close()
        self.stuck = False
        done(self)


def import_for(spec: StreamSpec) -> None:
    """Called before the fork, so that the children of a stream share what their attempts need: 0.8 MB less for each."""
    if spec.proxy != "none":
        import workers.proxy
    if spec.compression != "off":
        import workers.deflate  # noqa: F401


def dial(
    target: Target,
    context: Callable[[], ssl.SSLContext],
    timeout_ns: int,
    reached: Callable[[str, socket.socket], object] | None = None,
) -> Opened:
    """Connect within the timeout. `reached` is called after each step: "connected" (TCP), "tunnelled" if there is a
    proxy, "secured" (TLS) if there is any, "upgraded". Raises `Refused`."""
    deadline_ns = boottime_ns() + timeout_ns
    request = Request(target)
    proxy = _proxy(target, request) if target.proxy != "none" else None
    if proxy:
        sock = _connected(proxy.host, proxy.port, deadline_ns, "the proxy ")
    else:
        sock = _connected(request.host, request.port, deadline_ns)
    try:
        if reached:
            reached("connected", sock)
        if proxy:
            _tunnelled(sock, proxy, request, deadline_ns)
            if reached:
                reached("tunnelled", sock)
        if request.secure:
            sock = _secured(sock, context(), request.host, deadline_ns)
            if reached:
                reached("secured", sock)
        rest, inflater = _upgraded(sock, request, deadline_ns)
        if reached:
            reached("upgraded", sock)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return Opened(sock, rest, target, inflater)


def _left_s(deadline_ns: int, doing: str) -> float:
    left_ns = deadline_ns - boottime_ns()
    if left_ns <= 0:
        raise Refused(Refusal(f"no connection in time: {doing} was not complete"))
    return left_ns / _S


# --- TCP and TLS --------------------------------------------------------------------------------------------


def _connected(host: str, port: int, deadline_ns: int, which: str = "") -> socket.socket:
    """Each address in turn, so that none can use up the time of those after it."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Refused(Refusal(f"{which}{host} cannot be resolved: {_cause(error)}")) from None
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
    raise Refused(Refusal(f"{which}{host} port {port} cannot be reached: {cause}"))


def _cause(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")  # its text names a line of Python's source besides
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
        raise Refused(_failed(f"TLS with {host} failed", error)) from None


def _failed(what: str, error: OSError) -> Refusal:
    """Certificates and versions of TLS do not change by themselves: what is wrong with them a retry cannot mend. The
    server's opinion of our certificate comes with the first answer, as of version 1.3 the handshake is over by then."""
    permanent = isinstance(error, ssl.SSLError) and any(word in (error.reason or "") for word in _PERMANENT_IN_TLS)
    return Refusal(f"{what}: {_cause(error)}", permanent)


# --- the proxy ----------------------------------------------------------------------------------------------


def _proxy(target: Target, request: Request) -> Proxy | None:
    from workers import proxy

    return proxy.chosen(target.proxy, request.secure, request.host, request.port, os.environ)


def _tunnelled(sock: socket.socket, through: Proxy, request: Request, deadline_ns: int) -> None:
    from workers import proxy

    asked = proxy.request(through, request.host, request.port)
    head, rest = _answer(sock, asked, deadline_ns, "proxy", "the tunnel")
    proxy.check(head, rest, time.clock_gettime(time.CLOCK_REALTIME))  # a Retry-After may be a date


# --- the upgrade --------------------------------------------------------------------------------------------


def _upgraded(sock: socket.socket, request: Request, deadline_ns: int) -> tuple[bytes, Inflater | None]:
    """Ask for it, read the answer; returns the bytes that came after the answer's head, and what inflates them."""
    head, rest = _answer(sock, request.head, deadline_ns, "server", "the upgrade")
    try:
        extension = request.check(head, time.clock_gettime(time.CLOCK_REALTIME))
        return rest, _inflater(extension) if extension else None
    except Refused as refused:
        if refused.close_code:
            with contextlib.suppress(OSError):
                sock.sendall(outgoing.frame(outgoing.CLOSE, refused.close_code.to_bytes(2, "big"), os.urandom(4)))
        raise


def _inflater(extension: str) -> Inflater:
    from workers import deflate

    return deflate.agreed(extension)


def _answer(sock: socket.socket, asked: bytes, deadline_ns: int, who: str, what: str) -> tuple[bytes, bytes]:
    """Send a request; the head of its answer, without interim ones before it, and the bytes that came after it."""
    held = b""
    try:
        sock.settimeout(_left_s(deadline_ns, what))
        _send(sock, asked)
        while _HEAD_END not in held or _INTERIM.match(held):
            if _HEAD_END in held:
                held = held.partition(_HEAD_END)[2]
                continue
            if len(held) > HEAD_MAX_BYTES:
                raise Refused(Refusal(f"the {who}'s header has more than {HEAD_MAX_BYTES} bytes"))
            sock.settimeout(_left_s(deadline_ns, what))
            more = sock.recv(4096)
            if not more:
                raise Refused(Refusal(f"the {who} closed the connection during {what}"))
            held += more
    except TimeoutError:
        raise Refused(Refusal(f"no connection in time: {what} was not complete")) from None
    except OSError as error:
        raise Refused(_failed(f"{what} failed", error)) from None
    head, _, rest = held.partition(_HEAD_END)
    return head, rest


def _send(sock: socket.socket, asked: bytes) -> None:
    try:
        sock.sendall(asked)
    except (ConnectionError, ssl.SSLEOFError):
        return  # who hangs up meanwhile may have said why, and that is still there to be read; else reading fails, too
