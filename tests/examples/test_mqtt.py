"""`examples/mqtt` against mosquitto."""

from __future__ import annotations

from pathlib import Path

from tests import engines
from tests.examples.application import EXAMPLES, application, events, kill_child
from tests.examples.publisher import publisher
from tests.process.host import Host
from tests.wait import until

TOPIC = "sensors/kitchen/counter"


def payloads(host: Host, topic: str) -> list[str]:
    return [event["data"]["payload"] for event in events(host) if event["data"]["topic"] == topic]


def test_no_message_of_quality_1_is_lost_by_kills_and_stops_and_each_comes_to_the_shard_that_wants_it(
    tmp_path: Path,
) -> None:
    with (
        engines.mosquitto(EXAMPLES / "mqtt" / "mosquitto.conf") as broker,
        application("mqtt", tmp_path, broker.port) as host,
        publisher(broker.port) as sensor,
    ):

        def subscribed(place: str) -> bool:
            sensor.publish(f"sensors/{place}/hello", b"hello", qos=0)
            return payloads(host, f"sensors/{place}/hello") != []

        for place in ("kitchen", "cellar"):
            until(lambda place=place: subscribed(place), 20, 0.1)

        sent: list[str] = []

        def publish(count: int) -> None:
            for _ in range(count):
                sent.append(str(len(sent)))
                sensor.publish(TOPIC, sent[-1].encode())

        publish(300)
        kill_child(host, "sensors/kitchen")
        publish(300)
        until(lambda: sent[-1] in payloads(host, TOPIC), 20)
        publish(100)
        assert host.stop() == 0
        publish(100)  # while nobody is there
        host.start()
        until(lambda: sent[-1] in payloads(host, TOPIC), 20)
        assert set(payloads(host, TOPIC)) == set(sent)
        assert host.stop() == 0
    first_copies = list(dict.fromkeys(payloads(host, TOPIC)))
    assert first_copies == sent
    assert {event["shard"] for event in events(host) if event["data"]["topic"] == TOPIC} == {"sensors/kitchen"}
    assert not host.log("handler.failed")
