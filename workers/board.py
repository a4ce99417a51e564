"""The board: shared memory through which the parent and its children tell each other numbers.

One memfd, one slot of `SLOT_BYTES` per child. The parent writes `EPOCH` and `DEADLINE`, the child all the
rest. Each field is one aligned native 8-byte store through `memoryview.cast("q")`, so that a reader sees the
old or the new value and nothing else; `struct.pack_into` zero-fills first and would show a reader 0, which for
a deadline means "passed". A text (the checkpoint, the trouble) is larger than a word: it has two buffers and a
generation written last, and the reader checks that the generation did not move while it copied, and a checksum
besides, because some processors let another core see our stores in another order.

A slot is freed by the parent only after it saw the child dead. Times are CLOCK_BOOTTIME nanoseconds, 0 = never.
"""

from __future__ import annotations

import mmap
import os
import zlib
from dataclasses import dataclass

SLOTS = 4096
SLOT_BYTES = 8192
CHECKPOINT_MAX_BYTES = 2048
TROUBLE_MAX_BYTES = 160  # a whole row with it stays within a write unit

# words of a slot
EPOCH = 0  # written by the parent, last, when it holds the pidfd: the child's permission to begin
DEADLINE = 1  # written by the parent: the child must not deliver at or after this instant
HEARTBEAT = 2  # the child's loop turned
STARTED = 3  # the child's shard is set up (handler imported, sink open); its connections may still be down
OPEN = 4  # connections open
WANT = 5  # connections configured
MESSAGES = 6  # messages delivered since the start
BYTES = 7  # their payload bytes
LAST_EVENT = 8  # arrival of the last message
CONNECTS = 9  # successful upgrades since the start
GENERATION = 10  # of the checkpoint: 0 none, else buffer = generation % 2
TROUBLE_GENERATION = 11  # of the trouble, in the same way
HANDLER_ERRORS = 18  # exceptions of the handler since the start, as all counters below
GAPS = 19  # in the numbers that `sequence` points to
VIOLATIONS = 20  # of the WebSocket protocol by a peer (closed with 1002, 1007 or 1009)
SILENCES = 21  # connections that were found silent: no answer to a ping, or no data within the idle timeout
TOKENS_DROPPED = 22  # checkpoints that the far end refused too often, or that cannot be sent
EVENTS_DROPPED = 23  # by `overflow = drop_oldest`
SINK_WAITING = 24  # bytes of events that wait for the sink
SINK_STALLED = 25  # since when the sink takes nothing although something waits; 0: it does
SINK_RETRIES = 26  # requests that a sink had to send again
ASKED = 28  # how many attempts to connect this child has asked to begin, in its life
GRANTED = 29  # written by the parent: the last of these that was granted, after
GRANTED_AT = 30  # written by the parent: from when on that attempt may begin
REFUSED = 32  # the first of the words in which a child says which hosts asked it not to come back (see `floors`)
FLOORS = 40  # written by the parent, in the same form: what children with the same connect_key were told
WORDS = 64

_COPIES_MAX = 8


@dataclass(frozen=True, slots=True)
class _Text:
    """Where in a slot a text stands. `generation`: a word. `labels`: the two words that say checksum << 16 | length in
    bytes of a buffer. `buffers`: where the first of the two begins, which follow each other."""

    generation: int
    labels: int
    buffers: int
    max_bytes: int


_CHECKPOINT = _Text(GENERATION, 16, 1024, CHECKPOINT_MAX_BYTES)
_TROUBLE = _Text(TROUBLE_GENERATION, 12, 1024 + 2 * CHECKPOINT_MAX_BYTES, TROUBLE_MAX_BYTES)


class Slot:
    """One child's slot. `words` is for hot paths: `slot.words[MESSAGES] = n`."""

    __slots__ = ("_bytes", "number", "words")

    def __init__(self, board: memoryview, number: int) -> None:
        start = number * SLOT_BYTES
        self.number = number
        self._bytes = board[start : start + SLOT_BYTES]
        self.words = self._bytes[: WORDS * 8].cast("q")

    def clear(self) -> None:
        """Forget the last child of this slot; only the parent, only after that child was seen dead."""
        for word in range(WORDS):  # EPOCH is the first: whoever still looked would see its permission gone first
            self.words[word] = 0

    def write_checkpoint(self, token: str) -> None:
        """Raises ValueError beyond `CHECKPOINT_MAX_BYTES` of UTF-8."""
        data = token.encode()
        if len(data) > CHECKPOINT_MAX_BYTES:
            raise ValueError(f"a checkpoint has {len(data)} bytes, at most {CHECKPOINT_MAX_BYTES} are possible")
        self._write(_CHECKPOINT, data)

    def read_checkpoint(self) -> str | None:
        """The newest complete checkpoint. None: none was written, or it changes faster than it can be copied, so
        that the caller keeps what it had."""
        return self._read(_CHECKPOINT)

    def write_trouble(self, text: str) -> None:
        """What is wrong now, empty if nothing is; cut at a character where it is longer than `TROUBLE_MAX_BYTES`."""
        data = text.encode(errors="replace")[:TROUBLE_MAX_BYTES]
        self._write(_TROUBLE, data.decode(errors="ignore").encode())

    def read_trouble(self) -> str | None:
        """None: as for the checkpoint."""
        return self._read(_TROUBLE)

    def _write(self, text: _Text, data: bytes) -> None:
        generation = self.words[text.generation] + 1
        side = generation % 2
        start = text.buffers + side * text.max_bytes
        self._bytes[start : start + len(data)] = data
        self.words[text.labels + side] = zlib.crc32(data) << 16 | len(data)
        self.words[text.generation] = generation

    def _read(self, text: _Text) -> str | None:
        for _ in range(_COPIES_MAX):
            generation = self.words[text.generation]
            if generation == 0:
                return None
            side = generation % 2
            label = self.words[text.labels + side]
            length = min(label & 0xFFFF, text.max_bytes)
            start = text.buffers + side * text.max_bytes
            data = bytes(self._bytes[start : start + length])
            if self.words[text.generation] == generation and zlib.crc32(data) == label >> 16:
                return data.decode(errors="replace")
        return None


class Board:
    """All slots. `create` in the parent; `attach(fd)` in the fork server (children inherit the mapping)."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map = mmap.mmap(fd, SLOTS * SLOT_BYTES, mmap.MAP_SHARED)
        self._view = memoryview(self._map)

    @classmethod
    def create(cls) -> Board:
        fd = os.memfd_create("tenured-board", os.MFD_CLOEXEC)
        os.ftruncate(fd, SLOTS * SLOT_BYTES)
        return cls(fd)

    @classmethod
    def attach(cls, fd: int) -> Board:
        return cls(fd)

    def slot(self, number: int) -> Slot:
        return Slot(self._view, number)
