"""What the lease set and the children obey, as the settings say it, and what of it a reload changes. Pure."""

from __future__ import annotations

from dataclasses import replace

from supervisor.configuration.digest import digest_of
from supervisor.configuration.settings import Settings, Stream, restart_needed
from supervisor.core.model import MS, Rules, ShardRule
from supervisor.place import Place
from workers.sinks.choice import is_class


def rules_of(settings: Settings, place: Place, version: str) -> Rules:
    """The rules in the units of the lease set."""
    return Rules(
        fleet=settings.fleet,
        shards={
            shard: ShardRule(stream.outage_policy, max(1, len(stream.spec.url)))
            for shard, stream in settings.shards.items()
        },
        capacity=settings.capacity,
        duration_ns=settings.lease_duration_ms * MS,
        renew_every_ns=settings.renew_interval_ms * MS,
        poll_every_ns=settings.poll_interval_ms * MS,
        attempt_ns=settings.call_timeout_ms * MS,
        margin_ns=settings.margin_ms * MS,
        start_ns=settings.start_timeout_ms * MS,
        hang_ns=settings.hang_timeout_ms * MS,
        stop_ns=settings.stop_timeout_ms * MS,
        crash_limit=settings.crash_limit,
        crash_window_ns=settings.crash_window_ms * MS,
        host=place.host,
        task=place.task,
        zone=place.zone,
        version=version,
        digest=settings.digest,
    )


def code_of(settings: Settings) -> dict[str, str]:
    """All code of users that children run, by the reference in the file: whose it is, in words."""
    uses: dict[str, list[str]] = {}
    for stream in settings.streams:
        if stream.spec.handler:
            uses.setdefault(stream.spec.handler, []).append(f"handler of [stream:{stream.name}]")
        if is_class(stream.spec.sink):
            uses.setdefault(stream.spec.sink, []).append(f"sink of [stream:{stream.name}]")
    return {reference: " and ".join(words) for reference, words in uses.items()}


def with_what_stays(old: Settings, new: Settings) -> Settings:
    """The new settings, but for what only a restart can change."""
    kept = replace(new, **{name: getattr(old, name) for name in restart_needed(old, new)})
    return replace(kept, digest=digest_of(kept))


def outdated(old: Settings, new: Settings) -> frozenset[str]:
    """The shards of both whose children were told something else than they would be told now."""
    before, after = old.shards, new.shards
    return frozenset(
        shard for shard in before.keys() & after.keys() if _told(old, shard, before) != _told(new, shard, after)
    )


def _told(settings: Settings, shard: str, streams: dict[str, Stream]) -> tuple[object, ...]:
    """Of what a child is told, and of what its lease promises, all that a configuration can change."""
    stream = streams[shard]
    index = stream.indices[stream.shards.index(shard)]
    modules = settings.python_path if stream.spec.handler else ()
    return stream.spec, index, stream.environment, stream.outage_policy, modules
