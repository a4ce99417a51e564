"""HTTP for people, probes and Prometheus: waitress in threads of its own, beside the daemon's loop.

What holds: it listens before `serve` returns. A connection answers one request, lives at most `LIFE_MAX_S` and takes
its answer without a pause of `STALL_S`; while more than `CONNECTIONS_MAX` are open, those are ended that are older than
`PATIENCE_S` and wait for their client, the stillest first. So no client that is slow, silent or greedy keeps others out
or takes more memory than the kernel's buffers, which are small: who asks for the same answer shares it. Requests are
small, nothing is written to disk. `close` takes a bounded time whatever is going on. `routes` says what is answered.

Not promised: protection from a flood of well-formed requests, or secrecy on the way; a reverse proxy gives both.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waitress import create_server, wasyncore
from waitress.channel import ClientDisconnected
from waitress.server import TcpWSGIServer

from supervisor.control import Occupied
from supervisor.serving import hostnames, routes
from supervisor.serving.page import document

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

THREADS = 4
CONNECTIONS_MAX = 128
CONNECTIONS_LIMIT = 512  # beyond that new ones wait in the kernel
LIFE_MAX_S = 30.0
PATIENCE_S = 1.0
STALL_S = 5.0
SWEEP_EVERY_S = 0.1
CLOSE_TIMEOUT_S = 1.0
TURN_S = 0.5
REQUEST_MAX_BYTES = 8192
BODY_MAX_BYTES = 1024
SEND_BUFFER_BYTES = 64 * 1024  # of the kernel, which doubles it; unbounded it takes megabytes for each connection
RECEIVE_BUFFER_BYTES = 16 * 1024
UNREAD_MAX_MS = 10_000  # also after we have closed, the kernel keeps what was not read
_OPTIONS = (
    (socket.SOL_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MAX_MS),
    (socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES),
    (socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES),
)
ANSWER_MAX_BYTES = 256 * 1024 * 1024  # from there on waitress would want a temporary file


@dataclass(slots=True)
class _Seen:
    """A connection as the last look found it. `moved_s`: when its client last did what it has to, or had nothing to."""

    born_s: float
    moved_s: float
    unsent: int = 0


class Endpoint:
    """Made by `serve`, ended by `close`."""

    __slots__ = ("_closing", "_seen", "_server", "_swept_s", "_thread", "port")

    def __init__(self, server: TcpWSGIServer, port: int) -> None:
        self.port = port
        self._server = server
        self._seen: dict[Any, _Seen] = {}
        self._swept_s = 0.0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """No further answer; open connections are cut. An answer that is still being made is waited for, but not
        for long."""
        self._closing.set()
        self._server.pull_trigger()
        self._thread.join(CLOSE_TIMEOUT_S)
        self._server.task_dispatcher.shutdown(timeout=CLOSE_TIMEOUT_S)
        # A thread that is left would write into the trigger's pipe, whose number may be another file's by then.
        if not self._server.task_dispatcher.threads and not self._thread.is_alive():
            self._server.trigger.close()

    def _run(self) -> None:
        server = self._server
        while not self._closing.is_set():
            # poll: select cannot watch a descriptor above 1023, and each child costs the supervisor some.
            wasyncore.loop(timeout=TURN_S, use_poll=True, map=server._map, count=1)
            now_s = time.monotonic()
            if now_s - self._swept_s >= SWEEP_EVERY_S:
                self._swept_s = now_s
                self._sweep(now_s)
        for channel in list(server.active_channels.values()):
            channel.handle_close()
        wasyncore.dispatcher.close(server)  # the listener alone: threads may still pull the trigger

    def _sweep(self, now_s: float) -> None:
        """End what is too old or takes nothing, and of too many what waits for its client."""
        self._look(now_s)
        excess = len(self._seen) - CONNECTIONS_MAX
        for channel, seen in sorted(self._seen.items(), key=lambda each: each[1].moved_s):
            age_s, still_s = now_s - seen.born_s, now_s - seen.moved_s
            awaited = seen.moved_s < now_s and age_s > PATIENCE_S
            if age_s > LIFE_MAX_S or (seen.unsent and still_s > STALL_S) or (excess > 0 and awaited):
                _cut(channel)
                excess -= 1

    def _look(self, now_s: float) -> None:
        before, self._seen = self._seen, {}
        for channel in list(self._server.active_channels.values()):
            seen = self._seen[channel] = before.get(channel) or _Seen(now_s, now_s)
            unsent = channel.total_outbufs_len
            if unsent != seen.unsent or (channel.requests and not unsent):  # it reads, or it is our turn
                seen.moved_s = now_s
            seen.unsent = unsent


def _cut(channel: Any) -> None:
    """At once and with a reset: the kernel would go on to offer what the client does not read. Waitress' own way to
    end a connection waits until more can be written, which is never."""
    try:
        channel.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    finally:
        channel.handle_close()


def _is_no_clients_fault(record: logging.LogRecord) -> bool:
    """waitress 3.0 fails when it wants to say that a client left during the answer to what was no request."""
    error = record.exc_info[1] if record.exc_info else None
    return not (error and isinstance(error.__context__, ClientDisconnected))


def _answering_once(application: WSGIApplication) -> WSGIApplication:
    """Each answer is the last of its connection, so that nobody can queue up requests whose answers he does not read.
    What `start_response` returns is a method of waitress' task, and only that can be told so: PEP 3333 has no way."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        def started(status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Any:
            write: Any = start_response(status, headers, exc_info)
            write.__self__.set_close_on_finish()
            return write

        return application(environ, started)

    return answer


def serve(address: tuple[str, int], hosts: Sequence[str], sources: routes.Sources) -> Endpoint:
    """Answer at `address` until `close`; `hosts` are further names for it. Raises `Occupied`, or PermissionError."""
    log = logging.getLogger("waitress")
    log.setLevel(logging.ERROR)  # its warnings are about clients, and as many as they like
    log.addFilter(_is_no_clients_fault)
    page = document.load()
    listener = _listen(address)
    for level, option, value in _OPTIONS:  # each connection inherits them
        listener.setsockopt(level, option, value)
    bound_to, port = listener.getsockname()[:2]
    server = create_server(
        _answering_once(routes.application(sources, hostnames.accepts(address[0], bound_to, hosts), page)),
        sockets=[listener],
        threads=THREADS,
        connection_limit=CONNECTIONS_LIMIT,
        max_request_header_size=REQUEST_MAX_BYTES,
        max_request_body_size=BODY_MAX_BYTES,
        outbuf_overflow=ANSWER_MAX_BYTES,
        outbuf_high_watermark=ANSWER_MAX_BYTES,
        log_socket_errors=False,
        ident=None,
    )
    return Endpoint(server, port)


def _listen(address: tuple[str, int]) -> socket.socket:
    host, port = address
    shown = f"http = {f'[{host}]' if ':' in host else host}:{port}"
    try:
        family, _, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        both = host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(target[:2], family=family, dualstack_ipv6=both)
    except PermissionError as error:
        raise PermissionError(error.errno, f"{shown} cannot be listened on: permission denied") from None
    except OSError as error:
        # A number below 0 is of getaddrinfo; with one above, the text repeats the address.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
        raise Occupied(f"{shown} cannot be listened on: {reason.lower()}") from None
