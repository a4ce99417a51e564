"""MQTT 3.1.1 over WebSocket: a subscriber with a session that the broker keeps while nobody is connected.

What it shows: a binary protocol whose packets do not care for the borders of messages; QoS 1, acknowledged by
`when_safe` only once the event is safe in the sink; the broker's keep-alive by `every`; a farewell in `stop`.

Emitted is each message, {"topic", "payload" or "payload_base64", "repeated"}. None of QoS 1 is lost, whoever is killed;
some come twice, marked as repeated, as QoS 1 has it. Acknowledgements leave four times a second, so the broker needs a
`max_inflight_messages` of a quarter of the rate (mosquitto's 20: 80 messages/s). MQTT_USER and MQTT_PASSWORD come from
the environment, if there are any. Leave `max_age` off: a broker lets a client connect once.
"""

from __future__ import annotations

import base64
import json
import os

import mqtt_packets as mqtt
from mqtt_packets import Kind, Packet, Packets

from tenured import Connection, Handler, Message, Shard, Timer

KEEP_ALIVE_S = 30
QOS = 1
NO_SENSE = 4002


class Subscriber(Handler):
    def start(self, shard: Shard) -> None:
        self.client = "tenured-" + shard.name.replace("/", "-")  # the same on each host: it names the session
        self.topic = f"{shard.name}/#"
        self.packets = Packets()
        self.opening = 0  # how often the connection was opened: identifiers mean something on one connection only
        self.ping: Timer | None = None
        self.connection: Connection | None = None

    def opened(self, connection: Connection) -> None:
        self.packets = Packets()
        self.opening += 1
        self.connection = connection
        user, password = os.environ.get("MQTT_USER", ""), os.environ.get("MQTT_PASSWORD", "")
        connection.send(mqtt.connect(self.client, KEEP_ALIVE_S, clean=False, user=user, password=password))

    def message(self, connection: Connection, message: Message) -> None:
        try:
            for packet in self.packets.feed(message if isinstance(message, bytes) else b""):
                self.take(connection, packet)
        except mqtt.Malformed:
            connection.close(NO_SENSE)
            raise

    def take(self, connection: Connection, packet: Packet) -> None:
        match packet.kind:
            case Kind.PUBLISH:
                self.pass_on(connection, mqtt.published(packet))
            case Kind.CONNACK:
                self.agree(connection, packet, mqtt.ACCEPTED)
                # also in a session that is still there: the last child may have died before it subscribed
                connection.send(mqtt.subscribe(1, self.topic, QOS))
                self.ping = self.every(KEEP_ALIVE_S / 2, lambda: connection.send(mqtt.ping()))
            case Kind.SUBACK:
                self.agree(connection, packet, QOS)

    def agree(self, connection: Connection, packet: Packet, expected: int) -> None:
        if packet.result != expected:
            connection.close()
            raise PermissionError(f"the broker answered {packet.result} to our {Kind(packet.kind - 1).name}")

    def pass_on(self, connection: Connection, message: mqtt.Publish) -> None:
        event: dict[str, str | bool] = {"topic": message.topic, "repeated": message.repeated}
        try:
            event["payload"] = message.payload.decode()
        except UnicodeDecodeError:
            event["payload_base64"] = base64.b64encode(message.payload).decode()
        self.emit(json.dumps(event))
        if message.qos:
            opening = self.opening
            self.when_safe(lambda: self.acknowledge(connection, opening, message.identifier))

    def acknowledge(self, connection: Connection, opening: int, identifier: int) -> None:
        if opening == self.opening:
            connection.send(mqtt.acknowledge(identifier))

    def stop(self) -> None:
        if self.connection is not None:
            self.connection.send(mqtt.disconnect())

    def closed(self, connection: Connection, code: int, reason: str) -> None:
        self.connection = None
        if self.ping is not None:
            self.ping.cancel()
