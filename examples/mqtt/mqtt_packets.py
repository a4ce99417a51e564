"""Packets of MQTT 3.1.1, as far as a subscriber (and who publishes to it) needs them. Pure.

What holds: bytes may arrive in pieces of any size, and become the same packets; what is no packet raises `Malformed`,
and nothing larger than `PACKET_MAX_BYTES` is waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

PACKET_MAX_BYTES = 16 * 1024 * 1024
ACCEPTED, SUBSCRIPTION_REFUSED = 0, 0x80
_LENGTH_BYTES = 4
_PROTOCOL = b"\0\4MQTT\4"
_CLEAN, _PASSWORD, _USER = 0x02, 0x40, 0x80
_MUST_FLAGS = 0x02  # of a subscription


class Kind(IntEnum):
    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    SUBSCRIBE = 8
    SUBACK = 9
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14


class Malformed(ValueError):
    """The peer does not speak MQTT, or speaks it wrongly."""


@dataclass(frozen=True, slots=True)
class Packet:
    """`kind` may be one that `Kind` does not name."""

    kind: int
    flags: int
    body: bytes

    @property
    def result(self) -> int:
        """The last byte: of a CONNACK or a SUBACK, what came of the request."""
        if not self.body:
            raise Malformed(f"a packet of kind {self.kind} is empty")
        return self.body[-1]


@dataclass(frozen=True, slots=True)
class Publish:
    topic: str
    payload: bytes
    qos: int = 0
    identifier: int = 0  # 0: none, with qos 0
    repeated: bool = False
    retained: bool = False


class Packets:
    """Cuts what arrives on one connection into packets."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Packet]:
        data = self._rest + data
        found = []
        position = 0
        while (body := _body(data, position)) is not None and body.stop <= len(data):
            found.append(Packet(data[position] >> 4, data[position] & 0x0F, data[body.start : body.stop]))
            position = body.stop
        self._rest = data[position:]
        return found


def _body(data: bytes, position: int) -> range | None:
    """Where the body of the packet at this position is; None: its length has not come yet."""
    size = 0
    for count, byte in enumerate(data[position + 1 : position + 1 + _LENGTH_BYTES]):
        size |= (byte & 0x7F) << 7 * count
        if size > PACKET_MAX_BYTES:
            raise Malformed(f"a packet of {size} bytes or more")
        if byte < 0x80:
            return range(position + 2 + count, position + 2 + count + size)
    if len(data) - position > _LENGTH_BYTES:
        raise Malformed("the length of a packet does not end")
    return None


def published(packet: Packet) -> Publish:
    qos, body = packet.flags >> 1 & 3, packet.body
    end = 2 + int.from_bytes(body[:2], "big")
    begin = end + 2 if qos else end
    if len(body) < max(begin, 2) or qos == 3:
        raise Malformed("a message is cut off, or of no quality of service that there is")
    identifier = int.from_bytes(body[end:begin], "big")
    try:
        topic = body[2:end].decode()
    except UnicodeDecodeError:
        raise Malformed("a topic is no UTF-8") from None
    return Publish(topic, body[begin:], qos, identifier, bool(packet.flags & 8), bool(packet.flags & 1))


def connect(client: str, keep_alive_s: int, clean: bool, user: str = "", password: str = "") -> bytes:
    """With `clean` False the broker keeps subscriptions, and messages of quality 1, while the client is away."""
    flags = _CLEAN * clean | _USER * bool(user) | _PASSWORD * bool(password)
    texts = b"".join(_text(text) for text in (client, user, password) if text)
    body = _PROTOCOL + bytes([flags]) + keep_alive_s.to_bytes(2, "big") + texts
    return _packet(Kind.CONNECT, 0, body)


def subscribe(identifier: int, topic: str, qos: int) -> bytes:
    return _packet(Kind.SUBSCRIBE, _MUST_FLAGS, identifier.to_bytes(2, "big") + _text(topic) + bytes([qos]))


def publish(message: Publish) -> bytes:
    flags = message.repeated << 3 | message.qos << 1 | message.retained
    identifier = message.identifier.to_bytes(2, "big") if message.qos else b""
    return _packet(Kind.PUBLISH, flags, _text(message.topic) + identifier + message.payload)


def acknowledge(identifier: int) -> bytes:
    return _packet(Kind.PUBACK, 0, identifier.to_bytes(2, "big"))


def ping() -> bytes:
    return _packet(Kind.PINGREQ, 0, b"")


def disconnect() -> bytes:
    return _packet(Kind.DISCONNECT, 0, b"")


def _text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def _packet(kind: Kind, flags: int, body: bytes) -> bytes:
    head = bytearray([kind << 4 | flags])
    size = len(body)
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + body
