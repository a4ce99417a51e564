"""Streams and queues of the local engine, and what a service does when only a part of a request succeeds."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import boto3

from tests.faults import Answer, Exchange, Fault, Pick

REGION = "us-east-1"


class Stream:
    """A Kinesis stream of two shards."""

    def __init__(self, endpoint_url: str, name: str = "", create: bool = True) -> None:
        self.name = name or f"events-{secrets.token_hex(4)}"
        self._client: Any = boto3.client("kinesis", region_name=REGION, endpoint_url=endpoint_url)
        if create:
            self.create()

    def create(self) -> None:
        self._client.create_stream(StreamName=self.name, ShardCount=2)

    def sink(self, endpoint_url: str) -> str:
        return f"kinesis:{self.name}?region={REGION}&endpoint_url={endpoint_url}"

    def records(self) -> list[dict[str, Any]]:
        """Of the one shard that has any, in their order."""
        found = []
        for shard in self._client.list_shards(StreamName=self.name)["Shards"]:
            iterator = self._client.get_shard_iterator(
                StreamName=self.name, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            records = self._client.get_records(ShardIterator=iterator, Limit=10_000)["Records"]
            if records:
                found.append(records)
        assert len(found) <= 1, "the events of a shard are in several shards of the stream"
        return list(found[0]) if found else []

    def lines(self) -> list[bytes]:
        return [record["Data"] for record in self.records()]


class Queue:
    """An SQS queue; a name that ends with .fifo makes it one."""

    def __init__(self, endpoint_url: str, fifo: bool = False, create: bool = True) -> None:
        self.name = f"events-{secrets.token_hex(4)}" + (".fifo" if fifo else "")
        self._endpoint_url, self._fifo = endpoint_url, fifo
        self._client: Any = boto3.client("sqs", region_name=REGION, endpoint_url=endpoint_url)
        if create:
            self.create()

    def create(self) -> None:
        attributes = {"FifoQueue": "true"} if self._fifo else {}
        self._client.create_queue(QueueName=self.name, Attributes=attributes)

    def sink(self, endpoint_url: str) -> str:
        return f"sqs:{endpoint_url}/000000000000/{self.name}?region={REGION}"

    def messages(self) -> list[dict[str, Any]]:
        """What is in it, which is then gone."""
        url = f"{self._endpoint_url}/000000000000/{self.name}"
        found: list[dict[str, Any]] = []
        while got := self._client.receive_message(QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"]).get(
            "Messages"
        ):
            found += got
            for message in got:
                self._client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return found

    def lines(self) -> list[bytes]:
        return [message["Body"].encode() for message in self.messages()]


@dataclass
class InTurn:
    """One fault for each request that is picked, and then none."""

    faults: list[Fault]
    pick: Pick = field(default_factory=Pick)

    def act(self, exchange: Exchange) -> None:
        if self.faults:
            self.faults.pop(0).act(exchange)
        else:
            exchange.send(exchange.forward())


@dataclass(frozen=True, slots=True)
class FailRecords:
    """These records of a PutRecords are not taken, the others are."""

    places: tuple[int, ...]
    code: str = "ProvisionedThroughputExceededException"
    pick: Pick = field(default_factory=Pick)

    def act(self, exchange: Exchange) -> None:
        asked = json.loads(exchange.seen.body)
        kept = [record for place, record in enumerate(asked["Records"]) if place not in self.places]
        results = _results(exchange, asked | {"Records": kept}, "Records") if kept else iter(())
        failed = {"ErrorCode": self.code, "ErrorMessage": "Rate exceeded for shard 1 in stream secret"}
        told = [failed if place in self.places else next(results) for place in range(len(asked["Records"]))]
        exchange.send(_answer({"FailedRecordCount": len(self.places), "Records": told}))


@dataclass(frozen=True, slots=True)
class FailEntries:
    """These messages of a SendMessageBatch are not taken, the others are."""

    which: Callable[[int, str], bool]  # by place and body
    code: str = "InternalError"
    at_fault: bool = False
    pick: Pick = field(default_factory=Pick)

    def act(self, exchange: Exchange) -> None:
        asked = json.loads(exchange.seen.body)
        failing = [entry for place, entry in enumerate(asked["Entries"]) if self.which(place, entry["MessageBody"])]
        kept = [entry for entry in asked["Entries"] if entry not in failing]
        sent = list(_results(exchange, asked | {"Entries": kept}, "Successful")) if kept else []
        failed = [{"Id": entry["Id"], "Code": self.code, "SenderFault": self.at_fault} for entry in failing]
        exchange.send(_answer({"Successful": sent, "Failed": failed}))


def _results(exchange: Exchange, asked: dict[str, Any], name: str) -> Any:
    return iter(json.loads(exchange.forward(json.dumps(asked).encode()).body)[name])


def _answer(body: dict[str, Any]) -> Answer:
    return Answer(200, json.dumps(body).encode())
