"""RFC 6455, sections 5.6 and 8.1: text is UTF-8 as of RFC 3629, every code point of it, and nothing else.

The sequences are those of Markus Kuhn's decoder stress test, which the Autobahn suite uses, too.
"""

from __future__ import annotations

import itertools

import pytest

from tests.feed import PING, TEXT, Peer, frame
from tests.rfc6455.script import (
    Scene,
    Stage,
    continuation,
    fragments,
    hear,
    listen_to_the_end,
    named,
    perform,
    play,
    text,
)

KOSME = "κόσμε".encode()
PLANES = range(17)


def decodes(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


GOOD = {
    "nothing": b"",
    "ASCII": b"Hello",
    "several scripts": "Hello-µ@ßöäüàá-UTF-8!! 日本 🎉".encode(),
    "kosme": KOSME,
    **{
        f"U+{point:04X}": chr(point).encode()
        for point in (
            *(0x00, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF),  # first and last of each length
            *(0xD7FF, 0xE000, 0xFFFD, 0xFEFF, 0x2028),
            *(plane << 16 | last for plane in PLANES[1:-1] for last in (0xFFFE, 0xFFFF)),  # no characters, but valid
            *(0xFFFE, 0x10FFFE, 0xFDD0, 0xFDEF),
        )
    },
}

BAD = {
    **{f"a continuation octet {octet:02x}": bytes([octet]) for octet in (0x80, 0x81, 0xBE, 0xBF)},
    **{f"{count} continuation octets": bytes([0x80, 0xBF] * 4)[:count] for count in range(2, 8)},
    "all continuation octets": bytes(range(0x80, 0xC0)),
    "lonely first octets of two": b"".join(bytes([octet]) + b" " for octet in range(0xC0, 0xE0)),
    "lonely first octets of three": b"".join(bytes([octet]) + b" " for octet in range(0xE0, 0xF0)),
    "lonely first octets of four": b"".join(bytes([octet]) + b" " for octet in range(0xF0, 0xF8)),
    "lonely first octets of five": b"".join(bytes([octet]) + b" " for octet in range(0xF8, 0xFC)),
    "lonely first octets of six": b"".join(bytes([octet]) + b" " for octet in range(0xFC, 0xFE)),
    **{
        f"the last octet of {whole} is missing": bytes.fromhex(whole)[:-1]
        for whole in ("c2a9", "dfbf", "e0a080", "efbfbf", "f0908080", "f48fbfbf", "c080", "e08080", "f7bfbfbf")
    },
    **{f"kosme up to octet {end}": KOSME[:end] for end in range(1, len(KOSME)) if not decodes(KOSME[:end])},
    **{f"the octet {octet:02x}": bytes([octet]) for octet in (0xC0, 0xC1, *range(0xF5, 0x100))},
    "fe fe ff ff": b"\xfe\xfe\xff\xff",
    **{
        f"{sequence}, longer than needed": bytes.fromhex(sequence)
        for sequence in (
            *("c0af", "e080af", "f08080af", "f8808080af", "fc80808080af"),  # a slash
            *("c1bf", "e09fbf", "f08fbfbf", "f887bfbfbf", "fc83bfbfbfbf"),  # the last that is
            *("c080", "e08080", "f0808080", "f880808080", "fc8080808080"),  # NUL
        )
    },
    **{
        f"the surrogate {sequence}": bytes.fromhex(sequence)
        for sequence in ("eda080", "edadbf", "edae80", "edafbf", "edb080", "edbe80", "edbfbf")
    },
    **{
        f"the pair of surrogates {high}{low}": bytes.fromhex(high + low)
        for high, low in itertools.product(("eda080", "edadbf", "edae80", "edafbf"), ("edb080", "edbfbf"))
    },
    **{
        f"{sequence}, beyond Unicode": bytes.fromhex(sequence)
        for sequence in ("f4908080", "f5808080", "f7bfbfbf", "f888808080", "fbbfbfbfbf", "fc8480808080", "fdbfbfbfbfbf")
    },
    "kosme, then a surrogate, then text": KOSME + b"\xed\xa0\x80" + b"edited",
}


TAILS = [b"", *(first + b"\x80" * more for first in (b"\x80", b"\xbf") for more in range(3))]


def hopeless(head: bytes) -> bool:
    """Nothing that follows could make it UTF-8."""
    return not any(decodes(head + tail) for tail in TAILS)


def first_wrong(data: bytes) -> int:
    """How many octets it takes to be sure; all, if only the end is missing."""
    return next((end for end in range(1, len(data) + 1) if hopeless(data[:end])), len(data))


WHOLE = named(
    Scene(f"5.6 {name}", [text(b"a" + data + b"z")], ["a" + data.decode() + "z"]) for name, data in GOOD.items()
)
OCTETS = named(Scene(f"5.6 {name}", [fragments(TEXT, data, 1)], [data.decode()]) for name, data in GOOD.items())
BAD_WHOLE = named(Scene(f"8.1 {name}", [text("good") + text(data)], ["good"], code=1007) for name, data in BAD.items())


@pytest.mark.parametrize("rule", WHOLE)
def test_text_of_any_code_point_is_delivered(rule: str) -> None:
    play(WHOLE[rule])


@pytest.mark.parametrize("rule", OCTETS)
def test_text_of_any_code_point_is_delivered_when_each_octet_is_a_fragment(rule: str) -> None:
    play(OCTETS[rule])


@pytest.mark.parametrize("rule", BAD_WHOLE)
def test_text_that_is_not_utf8_fails_the_connection_with_1007(rule: str) -> None:
    play(BAD_WHOLE[rule])


@pytest.mark.parametrize("name", BAD)
def test_text_in_fragments_fails_with_1007_at_the_first_octet_that_nothing_can_mend(name: str) -> None:
    """Nothing is sent behind that octet, and the message is not said to have ended unless its end is what is wrong."""
    data = BAD[name]
    end = first_wrong(data)
    lasts = not hopeless(data[:end])

    def behave(peer: Peer, stage: Stage) -> None:
        head = [frame(0 if at else TEXT, data[at : at + 1], fin=False) for at in range(end)]
        peer.raw(b"".join(head) + (continuation(b"") if lasts else b""))
        listen_to_the_end(peer, stage)

    stage = perform(behave, {})
    assert stage.closing is not None
    assert int.from_bytes(stage.closing[:2], "big") == 1007
    assert stage.messages == []


def test_a_ping_between_good_and_bad_fragments_is_answered_before_the_failure() -> None:
    def behave(peer: Peer, stage: Stage) -> None:
        peer.raw(text(KOSME, fin=False) + frame(PING, b"here"))
        while not stage.heard:
            stage.heard.append(hear(peer))
        peer.raw(continuation(b"\xf4\x90", fin=False))
        listen_to_the_end(peer, stage)

    stage = perform(behave, {})
    assert stage.heard[0].payload == b"here"
    assert stage.closing is not None
    assert int.from_bytes(stage.closing[:2], "big") == 1007
