"""Random faults on a simulated fleet, then calm, then the question whether everything is served again."""

from __future__ import annotations

from dataclasses import replace

from supervisor.model import SECOND
from tests.sim.parts import Weather
from tests.sim.world import World

FAULTS = (
    "crash", "pause", "resume", "stop", "join", "crash_child", "hang_child", "outage", "storm", "calm", "delete_row",
    "steal_row", "clock_step", "cut_off", "pause_row", "resume_row",
)  # fmt: skip


def disturb(world: World, fault: str) -> None:
    """One fault, on a host and a shard that the world's own generator chooses."""
    rng = world.rng
    up = [host for host in world.hosts if host.up and host.exit_code is None]
    host = rng.choice(up) if up else None
    shard = rng.choice(sorted(world.rules.shards))
    row = world.store.leases.get(shard)
    if fault == "join" and len(up) < 4:
        world.add_host()
    elif fault == "crash" and host:
        world.crash(host)
    elif fault == "pause" and host:
        world.pause(host)
    elif fault == "resume":
        for paused in world.hosts:
            if paused.up and paused.paused:
                world.resume(paused)
    elif fault == "stop" and host:
        world.stop(host)
    elif fault == "crash_child" and host:
        world.crash_child(host, shard)
    elif fault == "hang_child" and host:
        world.hang_child(host, shard)
    elif fault == "outage":
        world.weather = Weather(outage=True)
    elif fault == "storm":
        chances = {name: rng.choice((0.0, 0.1, 0.4)) for name in Weather.__slots__ if name != "outage"}
        world.weather = Weather(**chances)
    elif fault == "calm":
        world.weather = Weather()
        for other in world.hosts:
            other.weather = None
    elif fault == "cut_off" and host:
        host.weather = Weather(outage=True)
    elif fault == "clock_step":
        world.wall_ms += rng.choice((-1, 1)) * 86_400_000
    elif row and fault == "delete_row":
        del world.store.leases[shard]
    elif row and fault in ("pause_row", "resume_row"):
        world.store.leases[shard] = replace(row, paused=fault == "pause_row")
    elif row and fault == "steal_row":
        world.store.leases[shard] = replace(row, owner="thief:1:00", epoch=row.epoch + 1, beat=0, nonce="x")


def recover(world: World) -> None:
    """Calm weather, nobody paused, at least one supervisor; then every shard must be served again in time."""
    disturb(world, "calm")
    disturb(world, "resume")
    for shard, row in world.store.leases.items():
        world.store.leases[shard] = replace(row, paused=False)
    if not any(host.up and host.exit_code is None and host.state.drain is None for host in world.hosts):
        world.add_host()
    rules = world.rules
    # A lease of the dead expires after T and a poll; a child that hangs is seen after hang_ns; a crash may have to
    # wait for its backoff.
    bound_s = (2 * rules.duration_ns + 4 * rules.poll_every_ns + rules.hang_ns + 2 * rules.crash_window_ns) / SECOND
    everything = set(rules.shards)
    assert world.run(bound_s, until=lambda: world.served() == everything), world.report(
        f"not served again: {sorted(everything - world.served())}"
    )


def settled(world: World, seconds: float = 30) -> World:
    """The world once every shard is served."""
    everything = set(world.rules.shards)
    assert world.run(seconds, until=lambda: world.served() == everything), world.report("not all are served")
    return world
