"""One attempt to connect: resolution, TCP, TLS and the WebSocket upgrade, in a thread of its own.

What holds:

- the loop never waits for an attempt. It abandons one at the connect timeout; what an abandoned attempt still
  achieves is closed by its thread. Every step but resolution (and a handler's `target`) has that deadline itself, so
  only those two can keep a thread, and a connection with `STUCK_MAX` such threads starts no further one;
- websocket-client makes the request and checks the answer, nothing else. It sees `_Answer` in place of the socket:
  the answer's head, bounded in size and time, without cookies (it would hand them to other connections), and only
  if the status is 101 (it would follow redirects with our headers). What came after the head is kept for the parser;
- no proxy is taken from the environment, no extension is offered or accepted;
- a refusal names status or cause, never a header or a query.
"""

from __future__ import annotations

import base64
import io
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

import websocket

from workers.kernel import boottime_ns
from workers.session import Refusal, answered
from workers.target import Target
from workers.template import TemplateError

HEAD_MAX_BYTES = 65_536
STUCK_MAX = 2
T = TypeVar("T")

_HEAD_END = b"\r\n\r\n"
_S = 1_000_000_000
_OURS = ("connection", "upgrade", "sec-websocket-key", "sec-websocket-version", "sec-websocket-accept")


class Refused(Exception):
    """An attempt failed."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Opened:
    """A WebSocket, ready for frames; `rest` are frame bytes that came with the answer's head."""

    sock: socket.socket
    rest: bytes
    target: Target


class Attempt:
    """`make` computes the target and `connect` connects to it, both in the thread; then `done` is called there."""

    __slots__ = ("_abandoned", "_lock", "_thread", "outcome", "target")

    def __init__(
        self, make: Callable[[], Target], connect: Callable[[Target], Opened], done: Callable[[Attempt], None]
    ) -> None:
        self.outcome: Opened | Refusal | None = None
        self.target: Target | None = None
        self._abandoned = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, args=(make, connect, done), name="dial", daemon=True)
        self._thread.start()

    @property
    def stuck(self) -> bool:
        """The thread has not ended."""
        return self._thread.is_alive()

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
        done(self)


def dial(target: Target, context: Callable[[], ssl.SSLContext], timeout_ns: int) -> Opened:
    """Connect within the timeout. Raises `Refused`."""
    deadline_ns = boottime_ns() + timeout_ns
    url = _checked_url(target.url)
    options = _upgrade_options(target, url)
    secure = url.scheme == "wss"
    host, port = url.hostname or "", url.port or (443 if secure else 80)
    sock = _connected(host, port, deadline_ns)
    try:
        if secure:
            sock = _secured(sock, context(), host, deadline_ns)
        answer = _Answer(sock, deadline_ns)
        _upgrade(target.url, answer, options)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return Opened(sock, answer.rest, target)


def _left_s(deadline_ns: int, doing: str) -> float:
    left_ns = deadline_ns - boottime_ns()
    if left_ns <= 0:
        raise Refused(Refusal(f"no connection in time: {doing} was not complete"))
    return left_ns / _S


# --- what is asked for --------------------------------------------------------------------------------------


def _checked_url(text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        valid = url.scheme in ("ws", "wss") and bool(url.hostname) and url.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise Refused(Refusal("the url is none, expected ws://HOST[:PORT]/PATH or wss://...", permanent=True))
    if any(character <= " " or character == "\x7f" for character in text):
        raise Refused(Refusal("the url holds a space or a control character; write it as %20", permanent=True))
    return url


def _upgrade_options(target: Target, url: SplitResult) -> dict[str, Any]:
    """The arguments of websocket-client's `connect`. No Origin unless configured: we are no browser."""
    options: dict[str, Any] = {"suppress_origin": True, "redirect_limit": 0}
    lines: list[str] = []
    names = {name.lower() for name, _ in target.headers}
    if url.username is not None and "authorization" not in names:
        login = f"{unquote(url.username)}:{unquote(url.password or '')}"
        lines.append(f"Authorization: Basic {base64.b64encode(login.encode()).decode()}")
    for name, value in target.headers:
        lower = name.lower()
        if lower == "sec-websocket-extensions":
            raise Refused(Refusal(f"header {name} asks for an extension, but none is implemented", permanent=True))
        if lower in _OURS:
            raise Refused(Refusal(f"header {name} belongs to the upgrade itself, leave it out", permanent=True))
        if any(ord(character) < 0x20 and character != "\t" for character in name + value):
            raise Refused(Refusal(f"header {name!r} holds a line break or control character", permanent=True))
        if lower == "host":
            options["host"] = value
        elif lower == "sec-websocket-protocol":
            options["subprotocols"] = [protocol.strip() for protocol in value.split(",")]
        else:
            lines.append(f"{name}: {value}")
    return {**options, "header": lines}


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


class _Answer:
    """The socket as websocket-client may see it (see the top of the file)."""

    def __init__(self, sock: socket.socket, deadline_ns: int) -> None:
        self._sock = sock
        self._deadline_ns = deadline_ns
        self._served: io.BytesIO | None = None
        self.rest = b""

    def gettimeout(self) -> float:
        return _left_s(self._deadline_ns, "the upgrade")

    def send(self, data: bytes) -> int:
        self._in_time(lambda: self._sock.sendall(data))
        return len(data)

    def recv(self, count: int) -> bytes:
        if self._served is None:
            head = self._read_head()
            self._served = io.BytesIO(_accepted(head))
        return self._served.read(count)

    def close(self) -> None:
        """The socket belongs to the caller of `dial`."""

    def _in_time(self, step: Callable[[], T]) -> T:
        self._sock.settimeout(self.gettimeout())
        try:
            return step()
        except TimeoutError:
            raise Refused(Refusal("no connection in time: the upgrade was not complete")) from None

    def _read_head(self) -> bytes:
        held = b""
        while _HEAD_END not in held:
            if len(held) > HEAD_MAX_BYTES:
                raise Refused(Refusal(f"the answer's header has more than {HEAD_MAX_BYTES} bytes"))
            more = self._in_time(lambda: self._sock.recv(4096))
            if not more:
                raise Refused(Refusal("the server closed the connection during the upgrade"))
            held += more
        head, _, self.rest = held.partition(_HEAD_END)
        return head


def _accepted(head: bytes) -> bytes:
    """The head without cookies, if it agrees to the upgrade as we asked for it. Raises `Refused`."""
    first, *lines = head.split(b"\r\n")
    fields = [line.split(b":", 1) for line in lines]
    headers = {field[0].strip().lower(): field[-1].strip().decode("latin-1") for field in fields if len(field) == 2}
    words = first.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise Refused(Refusal("the server does not speak HTTP"))
    if int(words[1]) != 101:
        now_s = time.clock_gettime(time.CLOCK_REALTIME)  # a Retry-After may be a date
        raise Refused(answered(int(words[1]), headers.get(b"retry-after"), now_s))
    if b"sec-websocket-extensions" in headers:
        raise Refused(Refusal("the server agreed to an extension that nobody asked for", permanent=True))
    kept = [line for line in lines if not line.lower().startswith(b"set-cookie")]
    return b"\r\n".join([first, *kept]) + _HEAD_END


def _upgrade(url: str, answer: _Answer, options: dict[str, Any]) -> None:
    client: Any = websocket.WebSocket(enable_multithread=False)
    try:
        client.connect(url, socket=answer, **options)
    except (OSError, websocket.WebSocketException, ValueError) as error:
        raise Refused(Refusal(f"the upgrade failed: {_cause(error)}")) from None
