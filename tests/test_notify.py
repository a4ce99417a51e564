"""What a service manager hears, from a socket of our own in place of its."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.notify import Notifier, watchdog_s
from tests.ear import Ear

SECOND_NS = 1_000_000_000


@pytest.fixture(params=["path", "abstract"])
def ear(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ear]:
    with Ear(str(tmp_path / "notify") if request.param == "path" else "") as made:
        yield made


def notifier(ear: Ear, **more: str) -> Notifier:
    return Notifier.from_environment({"NOTIFY_SOCKET": ear.address, **more})


def test_each_change_of_state_is_one_message(ear: Ear) -> None:
    told = notifier(ear)
    told.ready("holds 3 of 3 shards")
    told.reloading(1234567)
    told.ready("holds 2 of 2 shards")
    told.stopping()
    told.stopping(within_s=61.5)
    assert ear.heard() == [
        "READY=1\nSTATUS=holds 3 of 3 shards",
        "RELOADING=1\nMONOTONIC_USEC=1234567",
        "READY=1\nSTATUS=holds 2 of 2 shards",
        "STOPPING=1",
        "STOPPING=1\nEXTEND_TIMEOUT_USEC=71500000",
    ]


def test_the_variables_are_taken_out_so_that_no_child_gets_them(ear: Ear) -> None:
    environ = {
        "NOTIFY_SOCKET": ear.address,
        "WATCHDOG_USEC": "3000000",
        "WATCHDOG_PID": str(os.getpid()),
        "PATH": "/bin",
    }
    Notifier.from_environment(environ)
    assert environ == {"PATH": "/bin"}


@pytest.mark.parametrize(
    "environ", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "relative"}, {"NOTIFY_SOCKET": "/missing/socket"}]
)
def test_where_nobody_listens_nothing_happens(environ: dict[str, str]) -> None:
    told = Notifier.from_environment({**environ, "WATCHDOG_USEC": "1000000"})
    told.ready("up")
    told.reloading(1)
    told.watch(10)
    told.alive()
    told.status("up and away", 0)
    told.stopping()
    told.close()
    told.ready("after the end")


def test_where_there_is_no_socket_no_pings_are_asked_for() -> None:
    assert Notifier.from_environment({"WATCHDOG_USEC": "1000000"}).watchdog_every_s is None


def test_a_status_is_sent_only_when_it_changes_and_at_most_once_a_second(ear: Ear) -> None:
    told = notifier(ear)
    told.ready("0 shards")
    for tick in range(101):
        told.status("0 shards" if tick < 10 else f"{tick // 2} shards", tick * SECOND_NS // 20)
    statuses = [message for message in ear.heard() if message.startswith("STATUS=")]
    assert statuses == [f"STATUS={shards} shards" for shards in (5, 15, 25, 35, 45)]


def test_a_status_is_one_short_line(ear: Ear) -> None:
    notifier(ear).status("of two\nREADY=1 lines \udcff" + "x" * 5000, 0)
    (message,) = ear.heard()
    assert message.startswith("STATUS=of two READY=1 lines ?xxx")
    assert len(message) < 600


def test_no_pings_unless_the_watchdog_was_set_for_this_process(ear: Ear) -> None:
    for more in (
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "x"},
        {"WATCHDOG_USEC": "9" * 5000},
        {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"},
    ):
        told = notifier(ear, **more)
        told.watch(10)
        told.alive()
        assert told.watchdog_every_s is None
    assert ear.heard() == []


def test_pings_come_at_half_the_interval_or_faster_before_and_after_it_is_set(ear: Ear) -> None:
    told = notifier(ear, WATCHDOG_USEC="20000000")
    assert told.watchdog_every_s is not None
    assert told.watchdog_every_s <= 10
    told.watch(9)
    told.alive()
    set_to, ping = ear.heard()
    assert (set_to, ping) == ("WATCHDOG_USEC=3000000", "WATCHDOG=1")
    assert told.watchdog_every_s <= 1.5


def test_the_watchdog_leaves_time_to_start_again_before_the_lease_runs_out() -> None:
    """A renewal may be a third of the lease old when the loop hangs; a start took a second at most."""
    for lease_s in (3, 6, 10, 30, 600):
        assert lease_s / 3 + watchdog_s(lease_s) + 1 <= lease_s
    assert watchdog_s(1) == 0.5
    assert watchdog_s(3600) == 10


def test_changes_that_a_full_queue_did_not_take_are_sent_in_their_order_before_what_comes_next(ear: Ear) -> None:
    told = notifier(ear, WATCHDOG_USEC="1000000")
    for _ in range(5000):  # far beyond what a queue takes
        told.alive()
    full = len(ear.heard())
    assert 0 < full < 5000
    for _ in range(full):
        told.alive()
    told.reloading(7)
    told.ready("reloaded")
    told.status("too late to matter", 0)
    assert set(ear.heard()) == {"WATCHDOG=1"}
    told.alive()
    assert ear.heard() == ["RELOADING=1\nMONOTONIC_USEC=7", "READY=1\nSTATUS=reloaded", "WATCHDOG=1"]
