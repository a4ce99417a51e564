"""Of the packets, and of the handler alone, without a supervisor and a broker."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import mqtt_packets as mqtt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mqtt_packets import Kind, Malformed, Packet, Packets, Publish
from mqtt_subscriber import KEEP_ALIVE_S, Subscriber

from workers.testing import Rig

CONNACK, SUBACK = bytes([0x20, 2, 0, 0]), bytes([0x90, 3, 0, 1, 1])

TOPICS = st.text(st.characters(codec="utf-8"), max_size=50)
MESSAGES = st.builds(
    Publish,
    topic=TOPICS,
    payload=st.one_of(st.binary(max_size=300), st.integers(16_000, 17_000).map(bytes)),
    qos=st.just(1),
    identifier=st.integers(1, 65_535),
    repeated=st.booleans(),
    retained=st.booleans(),
)


# --- packets ----------------------------------------------------------------------------------------------


@given(st.lists(MESSAGES, max_size=5), st.lists(st.integers(0, 100_000), max_size=20))
def test_messages_survive_whatever_pieces_they_arrive_in(messages: list[Publish], cuts: list[int]) -> None:
    data = b"".join(map(mqtt.publish, messages))
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    packets = Packets()
    found = [packet for begin, end in pairwise(edges) for packet in packets.feed(data[begin:end])]
    assert [mqtt.published(packet) for packet in found] == messages


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_whatever_arrives_is_packets_or_malformed(pieces: list[bytes]) -> None:
    packets = Packets()
    try:
        for packet in [packet for piece in pieces for packet in packets.feed(piece)]:
            mqtt.published(packet)
    except Malformed:
        return


def test_a_message_of_quality_0_has_no_identifier() -> None:
    message = Publish("a", b"b")
    (packet,) = Packets().feed(mqtt.publish(message))
    assert packet == Packet(Kind.PUBLISH, 0, b"\0\1ab")
    assert mqtt.published(packet) == message


@pytest.mark.parametrize("data", [b"\x30\xff\xff\xff\xff\x7f", b"\x30\xff\xff\xff\x7f"])
def test_lengths_that_do_not_end_or_are_too_large_are_refused_before_anything_is_waited_for(data: bytes) -> None:
    with pytest.raises(Malformed):
        Packets().feed(data)


def test_packets_are_those_of_the_specification() -> None:
    flags_and_keep_alive = b"\xc2\0\x1e"
    texts = b"\0\2id\0\1u\0\1p"
    assert mqtt.connect("id", 30, True, "u", "p") == b"\x10\x14\0\4MQTT\4" + flags_and_keep_alive + texts
    assert mqtt.connect("id", 30, False) == b"\x10\x0e\0\4MQTT\4\0\0\x1e\0\2id"
    assert mqtt.subscribe(1, "a/#", 1) == b"\x82\x08\0\1\0\3a/#\1"
    assert [mqtt.acknowledge(258), mqtt.ping(), mqtt.disconnect()] == [b"\x40\2\1\2", b"\xc0\0", b"\xe0\0"]


# --- the handler ------------------------------------------------------------------------------------------


@pytest.fixture
def rig() -> Rig[Subscriber]:
    rig = Rig(Subscriber, shard="sensors/kitchen")
    rig.opened()
    return rig


def events(rig: Rig[Subscriber]) -> list[Any]:
    return [json.loads(event) for event in rig.events]


def test_it_asks_for_its_session_and_always_subscribes(rig: Rig[Subscriber]) -> None:
    rig.receive(CONNACK + SUBACK)
    session = mqtt.connect("tenured-sensors-kitchen", KEEP_ALIVE_S, clean=False)
    assert rig.sent() == [session, mqtt.subscribe(1, "sensors/kitchen/#", 1)]


def test_it_says_who_it_is_if_the_environment_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQTT_USER", "me")
    monkeypatch.setenv("MQTT_PASSWORD", "secret")
    rig = Rig(Subscriber, shard="sensors/kitchen")
    rig.opened()
    assert rig.sent() == [mqtt.connect("tenured-sensors-kitchen", KEEP_ALIVE_S, False, "me", "secret")]


def test_messages_are_emitted_and_those_of_quality_1_acknowledged(rig: Rig[Subscriber]) -> None:
    rig.receive(CONNACK)
    data = b"".join(
        map(mqtt.publish, [Publish("a", b"21.5"), Publish("b", b"\xff", 1, 7), Publish("c", b"x", 1, 8, repeated=True)])
    )
    rig.receive(data[:9], data[9:])
    assert events(rig) == [
        {"topic": "a", "payload": "21.5", "repeated": False},
        {"topic": "b", "payload_base64": "/w==", "repeated": False},
        {"topic": "c", "payload": "x", "repeated": True},
    ]
    assert rig.sent()[2:] == [mqtt.acknowledge(7), mqtt.acknowledge(8)]


def test_an_identifier_of_a_connection_that_is_gone_is_not_acknowledged_on_the_next_one(
    rig: Rig[Subscriber], monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[Any] = []
    monkeypatch.setattr(rig.handler, "when_safe", late.append)
    rig.receive(CONNACK)
    rig.receive(mqtt.publish(Publish("a", b"x", 1, 7)))
    rig.closed()
    rig.opened()
    (acknowledge,) = late
    acknowledge()
    assert mqtt.acknowledge(7) not in rig.sent()


def test_it_pings_while_it_is_connected(rig: Rig[Subscriber]) -> None:
    rig.receive(CONNACK)
    rig.advance(KEEP_ALIVE_S)
    assert rig.sent()[2:] == [mqtt.ping()] * 2
    rig.closed()
    rig.opened()
    rig.advance(KEEP_ALIVE_S)
    assert rig.sent()[4:] == [mqtt.connect("tenured-sensors-kitchen", KEEP_ALIVE_S, False)]


def test_a_stop_says_goodbye_and_keeps_the_session(rig: Rig[Subscriber]) -> None:
    rig.stop()
    assert rig.sent()[1:] == [mqtt.disconnect()]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"\x20\2\0\5", "answered 5 to our CONNECT"),
        (b"\x90\3\0\1\x80", "answered 128 to our SUBSCRIBE"),
        (b"\x20\0", "is empty"),
        (b"\x30\xff\xff\xff\xff", "a packet of 268435455 bytes"),
    ],
)
def test_what_the_broker_refuses_or_garbles_is_told_and_the_connection_given_up(
    rig: Rig[Subscriber], message: bytes, said: str
) -> None:
    with pytest.raises((PermissionError, Malformed), match=said):
        rig.receive(message)
    assert len(rig.close_codes()) == 1
