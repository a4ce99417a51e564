"""What befalls the service, one function each: its docstring says what must hold, its result is the figure.

They run in the order of `SCENARIOS`, on one machine; each leaves the service streaming its shards, unless it says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.systemd.memory import memory_bound
from tests.systemd.service import LABEL, LEASE_S, SHARDS, Service, configuration, seconds_since
from tests.wait import until
from workers.process.kernel import boottime_ns

KILL_MAX_S = 4.0
OUTAGE_S = 30.0
REFUSED_EVERY_S = 5.0
MEMORY_MAX_BYTES = 500 * 2**20
EATER = "s/2"
AWAY_STORE = "dynamodb://leases?region=eu-west-1&endpoint_url=http://127.0.0.1:9"

Scenario = Callable[[Service], str]


def installs(service: Service) -> str:
    """the commands of docs/systemd.md install it, and systemd finds no mistake"""
    start_ns = boottime_ns()
    service.install()
    assert service.machine.run("systemd-analyze verify tenured.service") == ""
    return f"{seconds_since(start_ns):.1f} s"


def starts(service: Service) -> str:
    """it is active before it streams, its children read a credential, and its folders are its own"""
    start_ns = boottime_ns()
    service.start()
    active_s = seconds_since(start_ns)
    streaming_ns = service.wait_streaming()
    assert service.newest(SHARDS[0]).supervisor == LABEL
    modes = service.machine.run("stat -c '%a %U' /var/lib/tenured /run/tenured /etc/tenured")
    assert modes.splitlines() == ["700 tenured", "700 tenured", "750 root"]
    until(lambda: service.answers("status") == 0, 10)
    return f"active after {active_s:.1f} s, streams after {seconds_since(start_ns, streaming_ns):.1f} s"


def begins_an_outage(service: Service) -> str:
    """a second service whose store nobody answers for is active at once (it is looked at again later)"""
    machine = service.machine
    unit = machine.run("tenured example unit").replace("tenured.ini", "away.ini")
    unit = re.sub(r"^(State|Runtime)Directory=tenured$", r"\1Directory=away", unit, flags=re.MULTILINE)
    folders = "state_dir = /var/lib/away\nrun_dir = /run/away\n[stream:s]"
    file = configuration(store=AWAY_STORE).replace("[stream:s]", folders).replace("${credential:label}", "away")
    machine.write("/etc/tenured/environment", "AWS_ACCESS_KEY_ID=none\nAWS_SECRET_ACCESS_KEY=none\n", 0o600)
    machine.write("/etc/tenured/away.ini", file)
    machine.write("/etc/systemd/system/away.service", unit)
    start_ns = boottime_ns()
    machine.run("systemctl daemon-reload && systemctl enable -q --now away")
    return f"active after {seconds_since(start_ns):.1f} s"


def survives_kill(service: Service) -> str:
    """kill -9 of the main process: every shard streams again within 4 s, reclaimed, without waiting for its lease"""
    claimed, start_ns = len(service.log("lease.claimed", reason="reclaimed")), boottime_ns()
    service.machine.run(f"kill -KILL {service.pid}")
    gap_s = seconds_since(start_ns, service.wait_streaming(since_ns=start_ns))
    assert len(service.log("lease.claimed", reason="reclaimed")) == claimed + len(SHARDS)
    assert gap_s < KILL_MAX_S
    return f"streams again after {gap_s:.1f} s"


def loses_one_child_to_memory(service: Service) -> str:
    """a child that eats the memory of the service is the one that the kernel takes; nothing else restarts"""
    main, children, start_ns = service.pid, service.child_pids(), boottime_ns()
    with memory_bound(service.machine, "tenured", MEMORY_MAX_BYTES) as kills:
        service.machine.write("/etc/tenured/eat", f"{EATER} {service.newest(EATER).epoch}")
        restarted_ns = service.wait_streaming([EATER], since_ns=start_ns)
        assert kills() == 1
    now = service.child_pids()
    assert (service.pid, [shard for shard in SHARDS if now[shard] != children[shard]]) == (main, [EATER])
    return f"its shard alone streams again, after {seconds_since(start_ns, restarted_ns):.1f} s"


def survives_hang(service: Service) -> str:
    """a hang of the loop: killed and replaced before a lease runs out that was last renewed a third of it earlier"""
    claimed, restarts, start_ns = len(service.log("lease.claimed", reason="reclaimed")), service.restarts, boottime_ns()
    service.machine.run(f"kill -STOP {service.pid}")
    gap_s = seconds_since(start_ns, service.wait_streaming(since_ns=start_ns))
    assert service.restarts == restarts + 1
    assert "Watchdog timeout" in service.machine.run("journalctl -u tenured -o cat --no-pager")
    assert len(service.log("lease.claimed", reason="reclaimed")) == claimed + len(SHARDS)
    assert gap_s < LEASE_S * 2 / 3
    return f"streams again after {gap_s:.1f} s, with a lease of {LEASE_S} s"


def reloads(service: Service) -> str:
    """a reload begins the shard that came, and leaves every other child alone"""
    main, children, start_ns = service.pid, service.child_pids(), boottime_ns()
    service.machine.write("/etc/tenured/tenured.ini", configuration([*SHARDS, "s/more"]))
    service.machine.run("systemctl reload tenured")
    more_s = seconds_since(start_ns, service.wait_streaming(["s/more"]))
    service.machine.write("/etc/tenured/tenured.ini", configuration())
    service.machine.run("systemctl reload tenured")
    until(lambda: not any(each.shard == "s/more" for each in service.feed.connected()), 15)
    now = service.child_pids()
    assert (service.pid, {shard: now[shard] for shard in SHARDS}) == (main, children)
    return f"the new shard streams after {more_s:.1f} s"


def rejects_a_bad_reload(service: Service) -> str:
    """a reload of an invalid file changes nothing, and systemd shows it until a valid one came"""
    main, children = service.pid, service.child_pids()
    service.machine.write("/etc/tenured/tenured.ini", configuration().replace("lease_", "leese_"))
    service.machine.run("systemctl reload tenured")
    until(lambda: service.log("config.rejected"), 10)
    assert (service.pid, service.child_pids()) == (main, children)
    assert service.machine.shows("ActiveState") == "active"
    shown = until(lambda: _status_with(service, "rejected"), 5)
    service.machine.write("/etc/tenured/tenured.ini", configuration())
    service.machine.run("systemctl reload tenured")
    until(lambda: not _status_with(service, "rejected"), 10)
    return f"nothing restarted, and it is shown: {shown}"


def _status_with(service: Service, word: str) -> str:
    text = service.machine.shows("StatusText")
    return text if word in text else ""


def stops(service: Service) -> str:
    """a stop closes every connection with a close frame, releases every lease, and exits 0"""
    start_ns = boottime_ns()
    service.machine.run("systemctl stop tenured")
    stop_s = seconds_since(start_ns)
    assert _end(service) == ("inactive", "0")
    until(lambda: not service.feed.connected(), 5)
    assert [service.newest(shard).code for shard in SHARDS] == [1001] * len(SHARDS)
    return f"{stop_s:.1f} s"


def starts_again(service: Service) -> str:
    """what was stopped starts without waiting, since the leases are free"""
    start_ns = boottime_ns()
    service.machine.run("systemctl start tenured")
    return f"streams after {seconds_since(start_ns, service.wait_streaming(since_ns=start_ns)):.1f} s"


def stays_drained(service: Service) -> str:
    """after `tenured drain` it is not started again (it is stopped afterwards)"""
    start_ns = boottime_ns()
    assert service.answers("drain") == 0
    until(lambda: _end(service) == ("inactive", "0"), 15)
    return f"{seconds_since(start_ns):.1f} s"


def stays_stopped_by_a_mistake(service: Service) -> str:
    """a mistake in the configuration is exit 78 and no loop of restarts; once mended it starts"""
    service.machine.write("/etc/tenured/tenured.ini", configuration().replace("lease_", "leese_"))
    restarts = service.restarts
    assert service.machine.attempt("systemctl start tenured").returncode != 0
    assert (_end(service), service.restarts) == (("failed", "78"), restarts)
    service.machine.write("/etc/tenured/tenured.ini", configuration())
    service.machine.run("systemctl start tenured")
    service.wait_streaming()
    return "one start, exit 78"


def tries_a_refused_start_again(service: Service) -> str:
    """a store that is unfit is tried again, at most every five seconds; once it is another one the service starts"""
    machine = service.machine
    machine.run("systemctl stop tenured")
    machine.write("/etc/tenured/tenured.ini", configuration(store="sqlite:////var/lib/feed"))
    restarts, start_ns = service.restarts, boottime_ns()
    machine.run("systemctl start --no-block tenured")
    until(lambda: service.restarts == restarts + 1, 30, 0.1)
    again_s = seconds_since(start_ns)
    machine.write("/etc/tenured/tenured.ini", configuration())
    service.wait_streaming(since_ns=start_ns)
    assert again_s >= REFUSED_EVERY_S
    return f"again after {again_s:.1f} s"


def _end(service: Service) -> tuple[str, str]:
    return service.machine.shows("ActiveState"), service.machine.shows("ExecMainStatus")


def outlasts_the_outage(service: Service) -> str:
    """30 s without a store: the second service is active and alive, never restarted, and says that it is not ready"""
    machine = service.machine
    entered_us = int(machine.shows("ActiveEnterTimestampMonotonic", "away"))
    until(lambda: _monotonic_us(service) - entered_us > OUTAGE_S * 1e6, OUTAGE_S + 5, 0.2)
    assert (machine.shows("ActiveState", "away"), machine.shows("NRestarts", "away")) == ("active", "0")
    asked = [service.answers(f"health {option} -c /etc/tenured/away.ini") for option in ("", "--ready")]
    assert asked == [0, 1]
    return f"active for {(_monotonic_us(service) - entered_us) / 1e6:.0f} s, no restart"


def _monotonic_us(service: Service) -> float:
    return float(service.machine.run("cat /proc/uptime").split()[0]) * 1e6


def survives_reboot(service: Service) -> str:
    """after a reboot both services are active again, one without its store, and the shards stream"""
    start_ns = boottime_ns()
    service.machine.reboot()
    service.booted()
    gap_s = seconds_since(start_ns, service.wait_streaming(since_ns=start_ns))
    assert service.machine.shows("ActiveState", "away") == "active"
    return f"streams {gap_s:.1f} s after the command"


SCENARIOS: tuple[Scenario, ...] = (
    installs,
    starts,
    begins_an_outage,
    survives_kill,
    loses_one_child_to_memory,
    survives_hang,
    reloads,
    rejects_a_bad_reload,
    stops,
    starts_again,
    stays_drained,
    stays_stopped_by_a_mistake,
    tries_a_refused_start_again,
    outlasts_the_outage,
    survives_reboot,
)
