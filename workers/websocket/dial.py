"""Going a route: TCP, a proxy, TLS and the WebSocket upgrade, in the thread of an attempt.

What holds:

- every step has the deadline of the whole attempt; the head of each answer is bounded in size and time; what came after
  the server's is kept for the parser;
- no TCP connection begins once the permission for it has run out (see `permission`), whatever took so long: what is
  left of the route is handed back, to be gone with another permission;
- no redirect is followed, no cookie kept;
- TLS is spoken with the host of the url, also through a proxy, and it is that host's certificate that is verified;
- a refusal names status or cause, never a header or a query.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workers.process.kernel import boottime_ns
from workers.spec import StreamSpec
from workers.stream.session import Refusal
from workers.stream.target import Target
from workers.websocket import outgoing
from workers.websocket.cause import cause_of
from workers.websocket.route import Route
from workers.websocket.upgrade import Refused, Request

if TYPE_CHECKING:  # both are imported only where they are needed: not every child shall pay for them
    from workers.websocket.deflate import Inflater
    from workers.websocket.proxy import Proxy

HEAD_MAX_BYTES = 65_536
NEVER_NS = 2**63 - 1

# what a server says when it misses or refuses a certificate of ours, or when no version or cipher is common to both
_PERMANENT_IN_TLS = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE", "PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL")
# what OpenSSL says of a certificate, or of a chain, at whose end is nobody whom we trust
_UNKNOWN_AUTHORITY = (18, 19, 20, 21)
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


def import_for(spec: StreamSpec) -> None:
    """Called before the fork, so that the children of a stream share what their attempts need: 0.8 MB less for each."""
    if spec.proxy != "none":
        import workers.websocket.proxy
    if spec.compression != "off":
        import workers.websocket.deflate  # noqa: F401


def dial(
    route: Route,
    context: Callable[[], ssl.SSLContext],
    begin_by_ns: int = NEVER_NS,
    reached: Callable[[str, socket.socket], object] | None = None,
) -> Opened | Route:
    """Connect within the time that is left, or hand back the route that is left at `begin_by_ns`. `reached` is called
    after each step: "connected" (TCP), "tunnelled" if there is a proxy, "secured" (TLS) if there is any, "upgraded".
    Raises `Refused`."""
    deadline_ns = boottime_ns() + route.left_ns
    request, proxy = route.request, route.proxy
    sock = _connected(route, deadline_ns, begin_by_ns)
    if isinstance(sock, Route):
        return sock
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
    return Opened(sock, rest, route.target, inflater)


def _left_s(deadline_ns: int, doing: str) -> float:
    left_ns = deadline_ns - boottime_ns()
    if left_ns <= 0:
        raise Refused(Refusal(f"no connection in time: {doing} was not complete"))
    return left_ns / _S


# --- TCP and TLS --------------------------------------------------------------------------------------------


def _connected(route: Route, deadline_ns: int, begin_by_ns: int) -> socket.socket | Route:
    """Each address in turn, so that none can use up the time of those after it."""
    cause = "it has no address"
    for number, address in enumerate(route.addresses):
        timeout_s = _left_s(deadline_ns, "the TCP connection") / (len(route.addresses) - number)
        if boottime_ns() >= begin_by_ns:
            return replace(route, addresses=route.addresses[number:], left_ns=deadline_ns - boottime_ns())
        sock = socket.socket(address.family, address.kind, address.protocol)
        try:
            sock.settimeout(timeout_s)
            sock.connect(address.address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError as error:
            sock.close()
            cause = cause_of(error)
        else:
            return sock
    raise Refused(Refusal(f"{route.entrance} port {route.port} cannot be reached: {cause}"))


def _secured(sock: socket.socket, context: ssl.SSLContext, host: str, deadline_ns: int) -> ssl.SSLSocket:
    sock.settimeout(_left_s(deadline_ns, "the TCP connection"))  # Python applies it to the whole handshake
    try:
        return context.wrap_socket(sock, server_hostname=host)
    except TimeoutError:
        raise Refused(Refusal(f"no connection in time: TLS with {host} was not complete")) from None
    except ssl.SSLCertVerificationError as error:
        hint = "; tls_ca names the authority to trust" if error.verify_code in _UNKNOWN_AUTHORITY else ""
        reason = f"the certificate of {host} is refused: {error.verify_message}{hint}"
        raise Refused(Refusal(reason, permanent=True)) from None
    except OSError as error:
        raise Refused(_failed(f"TLS with {host} failed", error)) from None


def _failed(what: str, error: OSError) -> Refusal:
    """Certificates and versions of TLS do not change by themselves: what is wrong with them a retry cannot mend. The
    server's opinion of our certificate comes with the first answer, as of version 1.3 the handshake is over by then."""
    reason = getattr(error, "reason", None) or ""
    permanent = any(word in reason for word in _PERMANENT_IN_TLS)
    return Refusal(f"{what}: {cause_of(error)}", permanent)


# --- the proxy ----------------------------------------------------------------------------------------------


def _tunnelled(sock: socket.socket, through: Proxy, request: Request, deadline_ns: int) -> None:
    from workers.websocket import proxy

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
    from workers.websocket import deflate

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
