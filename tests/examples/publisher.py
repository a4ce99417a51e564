"""Who publishes to the broker of `examples/mqtt`: python3 -m tests.examples.publisher sensors/kitchen/heat 21.5"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from examples.mqtt import mqtt_packets as mqtt
from examples.mqtt.mqtt_packets import Kind, Packet, Packets, Publish

PORT = 8804
KEEP_ALIVE_S = 60


class Publisher:
    """Each message is the broker's when `publish` returns."""

    def __init__(self, websocket: ClientConnection) -> None:
        self._websocket = websocket
        self._packets = Packets()
        self._number = 0
        websocket.send(mqtt.connect("publisher", KEEP_ALIVE_S, clean=True))
        self._expect(Kind.CONNACK, b"\0\0")

    def publish(self, topic: str, payload: bytes, qos: int = 1) -> None:
        self._number = self._number % 65_535 + 1
        self._websocket.send(mqtt.publish(Publish(topic, payload, qos, self._number if qos else 0)))
        if qos:
            self._expect(Kind.PUBACK, self._number.to_bytes(2, "big"))

    def _expect(self, kind: Kind, body: bytes) -> None:
        found: list[Packet] = []
        while not found:
            data = self._websocket.recv()
            assert isinstance(data, bytes)
            found = self._packets.feed(data)
        assert found == [Packet(kind, 0, body)], found


@contextmanager
def publisher(port: int) -> Iterator[Publisher]:
    with connect(f"ws://127.0.0.1:{port}/mqtt", subprotocols=[Subprotocol("mqtt")], compression=None) as websocket:
        yield Publisher(websocket)


if __name__ == "__main__":
    with publisher(PORT) as one:
        one.publish(sys.argv[1], sys.argv[2].encode())
