"""One rule of RFC 6455 as a scene: what a server sends to a real child, and what the child must do.

    play(Scene("5.4 ...", (text("a", fin=False), continuation("b")), ["ab"]))

The child is the real one (loop, connection, parser, socket) with a handler that sends back whatever it gets, as the
Autobahn suite wants it. The server is strict: every frame of the child must be masked, whole, without reserved bits,
of a known opcode and written the shortest way.

What a scene proves: exactly `messages` reached the handler, in order. Where `code` is 0, each of them came back with
the type that it had, `pongs` were the only other frames, and the child answered our closing with 1000. Where it is not,
the child began the closing itself, with that code, and ended the TCP connection.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.child import Child, task
from tests.feed import BINARY, CLOSE, PING, PONG, TEXT, Feed, Peer, frame
from tests.wait import until
from workers.handler import Connection, Handler

CONTINUATION = 0x0
Message = str | bytes


def text(data: str | bytes, fin: bool = True) -> bytes:
    return frame(TEXT, data.encode() if isinstance(data, str) else data, fin)


def binary(data: bytes, fin: bool = True) -> bytes:
    return frame(BINARY, data, fin)


def continuation(data: str | bytes, fin: bool = True) -> bytes:
    return frame(CONTINUATION, data.encode() if isinstance(data, str) else data, fin)


def close(code: int, reason: str | bytes = "") -> bytes:
    return frame(CLOSE, code.to_bytes(2, "big") + (reason.encode() if isinstance(reason, str) else reason))


def fragments(opcode: int, payload: bytes, size: int) -> bytes:
    """One message, `size` bytes in each frame."""
    pieces = [payload[at : at + size] for at in range(0, len(payload), size)] or [b""]
    last = len(pieces) - 1
    return b"".join(frame(CONTINUATION if n else opcode, piece, n == last) for n, piece in enumerate(pieces))


@dataclass(frozen=True, slots=True)
class Scene:
    """`sent` goes out piece by piece. `code`: with which the child must fail the connection, 0: it must not."""

    rule: str
    sent: Sequence[bytes]
    messages: Sequence[Message] = ()
    pongs: Sequence[bytes] = ()
    code: int = 0
    spec: dict[str, Any] = field(default_factory=dict)


def named(scenes: Iterable[Scene]) -> dict[str, Scene]:
    """By their rules, for a parametrised test; two of one name would hide each other."""
    table: dict[str, Scene] = {}
    for scene in scenes:
        assert scene.rule not in table, f"two scenes are named {scene.rule!r}"
        table[scene.rule] = scene
    return table


@dataclass(frozen=True, slots=True)
class Heard:
    """A frame of the child."""

    opcode: int
    payload: bytes
    mask: bytes


def hear(peer: Peer) -> Heard:
    """The child's next frame. Raises AssertionError for one that no client may send."""
    first, size = peer._take(2)
    assert first & 0x80, "a frame of the child is a fragment"
    assert not first & 0x70, "a frame of the child has a reserved bit"
    assert size & 0x80, "a frame of the child is not masked"
    opcode, size = first & 0x0F, size & 0x7F
    assert opcode in (TEXT, BINARY, CLOSE, PING, PONG), f"a frame of the child has opcode {opcode}"
    if size > 125:
        assert opcode < CLOSE, "a control frame of the child is too long"
        shortest, width = (126, 2) if size == 126 else (65_536, 8)
        size = int.from_bytes(peer._take(width), "big")
        assert size >= shortest, "a length of the child is not written the shortest way"
    mask = peer._take(4)
    masks = (mask * (size // 4 + 1))[:size]
    payload = int.from_bytes(peer._take(size), "big") ^ int.from_bytes(masks, "big")
    return Heard(opcode, payload.to_bytes(size, "big"), mask)


@dataclass(slots=True)
class Stage:
    """What happened on the first connection; the child's later ones are served and not judged."""

    heard: list[Heard] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    ended: bool = False

    @property
    def closing(self) -> bytes | None:
        return next((each.payload for each in self.heard if each.opcode == CLOSE), None)


def echo_into(messages: list[Message]) -> type[Handler]:
    """A handler that sends back, on the first connection of its child only."""

    class Echo(Handler):
        closed_once = False

        def message(self, connection: Connection, message: Message) -> None:
            if not self.closed_once:
                messages.append(message)
                connection.send(message)

        def closed(self, connection: Connection, code: int, reason: str) -> None:
            self.closed_once = True

    return Echo


def play(scene: Scene) -> Stage:
    """Run it and judge it; what was heard is returned for what a test wants besides."""
    stage = perform(lambda peer, stage: _behave(peer, stage, scene), scene.spec)
    assert stage.messages == list(scene.messages)
    assert [each.payload for each in stage.heard if each.opcode == PONG] == list(scene.pongs)
    assert stage.closing is not None, "the child ended the connection without a close frame"
    assert stage.heard[-1].opcode == CLOSE, "the child sent something behind its close frame"
    assert int.from_bytes(stage.closing[:2], "big") == (scene.code or 1000)
    if not scene.code:
        echoes = [(each.opcode, each.payload) for each in stage.heard if each.opcode in (TEXT, BINARY)]
        assert echoes == [(TEXT, m.encode()) if isinstance(m, str) else (BINARY, m) for m in scene.messages]
    return stage


def perform(behave: Callable[[Peer, Stage], None], spec: dict[str, Any]) -> Stage:
    """A child against a server that accepts and then behaves like that, until the connection has ended at both."""
    stage = Stage()

    def first_only(peer: Peer) -> None:
        peer.accept()
        if peer.number:
            return peer.serve()
        try:
            behave(peer, stage)
        finally:
            stage.ended = True
        return None

    handler = echo_into(stage.messages)
    with Feed(first_only) as feed, Child(task(feed.url, handler="echo", **spec), handler) as child:
        until(lambda: stage.ended and child.log("connection.closed"), 10, 0.002)
    return stage


def _behave(peer: Peer, stage: Stage, scene: Scene) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a child that failed need not read the rest
        for piece in scene.sent:
            peer.raw(piece)
    if not scene.code:
        awaited = len(scene.messages) + len(scene.pongs)
        while len(stage.heard) < awaited and stage.closing is None:
            stage.heard.append(hear(peer))
        if stage.closing is None and not any(piece[:1] == b"\x88" for piece in scene.sent):
            peer.close(1000)
    listen_to_the_end(peer, stage)


def listen_to_the_end(peer: Peer, stage: Stage) -> None:
    """Hear all frames until the child has ended the connection. Its close frame is answered and ours is over then, as
    with a good server; whatever it sends after that is heard, too."""
    with contextlib.suppress(ConnectionError):
        while True:
            stage.heard.append(hear(peer))
            if stage.heard[-1].opcode == CLOSE:
                peer.raw(frame(CLOSE, stage.heard[-1].payload))
                peer.sock.shutdown(socket.SHUT_WR)
