"""Other people's receive paths, as fast as they can be set: what one message costs them in CPU.

    python -m tests.bench.receivers NAME URL MESSAGES

Prints microseconds of CPU (user + system, all threads) for each message, start and connect left out, and ends without
a closing, which some of them wait for behind a server that never stops. Each hands over the text of a message, as its
users get it; those that can do without a check or a feature that costs time do: websocket-client without its check of
UTF-8 (another 240 us at 1 KB), websockets and aiohttp without compression and limit.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from tests.bench.firehose import CERTIFICATE

WARM_UP = 1000


class Meter:
    """CPU between two moments, for each of the messages between them."""

    def __init__(self, messages: int) -> None:
        self._messages = messages
        self._begun_s = time.process_time()

    def end(self) -> NoReturn:
        print((time.process_time() - self._begun_s) / self._messages * 1e6, flush=True)
        os._exit(0)


def drain(receive: Callable[[], object], messages: int) -> None:
    for _ in range(WARM_UP):
        receive()
    meter = Meter(messages)
    for _ in range(messages):
        receive()
    meter.end()


def context(url: str) -> ssl.SSLContext | None:
    return ssl.create_default_context(cafile=CERTIFICATE) if url.startswith("wss") else None


def websocket_client(url: str, messages: int) -> None:
    import websocket

    client = websocket.WebSocket(skip_utf8_validation=True, enable_multithread=False, sslopt={"ca_certs": CERTIFICATE})
    client.connect(url)
    drain(client.recv, messages)


def websockets_sync(url: str, messages: int) -> None:
    from websockets.sync.client import connect

    with connect(url, compression=None, max_size=None, ssl=context(url)) as client:
        drain(client.recv, messages)


def aiohttp(url: str, messages: int) -> None:
    import aiohttp

    async def run() -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url, compress=0, max_msg_size=0, ssl=context(url) or True) as client,
        ):
            receive = client.receive_str
            for _ in range(WARM_UP):
                await receive()
            meter = Meter(messages)
            for _ in range(messages):
                await receive()
            meter.end()

    asyncio.run(run())


def picows(url: str, messages: int) -> None:
    from picows import WSFrame, WSListener, WSTransport, ws_connect

    class Listener(WSListener):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.count = 0
            self.meter = Meter(messages)
            self.text = ""

        def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
            self.text = frame.get_payload_as_utf8_text()
            self.count += 1
            if self.count == WARM_UP:
                self.meter = Meter(messages)
            elif self.count == WARM_UP + messages:
                self.meter.end()

    async def run() -> None:
        transport, _ = await ws_connect(Listener, url, ssl_context=context(url))
        await transport.wait_disconnected()

    asyncio.run(run())


RECEIVERS: dict[str, Callable[[str, int], None]] = {
    "websocket-client": websocket_client,
    "websockets": websockets_sync,
    "aiohttp": aiohttp,
    "picows": picows,
}

if __name__ == "__main__":
    RECEIVERS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
