"""The fast path of the parser: whole text and binary messages with short headers, nearly all there are.

Speed is why it is written like this: here a message costs a slice, a decode and an append. A call, a lock or a dict
entry for each message would cost more than its parsing. What it does not know, it leaves where it is.
"""

from __future__ import annotations

import struct

from workers.websocket.frames import BINARY, TEXT, Message

_LONGER = struct.Struct(">BBH").unpack_from


def run(data: bytes, position: int, limit: int, messages: list[Message]) -> tuple[int, int]:
    """Take whole unfragmented messages with headers of 2 or 4 bytes as long as they come: (new position, payload)."""
    append = messages.append
    end_of_data = len(data)
    last = end_of_data - 4  # where a header of 4 bytes still fits
    payload = 0
    while position <= last:
        size = data[position + 1]
        if size > 125:
            before = position
            position, taken = _run_longer(data, position, limit, messages)
            if position == before:
                break
            payload += taken
            continue
        start = position + 2
        end = start + size
        if end > end_of_data:
            break
        first = data[position]
        if first == TEXT:
            append(data[start:end].decode())
        elif first == BINARY:
            append(data[start:end])
        else:
            break
        payload += size
        position = end
    return position, payload


def _run_longer(data: bytes, position: int, limit: int, messages: list[Message]) -> tuple[int, int]:
    """The same while the headers have 4 bytes, which are cheaper to read together."""
    append = messages.append
    end_of_data = len(data)
    last = end_of_data - 4
    payload = 0
    while position <= last:
        first, form, size = _LONGER(data, position)
        if form != 126 or size < 126 or size > limit:
            break
        start = position + 4
        end = start + size
        if end > end_of_data:
            break
        if first == TEXT:
            append(data[start:end].decode())
        elif first == BINARY:
            append(data[start:end])
        else:
            break
        payload += size
        position = end
    return position, payload
