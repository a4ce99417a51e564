"""A local WebSocket feed that keeps its own record of who was connected, under which epoch, from when to when.

    python -m supervisor.demo.feed --port 0 --rate 20 --record FILE

One path per shard: `/SHARD?epoch=N&supervisor=NAME&connection=N&from=N`, all parameters optional. It sends
`{"shard": ..., "seq": n, "at": ns}`; `seq` is global to the shard and advances whether or not anybody is
connected. A client begins at the present event; `from=N`, or a message `{"op": "subscribe", "from": N}`, makes
it begin at event N, as far back as the feed remembers. The first line on stdout is `{"port": N}`.

The record (JSON lines, CLOCK_BOOTTIME nanoseconds) is what verdicts are made of, so it holds what the *server*
saw: `opened` after the upgrade, `closed` when the end of the TCP connection was read, with the close code with
which the client began to close (1006: it did not). It ends at SIGTERM, or when a pipe on its stdin ends, so that it
never outlives its starter.
It is no load generator: it is made to be right, not fast.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import stat
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from supervisor.demo.schedule import SECOND_NS, Schedule
from workers.process.kernel import boottime_ns

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection
    from websockets.exceptions import ConnectionClosed

MISSING = "the demo's feed needs the library websockets: pip install 'tenured[demo]'"


class Record:
    """The record file: one line per write, so that a reader sees whole lines but for the last."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, event: str, **fields: object) -> None:
        line = json.dumps({"event": event, "at": boottime_ns(), **fields}) + "\n"
        os.write(self._fd, line.encode())


class Client:
    """One connection: what it asked for and which events it was sent."""

    def __init__(self, number: int, path: str, peer: str, schedule: Schedule) -> None:
        parts = urlsplit(path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        self.shard = unquote(parts.path).strip("/")
        self.labels: dict[str, object] = {
            "number": number,
            "shard": self.shard,
            "epoch": _number(query.get("epoch")) or 0,
            "supervisor": query.get("supervisor", ""),
            "connection": _number(query.get("connection")) or 0,
            "peer": peer,
        }
        self._schedule = schedule
        self._sent: list[list[int]] = []
        self._first = self.next = schedule.first(_number(query.get("from")), boottime_ns())

    def rewind(self, wanted: int) -> None:
        self._sent = self.sent
        self._first = self.next = self._schedule.first(wanted, boottime_ns())

    @property
    def sent(self) -> list[list[int]]:
        """Ranges `[first, last]` of the events it was sent; one, but for a client that subscribed late."""
        return [*self._sent, [self._first, self.next - 1]] if self.next > self._first else self._sent

    def event(self) -> str:
        shard, seq = json.dumps(self.shard), self.next
        return f'{{"shard": {shard}, "seq": {seq}, "at": {self._schedule.at_ns(seq)}}}'


class Feed:
    """Serves every path. All of it runs on one event loop; one task sends and one receives per client."""

    def __init__(self, record: Record, schedule: Schedule) -> None:
        self._record = record
        self._schedule = schedule
        self._numbers = count(1)
        record.write("started", started=schedule.started_ns, rate=schedule.rate, keep=schedule.keep)

    async def serve(self, socket: ServerConnection) -> None:
        path = socket.request.path if socket.request else "/"
        peer = ":".join(str(part) for part in socket.remote_address[:2])
        client = Client(next(self._numbers), path, peer, self._schedule)
        self._record.write("opened", **client.labels)
        async with asyncio.TaskGroup() as group:
            sender = group.create_task(self._send(socket, client))
            ended = await self._receive(socket, client)
            sender.cancel()
        # The far end's code only if the far end began to close: an echo of our own says nothing about it.
        said = ended.rcvd if ended.rcvd and ended.rcvd_then_sent else None
        self._record.write("closed", **client.labels, code=said.code if said else 1006, sent=client.sent)

    async def _receive(self, socket: ServerConnection, client: Client) -> ConnectionClosed:
        from websockets.exceptions import ConnectionClosed

        while True:
            try:
                message = await socket.recv()
            except ConnectionClosed as ended:
                return ended
            wanted = _subscription(message)
            if wanted is not None:
                client.rewind(wanted)
            text = message if isinstance(message, str) else message.hex()
            self._record.write("received", **client.labels, text=text[:1000])

    async def _send(self, socket: ServerConnection, client: Client) -> None:
        from websockets.exceptions import ConnectionClosed

        if not self._schedule.rate:
            return
        try:
            while True:
                due = self._schedule.due(boottime_ns())
                while client.next <= due:
                    event = client.event()
                    client.next += 1  # before the send: a rewind may come while it waits
                    await socket.send(event)
                wait_ns = self._schedule.at_ns(client.next) - boottime_ns()
                await asyncio.sleep(max(0, wait_ns) / SECOND_NS)
        except ConnectionClosed:
            return


def _subscription(message: str | bytes) -> int | None:
    """The event that a message asks to begin at; None: it asks for nothing that this feed knows."""
    try:
        request = json.loads(message)
    except ValueError:
        return None
    if not isinstance(request, dict) or request.get("op") != "subscribe":
        return None
    return _number(request.get("from"))


def _number(text: Any) -> int | None:
    try:
        return int(text)
    except (TypeError, ValueError):
        return None


def _read_or_stop(stopping: asyncio.Event) -> None:
    if not os.read(0, 4096):
        stopping.set()


async def serve(port: int, rate: int, record: Path) -> None:
    """Serve on 127.0.0.1 until SIGTERM, SIGINT or the end of stdin. Raises OSError if the port cannot be had."""
    from websockets.asyncio.server import serve as websocket_serve

    feed = Feed(Record(record), Schedule(boottime_ns(), rate))
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    if stat.S_ISFIFO(os.fstat(0).st_mode):  # a terminal, a file or /dev/null is nobody who could go away
        loop.add_reader(0, _read_or_stop, stopping)
    # No pings of its own and no compression: what the client does on silence is the client's affair.
    server = await websocket_serve(
        feed.serve, "127.0.0.1", port, compression=None, ping_interval=None, close_timeout=2, max_size=65536
    )
    async with server:
        address = next(iter(server.sockets)).getsockname()
        print(json.dumps({"port": address[1]}), flush=True)
        await stopping.wait()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="supervisor.demo.feed", description="A local WebSocket feed with a record.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--rate", type=int, default=20, help="events a second for each shard")
    parser.add_argument("--record", type=Path, required=True, help="file that the record is appended to")
    options = parser.parse_args(arguments)
    try:
        asyncio.run(serve(options.port, options.rate, options.record))
    except ImportError:
        print(MISSING, file=sys.stderr)
        return os.EX_UNAVAILABLE
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        print(
            f"the feed cannot serve 127.0.0.1:{options.port} and record into {options.record}: {reason}",
            file=sys.stderr,
        )
        return os.EX_CANTCREAT
    return 0


if __name__ == "__main__":
    sys.exit(main())
