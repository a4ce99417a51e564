"""What the parent and the fork server say to each other, one message per packet of a SOCK_SEQPACKET pair.

A packet is the kind of a message and then its fields in order, as texts with a NUL between them (a text of ours comes
last, and may hold one); open files travel beside them (SCM_RIGHTS). Not JSON: whatever the fork server uses between two
forks costs each child the pages of it. Whatever may be large or secret is the content of a memfd, so that no packet can
outgrow the socket and nothing reaches an argv. The fork server does not read a child's environment, so that no secret
in it stays in the memory that all later children inherit.

    parent -> fork server    Prepare (once, first), Start
    fork server -> parent    Warned, Ready (once), then Began, Failed, Ended
"""

from __future__ import annotations

import array
import dataclasses
import json
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from workers.websocket.tls import Profile

_PACKET_MAX_BYTES = 16 * 1024
_FDS_MAX = 1
_FD_BYTES = array.array("i").itemsize
TEXT_MAX_CHARS = 2000
_TEXTS = ("text", "reason")  # the fields that are no numbers


class Garbled(ValueError):
    """A packet that is none of the messages: the two sides are of different versions, or one is broken."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a fork server imports and builds once, for all its children; travels in the memfd of `Prepare`."""

    handlers: tuple[str, ...] = ()  # and classes of sinks: whatever code of users children run
    tls_profiles: tuple[Profile, ...] = ()
    python_path: tuple[str, ...] = ()
    base: str = ""

    def to_json(self) -> bytes:
        return json.dumps(dataclasses.asdict(self)).encode()

    @staticmethod
    def from_json(data: bytes) -> Preparation:
        raw: dict[str, Any] = json.loads(data)
        profiles = tuple(Profile(**profile) for profile in raw["tls_profiles"])
        return Preparation(tuple(raw["handlers"]), profiles, tuple(raw["python_path"]), raw["base"])


@dataclass(frozen=True, slots=True)
class Prepare:
    """With a memfd that holds a `Preparation`."""


@dataclass(frozen=True, slots=True)
class Start:
    """Fork a child; with a memfd that holds its `Task`. It exits if its epoch is not on the board in time."""

    slot: int
    epoch: int
    budget_ms: int


@dataclass(frozen=True, slots=True)
class Ready:
    """Everything is imported; children may be asked for."""


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that a person should read; nothing failed."""

    text: str


@dataclass(frozen=True, slots=True)
class Began:
    """The child exists; with its pidfd."""

    slot: int
    epoch: int
    pid: int


@dataclass(frozen=True, slots=True)
class Failed:
    """There is no such child, and there will be none."""

    slot: int
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The child was reaped, for logs; death itself is told by the pidfd. `status`: exit code, or minus the signal."""

    slot: int
    epoch: int
    pid: int
    status: int


Message = Prepare | Start | Ready | Warned | Began | Failed | Ended
_KINDS = {kind.__name__: kind for kind in (Prepare, Start, Ready, Warned, Began, Failed, Ended)}


def send(link: socket.socket, message: Message, fd: int | None = None) -> None:
    """One packet. Raises what the socket raises: BlockingIOError when full, OSError when the other end is gone."""
    fields = [type(message).__name__]
    for name in message.__slots__:
        fields.append(str(getattr(message, name)))
    packet = "\0".join(fields).encode(errors="backslashreplace")  # a text may hold a lone surrogate
    rights = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
    link.sendmsg([packet], rights)


def receive(link: socket.socket) -> tuple[Message, int | None] | None:
    """The next message and the open file that came along, which is now the caller's; None: the other end is closed.

    A file can be missing although it was sent, when this process has no descriptor left.
    """
    # not `socket.recv_fds`: it ignores its flags, and what it receives would be inherited by any program started here
    packet, rights, flags, _ = link.recvmsg(
        _PACKET_MAX_BYTES, socket.CMSG_LEN(_FDS_MAX * _FD_BYTES), socket.MSG_CMSG_CLOEXEC
    )
    fds = array.array("i")
    for _, _, data in rights:
        fds.frombytes(data[: len(data) // _FD_BYTES * _FD_BYTES])
    if not packet:
        return None
    if flags & socket.MSG_TRUNC:
        close_all(fds)
        raise Garbled(f"a message of more than {_PACKET_MAX_BYTES} bytes came, which none has")
    try:
        message = _message(packet.decode())
    except (ValueError, KeyError, IndexError) as error:
        close_all(fds)
        raise Garbled(f"a message came that is none of {', '.join(_KINDS)}") from error
    return message, fds[0] if fds else None


def _message(packet: str) -> Message:
    name, _, rest = packet.partition("\0")
    kind = _KINDS[name]
    names = kind.__slots__
    fields: list[Any] = rest.split("\0", len(names) - 1) if names else []
    for number, name in enumerate(names):
        if name not in _TEXTS:
            fields[number] = int(fields[number])
    return kind(*fields)


def close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def in_memory(data: bytes, name: str) -> int:
    """A memfd that holds `data`; the caller closes it once it was sent."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    return fd


def from_memory(fd: int) -> bytes:
    """All of a memfd. Closes it."""
    try:
        return os.pread(fd, os.fstat(fd).st_size, 0)
    finally:
        os.close(fd)
