"""The control socket of a running supervisor: commands of the same host, answered on the daemon's loop.

What holds: one supervisor per `run_dir` (an flock on `control.lock`, which the kernel drops with the process); a
socket left by a dead one is replaced under that lock and in one step; only root and our own user are answered,
whatever the permissions of the folder say. A request is one line, its reply is one line, then the connection ends.
Size, time and number of connections are bounded; a handler that raises costs its caller an error, nothing else. What
somebody asked for who has gone meanwhile is not done.

A handler takes the request and returns the reply, at once or as an awaitable; it runs on the loop, so it may not
block. See `ask` for the lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import inspect
import json
import os
import select
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from supervisor.ask import SOCKET_NAME, socket_path
from supervisor.private import make_folder

Reply = Mapping[str, Any]
Handler = Callable[[Mapping[str, Any]], Reply | Awaitable[Reply]]

LOCK_NAME = "control.lock"
REQUEST_MAX_BYTES = 64 * 1024
REQUEST_TIMEOUT_S = 5.0
CONNECTIONS_MAX = 32


class Occupied(Exception):
    """The socket cannot be made: exit 73. One sentence."""


class Control:
    """The listening socket. Made by `serve`, ended by `close`."""

    __slots__ = ("_file", "_handlers", "_lock_fd", "_open", "_server", "path")

    def __init__(self, path: Path, lock_fd: int, handlers: Mapping[str, Handler]) -> None:
        self.path = path
        self._file: tuple[int, int] | None = None
        self._lock_fd = lock_fd
        self._handlers = handlers
        self._open = 0
        self._server: asyncio.Server | None = None

    async def _listen(self, listener: socket.socket) -> None:
        self._file = _identity(self.path)
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=REQUEST_MAX_BYTES)

    async def close(self) -> None:
        """No further request; the socket's file is removed, then another supervisor may have the folder.

        Where the folder was removed under us, another may have made it again, with a lock and a socket of its own.
        """
        if self._server is not None:
            self._server.close()
        if _identity(self.path) == self._file:
            with contextlib.suppress(OSError):  # nobody listens there; the next supervisor replaces it
                self.path.unlink()
        os.close(self._lock_fd)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                answer = await self._answer(reader, writer)
                writer.write(json.dumps(answer, default=str).encode() + b"\n")
                await writer.drain()
        except (TimeoutError, OSError):
            pass  # the caller is slow or gone; it has a deadline of its own
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, Any]:
        try:
            line = await reader.readline()  # also of those that are refused: who is still writing would miss the reply
        except ValueError:
            line = b""  # longer than REQUEST_MAX_BYTES
        if _is_gone(writer.get_extra_info("socket")):
            raise ConnectionResetError("who asked waits no longer")  # and was told that nothing came of it
        if self._open > CONNECTIONS_MAX:
            return {"ok": False, "error": f"{CONNECTIONS_MAX} requests are being answered, try again"}
        if not _permitted(writer.get_extra_info("socket")):
            return {"ok": False, "error": "only root and the supervisor's own user are answered"}
        try:
            request = json.loads(line)
            handler = self._handlers[request["command"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            known = ", ".join(sorted(self._handlers))
            return {"ok": False, "error": f'expected a line such as {{"command": "health"}} with one of {known}'}
        try:
            reply = handler(request)
            return {"ok": True, "reply": await reply if inspect.isawaitable(reply) else reply}
        except Exception as error:
            return {"ok": False, "error": f"{type(error).__name__}: {error}"}


async def serve(run_dir: Path, handlers: Mapping[str, Handler]) -> Control:
    """Answer commands in `run_dir` until `close`. Raises `Occupied`, or PermissionError."""
    try:
        path = socket_path(run_dir)
    except ValueError as error:
        raise Occupied(str(error)) from None
    try:
        make_folder(run_dir)
        lock_fd = _lock(run_dir)
        try:
            control = Control(path, lock_fd, handlers)
            await control._listen(_listener(path))
        except BaseException:
            os.close(lock_fd)
            raise
    except PermissionError as error:
        raise PermissionError(error.errno, f"run_dir {run_dir} cannot be used: permission denied") from None
    except OSError as error:
        raise Occupied(f"run_dir {run_dir} cannot be used: {(error.strerror or str(error)).lower()}") from None
    return control


def _lock(run_dir: Path) -> int:
    fd = os.open(run_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise Occupied(f"another supervisor uses run_dir {run_dir}; give this one a folder of its own") from None
    return fd


def _listener(path: Path) -> socket.socket:
    """Listening before it gets its name, so that nobody meets a socket that refuses."""
    fresh = path.with_name(SOCKET_NAME + ".new")
    fresh.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        os.fchmod(listener.fileno(), 0o600)  # what bind makes has these rights from its first moment on
        listener.bind(str(fresh))
        listener.listen()
        fresh.replace(path)
    except BaseException:
        listener.close()
        raise
    return listener


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file; None: there is none, or not for us."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_gone(connection: socket.socket) -> bool:
    """Whether the other side has closed: a stopped supervisor that goes on must not do what was asked long ago."""
    poll = select.poll()
    poll.register(connection.fileno(), 0)  # POLLHUP comes unasked, and not for one that only writes no more
    return bool(poll.poll(0))


def _permitted(connection: socket.socket) -> bool:
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return user in (0, os.geteuid())
