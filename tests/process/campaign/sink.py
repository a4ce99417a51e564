"""What the supervisors' sinks hold, as arrivals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from tests.process.campaign.story import Arrival


def arrivals(supervisor: str, sink: Path, unix_to_boot_ns: int) -> Iterator[Arrival]:
    """The events of one sink, in its order. A line that is torn (its child was killed in mid-write) is left out."""
    if not sink.exists():
        return
    with sink.open("rb") as file:
        for text in file:
            try:
                line = json.loads(text)
                event = json.loads(line["data"])["seq"]
                at = datetime.fromisoformat(line["received_at"])
            except (ValueError, KeyError, TypeError):
                continue
            unix_us = int(at.timestamp()) * 1_000_000 + at.microsecond
            at_ns = unix_us * 1000 + unix_to_boot_ns
            yield Arrival(supervisor, line["shard"], line["epoch"], line["seq"], event, at_ns)
