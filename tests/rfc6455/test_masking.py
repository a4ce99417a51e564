"""RFC 6455, section 5.3: every frame of a client is masked, with a key of its own that nobody can guess.

That each frame is masked at all, and whole, is checked by `script.hear` in every test of this folder.
"""

from __future__ import annotations

from tests.feed import CLOSE, PING, PONG, TEXT, Peer, frame
from tests.rfc6455.script import Stage, hear, listen_to_the_end, perform, text


def test_frames_of_every_kind_have_masks_of_their_own() -> None:
    def behave(peer: Peer, stage: Stage) -> None:
        for number in range(50):
            peer.raw(text("same"))
            peer.raw(frame(PING, b"same"))
            stage.heard += [hear(peer), hear(peer)]
            assert number < 50
        while PING not in {each.opcode for each in stage.heard}:
            stage.heard.append(hear(peer))
        peer.close(1000)
        listen_to_the_end(peer, stage)

    heard = perform(behave, {"subscribe": ("same",) * 10, "ping_interval_ms": 50}).heard
    assert {each.opcode for each in heard} == {TEXT, PING, PONG, CLOSE}
    masks = [each.mask for each in heard]
    assert len(masks) > 100
    assert len(set(masks)) >= len(masks) - 1  # two of four random bytes may be alike by chance, once in 800,000 runs
    for octet in range(4):
        assert len({mask[octet] for mask in masks}) > 50


def test_a_message_does_not_appear_on_the_wire_as_it_is() -> None:
    said = "GET / HTTP/1.1\r\n" * 20
    wire: list[bytes] = []

    def behave(peer: Peer, stage: Stage) -> None:
        while b"".join(wire).count(b"\x81") < 1 or len(b"".join(wire)) < len(said):
            wire.append(peer.sock.recv(65_536))

    perform(behave, {"subscribe": (said,)})
    assert b"GET /" not in b"".join(wire)
