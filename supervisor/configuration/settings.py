"""The settings of one supervisor as values: what `config` makes of the file and every other module reads.

Durations are milliseconds, sizes bytes, paths absolute. `restart_needed` says which changes a reload cannot make.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from supervisor.configuration.keys import KEYS
from workers.spec import StreamSpec


@dataclass(frozen=True, slots=True)
class Stream:
    """A `[stream:NAME]` section. `shards` are the full names, `indices` what `${index}` becomes, side by side."""

    name: str
    shards: tuple[str, ...]
    indices: tuple[str, ...]
    outage_policy: str
    environment: tuple[str, ...]  # names of variables that its children get beside the basic ones
    spec: StreamSpec


@dataclass(frozen=True, slots=True)
class Settings:
    """A whole file, checked: whoever holds one may rely on every relation that `config` checks."""

    source: str  # the path or `env:NAME` that it came from, for messages
    base: Path  # relative paths resolve against this folder
    digest: str  # of everything that matters for the fleet, to see drift between hosts; never of secrets
    fleet: str
    store: str
    state_dir: Path
    run_dir: Path
    lease_duration_ms: int
    renew_interval_ms: int
    poll_interval_ms: int
    call_timeout_ms: int
    margin_ms: int
    capacity: int
    stop_timeout_ms: int
    start_timeout_ms: int
    hang_timeout_ms: int
    crash_limit: int
    crash_window_ms: int
    log_level: str
    http: tuple[str, int] | None  # where to listen
    http_hosts: tuple[str, ...]  # in lower case, without ports; an address of version 6 in brackets
    python_path: tuple[str, ...]
    streams: tuple[Stream, ...]

    @property
    def shards(self) -> dict[str, Stream]:
        """Every shard's stream, in the order of the file."""
        return {shard: stream for stream in self.streams for shard in stream.shards}


def restart_needed(old: Settings, new: Settings) -> tuple[str, ...]:
    """The keys whose values differ and that only a restart can change, in the order of the table."""
    return tuple(key.name for key in KEYS if key.restart and getattr(old, key.name) != getattr(new, key.name))
