"""HTTP for people, probes and Prometheus: waitress in threads of its own, beside the daemon's loop.

What holds: it listens before `serve` returns. A connection answers one request and lives at most `LIFE_MAX_S`; while
more than `CONNECTIONS_MAX` are open, those that have sent no request for `PATIENCE_S` are ended. So no client that is
slow, silent or greedy keeps others out, or memory beyond one answer per connection. Requests are small, nothing is
written to disk. `close` takes a bounded time whatever is going on. What is answered stands in `routes`.

Not promised: protection from a flood of well-formed requests, or secrecy on the way; a reverse proxy gives both.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Sequence

from waitress import create_server, wasyncore
from waitress.server import TcpWSGIServer

from supervisor.control import Occupied
from supervisor.serving import hostnames, routes
from supervisor.serving.page import document

THREADS = 4
CONNECTIONS_MAX = 128
CONNECTIONS_LIMIT = 512  # beyond that new ones wait in the kernel
LIFE_MAX_S = 30.0
PATIENCE_S = 1.0
CLOSE_TIMEOUT_S = 1.0
TURN_S = 0.5
REQUEST_MAX_BYTES = 8192
BODY_MAX_BYTES = 1024
ANSWER_MAX_BYTES = 256 * 1024 * 1024  # from there on waitress would want a temporary file


class Endpoint:
    """Made by `serve`, ended by `close`."""

    __slots__ = ("_born_s", "_closing", "_server", "_thread", "port")

    def __init__(self, server: TcpWSGIServer, port: int) -> None:
        self.port = port
        self._server = server
        self._born_s: dict[object, float] = {}
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
            self._sweep(time.monotonic())
        for channel in list(server.active_channels.values()):
            channel.handle_close()
        wasyncore.dispatcher.close(server)  # the listener alone: threads may still pull the trigger

    def _sweep(self, now_s: float) -> None:
        """End what is too old, and of too many those that ask for nothing, oldest first."""
        channels = list(self._server.active_channels.values())
        self._born_s = {channel: self._born_s.get(channel, now_s) for channel in channels}
        excess = len(channels) - CONNECTIONS_MAX
        for channel, born_s in sorted(self._born_s.items(), key=lambda each: each[1]):
            asks = channel.requests or channel.total_outbufs_len  # type: ignore[attr-defined]
            if now_s - born_s > LIFE_MAX_S or (excess > 0 and not asks and now_s - born_s > PATIENCE_S):
                channel.will_close = True  # type: ignore[attr-defined]
                excess -= 1


def serve(address: tuple[str, int], hosts: Sequence[str], sources: routes.Sources) -> Endpoint:
    """Answer at `address` until `close`; `hosts` are further names for it. Raises `Occupied`, or PermissionError."""
    logging.getLogger("waitress").setLevel(logging.ERROR)  # its warnings are about clients, and as many as they like
    page = document.load()
    listener = _listen(address)
    bound_to, port = listener.getsockname()[:2]
    server = create_server(
        routes.application(sources, hostnames.accepts(address[0], bound_to, hosts), page),
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
