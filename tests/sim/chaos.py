"""Random faults on a simulated fleet, then calm, then the question whether everything is served again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from supervisor.core.model import SECOND
from tests.sim.operators import operate
from tests.sim.parts import CHANCES, CLEAR, Host, Weather
from tests.sim.world import World

FAULTS = (
    "crash", "pause", "resume", "stop", "join", "crash_child", "hang_child", "outage", "storm", "calm", "delete_row",
    "steal_row", "clock_step", "cut_off", "pause_row", "resume_row",
)  # fmt: skip
MORE_FAULTS = (
    *FAULTS, "crash_in_step", "restart", "restart_with_proof", "freeze", "crash_children", "stall_child", "spoil_row",
    "mend_rows", "delete_member", "bad_link", "wish", "depose", "forget", "reload",
)  # fmt: skip
HOSTS_MAX = 6


def disturb(world: World, fault: str) -> bool:
    """One fault, on a host and a shard that the world's own generator chooses; False: there was nothing to disturb."""
    rng = world.rng
    up = [host for host in world.hosts if host.running]
    host = rng.choice(up) if up else None
    shard = rng.choice(sorted(world.rules.shards))
    if fault in _ON_FLEET:
        done = _ON_FLEET[fault](world)
    elif fault in _ON_HOST:
        done = host is not None and _ON_HOST[fault](world, host, shard)
    else:
        done = disturb_row(world, shard, fault)
    world.faults[fault] += done
    return done


def disturb_row(world: World, shard: str, fault: str) -> bool:
    return shard in world.store.leases and _ON_ROW[fault](world, shard)


# --- on the fleet -----------------------------------------------------------------------------------------


def _join(world: World) -> bool:
    few = sum(host.running for host in world.hosts) < 4
    if few:
        world.add_host()
    return few


def _restart(world: World, proof: bool) -> bool:
    """On a machine where nobody runs. The lock that proves a death knows nothing of copies of the machine."""
    places = {host.machine: host for host in world.hosts}
    empty = [host for host in places.values() if not host.running]
    if not empty or sum(host.running for host in world.hosts) >= HOSTS_MAX:
        return False
    world.restart(world.rng.choice(empty), proof)
    return True


def _go_on(world: World) -> bool:
    stopped = [host for host in world.hosts if host.running and not host.awake]
    for host in stopped:
        if host.frozen:
            world.thaw(host)
        if host.paused:
            world.resume(host)
    return bool(stopped)


def _weather(world: World, weather: Weather) -> bool:
    world.change_weather(weather)
    return True


def _storm(world: World) -> bool:
    return _weather(world, Weather(**{name: world.rng.choice((0.0, 0.1, 0.4)) for name in CHANCES}))


def _clock_step(world: World) -> bool:
    world.wall_ms += world.rng.choice((-1, 1)) * 86_400_000
    return True


def _mend_rows(world: World) -> bool:
    spoiled = list(world.store.spoiled)
    world.store.mend()
    for shard in spoiled:
        world.service.disturb_shard(shard)
    return bool(spoiled)


_ON_FLEET: dict[str, Callable[[World], bool]] = {
    "join": _join,
    "restart": lambda world: _restart(world, proof=False),
    "restart_with_proof": lambda world: _restart(world, proof=True),
    "resume": _go_on,
    "outage": lambda world: _weather(world, Weather(outage=True)),
    "storm": _storm,
    "calm": lambda world: _weather(world, CLEAR),
    "clock_step": _clock_step,
    "mend_rows": _mend_rows,
}

# --- on a host --------------------------------------------------------------------------------------------


def _crash(world: World, host: Host, shard: str) -> bool:
    world.crash(host)
    return True


def _crash_in_step(world: World, host: Host, shard: str) -> bool:
    world.doom(host, world.rng.randrange(1, 6), world.rng.randrange(4))
    return True


def _pause(world: World, host: Host, shard: str) -> bool:
    if host.paused:
        return False
    world.pause(host)
    return True


def _freeze(world: World, host: Host, shard: str) -> bool:
    if host.frozen:
        return False
    world.freeze(host)
    return True


def _stop(world: World, host: Host, shard: str) -> bool:
    world.stop(host)
    return True


def _crash_child(world: World, host: Host, shard: str) -> bool:
    there = shard in host.children and not host.frozen
    if there:
        world.crash_child(host, shard)
    return there


def _crash_children(world: World, host: Host, shard: str) -> bool:
    """Its fork server died, and they with it."""
    there = bool(host.children) and not host.frozen
    for name in list(host.children) if there else []:
        world.crash_child(host, name)
    return there


def _reload(world: World, host: Host, shard: str) -> bool:
    """Some of its shards changed; and sometimes the lease duration, which other hosts still have as it was."""
    outdated = frozenset(name for name in sorted(world.rules.shards) if world.rng.random() < 0.5)
    shorter = world.rng.choice((1, 1, 2))
    rules = replace(
        world.rules,
        duration_ns=world.rules.duration_ns // shorter,
        renew_every_ns=world.rules.renew_every_ns // shorter,
        attempt_ns=world.rules.attempt_ns // shorter,
        margin_ns=world.rules.margin_ns // shorter,
    )
    world.reload(host, rules, outdated)
    return True


def _hang_child(world: World, host: Host, shard: str) -> bool:
    there = shard in host.children
    world.hang_child(host, shard)
    return there


def _stall_child(world: World, host: Host, shard: str) -> bool:
    world.children.stalls.add(shard)
    return True


def _cut_off(world: World, host: Host, shard: str) -> bool:
    world.change_weather(Weather(outage=True), host)
    return True


def _bad_link(world: World, host: Host, shard: str) -> bool:
    """One thing goes wrong with the messages of one host: always, or often."""
    world.change_weather(Weather(**{world.rng.choice(CHANCES): world.rng.choice((0.5, 1.0))}), host)
    return True


def _delete_member(world: World, host: Host, shard: str) -> bool:
    there = host.state.me in world.store.members
    world.store.members.pop(host.state.me, None)
    world.note(f"the member row of {host.state.me} is deleted")
    return there


_ON_HOST: dict[str, Callable[[World, Host, str], bool]] = {
    "crash": _crash,
    "crash_in_step": _crash_in_step,
    "pause": _pause,
    "freeze": _freeze,
    "stop": _stop,
    "crash_child": _crash_child,
    "crash_children": _crash_children,
    "hang_child": _hang_child,
    "reload": _reload,
    "stall_child": _stall_child,
    "cut_off": _cut_off,
    "bad_link": _bad_link,
    "delete_member": _delete_member,
}

# --- on a row ---------------------------------------------------------------------------------------------


def _change_row(world: World, shard: str, what: str, **changes: object) -> bool:
    world.note(f"somebody {what} the row of {shard}")
    world.store.leases[shard] = replace(world.store.leases[shard], **changes)
    world.service.disturb_shard(shard)
    world.service.wishes.written(shard)
    return True


def _steal_row(world: World, shard: str) -> bool:
    epoch = world.store.leases[shard].epoch + 1
    world.changed_ns[shard] = world.now_ns
    return _change_row(world, shard, "steals", owner="thief:1:00", epoch=epoch, beat=0, nonce="x")


def _delete_row(world: World, shard: str) -> bool:
    world.note(f"somebody deletes the row of {shard}")
    del world.store.leases[shard]
    world.service.disturb_shard(shard)
    return True


def _spoil_row(world: World, shard: str) -> bool:
    world.note(f"somebody spoils the row of {shard}")
    world.store.spoil(shard)
    world.service.disturb_shard(shard)
    return True


_ON_ROW: dict[str, Callable[[World, str], bool]] = {
    "delete_row": _delete_row,
    "steal_row": _steal_row,
    "spoil_row": _spoil_row,
    **{what: partial(operate, what) for what in ("wish", "pause_row", "resume_row", "depose", "forget")},
}

# --- afterwards -------------------------------------------------------------------------------------------


def calm_down(world: World) -> None:
    """Calm weather, nobody stopped, no row paused or spoiled, at least one supervisor that stays."""
    world.change_weather(CLEAR)
    world.children.stalls.clear()
    _go_on(world)
    _mend_rows(world)
    world.calmed_ns = world.now_ns
    for shard, row in world.store.leases.items():
        if row.paused:
            _change_row(world, shard, "resumes", paused=False)
    for host in world.hosts:
        host.doom = None
    if not any(host.running and host.state.drain is None for host in world.hosts):
        world.add_host()


def recover(world: World) -> None:
    """After everything has calmed down every shard must be served again in time."""
    calm_down(world)
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
