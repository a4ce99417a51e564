"""A feed that forgets nothing: the events of each shard are numbered, and a connection gets those after the number that
it asks for.

    ws://.../s/3?from=41        begins with event 42 of shard s/3; {"seq": 42, "shard": "s/3"}

Event n exists from n times the interval on, whether anybody listens or not, until `end` says that there are no more.
"""

from __future__ import annotations

import json
import threading
import time
from urllib.parse import parse_qs, urlsplit

from tests.feed import CLOSE, TEXT, Feed, Peer, frame

_CHUNK = 500


class ResumableFeed(Feed):
    def __init__(self, rate: int) -> None:
        """`rate`: events of each shard in a second."""
        super().__init__(self._behave)
        self._rate = rate
        self._began_s = time.monotonic()
        self._last: int | None = None

    @property
    def newest(self) -> int:
        """The number of the newest event, alike in all shards."""
        return int((time.monotonic() - self._began_s) * self._rate) if self._last is None else self._last

    def end(self) -> int:
        """No more events; the number of the last one."""
        self._last = self.newest
        return self._last

    def asked(self) -> list[int]:
        """Where each connection went on from."""
        return [_from(connect.path) for connect in list(self.connects)]

    def _behave(self, peer: Peer) -> None:
        peer.accept()
        shard, position = urlsplit(peer.path).path[1:], _from(peer.path)
        said_goodbye = threading.Event()
        threading.Thread(target=_listen, args=(peer, said_goodbye), daemon=True).start()
        while not self.closing.is_set():
            if said_goodbye.wait(0.005):
                peer.close(1000)
                return
            until = min(self.newest, position + _CHUNK)
            numbers = range(position + 1, until + 1)
            if numbers:
                events = (json.dumps({"seq": number, "shard": shard}).encode() for number in numbers)
                peer.raw(b"".join(frame(TEXT, event) for event in events))
                position = until


def _from(path: str) -> int:
    return int(parse_qs(urlsplit(path).query)["from"][0])


def _listen(peer: Peer, said_goodbye: threading.Event) -> None:
    """Until the close frame, or the end of the connection, which the other thread sees for itself."""
    try:
        while peer.next_frame()[0] != CLOSE:
            pass
    except OSError:
        return
    said_goodbye.set()
