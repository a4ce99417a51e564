from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from supervisor.processes.child_events import Complaint, Exited, ExitStatus, Ready, Started, StartFailed
from supervisor.processes.server import scrubbed
from tests.process.conftest import House, task
from tests.wait import until
from workers.board import EPOCH, SLOTS
from workers.process.kernel import boottime_ns
from workers.process.wire import Ended
from workers.websocket.tls import Profile


@pytest.fixture
def nursery(house: House) -> House:
    """A house whose fork server is asked to import nothing in particular."""
    house.children.prepare([], [], [])
    return house


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _files_at_rest(server_pid: int) -> dict[str, str]:
    """What the fork server has open; nothing while it still holds what belongs to the birth of a child."""
    folder = f"/proc/{server_pid}/fd"
    try:
        files = {fd: os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)}
    except FileNotFoundError:  # closed between the two calls
        return {}
    return {} if any("pidfd" in file or "tenured-request" in file for file in files.values()) else files


def _read(house: House, path: Path) -> str:
    return house.until(lambda: path.exists() and path.read_text())


def _description(house: House, tmp_path: Path, shard: str = "trades/7", epoch: int = 1) -> dict[str, Any]:
    path = tmp_path / f"said-{epoch}"
    house.start(shard, epoch, f"describe {path}")
    return json.loads(_read(house, path))


# --- a child's life ---


def test_a_child_starts_reports_and_ends_with_its_exit_status(nursery: House) -> None:
    nursery.start("trades/0", epoch=7)
    started = nursery.started("trades/0", 7)
    assert nursery.children.pids() == {"trades/0": started.pid}
    nursery.until(lambda: nursery.children.reports()["trades/0"].started)
    before_ns = boottime_ns()
    nursery.children.stop("trades/0", 7)
    exited = nursery.exited("trades/0", 7)
    assert before_ns < exited.at_ns < boottime_ns()
    assert exited.report.started
    assert nursery.children.reports() == {}
    status = nursery.until(lambda: nursery.of(ExitStatus, "trades/0"))[0]
    assert (status.epoch, status.pid, status.status) == (7, started.pid, "exited with 0")


def test_a_child_runs_in_a_world_of_its_own(nursery: House, tmp_path: Path, lock_fd: int) -> None:
    said = _description(nursery, tmp_path)
    assert said["pid"] == said["session"] == said["group"] == nursery.started("trades/7").pid
    assert said["title"] == "tenured: trades/7"
    assert said["oom_score_adj"] > int(Path("/proc/self/oom_score_adj").read_text())
    assert said["threads"] == 2  # the loop and the fence
    assert said["collects"]
    assert said["blocked"] == []
    assert said["environment"].keys() == {"ROLE", "PATH"}
    assert said["files"]["0"] == os.readlink(f"/proc/self/fd/{lock_fd}")
    assert said["files"]["1"] == said["files"]["2"] == os.readlink("/proc/self/fd/2")
    assert said["files"][str(said["stdout_fd"])] == os.readlink("/proc/self/fd/1")
    assert not [name for name in said["modules"] if name.split(".")[0] in ("boto3", "botocore", "supervisor")]


def test_a_child_has_no_file_of_the_parent_or_of_the_fork_server(nursery: House, tmp_path: Path) -> None:
    nursery.start("trades/1")
    nursery.started("trades/1")
    files = _description(nursery, tmp_path)["files"].values()
    # the board, the two ends of its own wake-up; no link, no pidfd, no task
    assert not [path for path in files if path.startswith("socket:")]
    assert len([path for path in files if path.startswith("pipe:")]) == 2
    assert {path for path in files if "memfd" in path} == {"/memfd:tenured-board (deleted)"}
    assert not [path for path in files if "pidfd" in path]


def test_a_secret_of_one_child_is_in_no_environment_but_its_own(nursery: House, tmp_path: Path) -> None:
    os.environ["PARENTS_SECRET"] = "hunter2"
    try:
        said = _description(nursery, tmp_path)
        server = Path(f"/proc/{nursery.server_pid}/environ").read_text()
    finally:
        del os.environ["PARENTS_SECRET"]
    assert "ROLE" in said["environment"]
    assert "ROLE" not in said["initial_environment"]
    assert "hunter2" not in server + str(said)


def test_only_what_an_interpreter_needs_is_passed_to_the_fork_server() -> None:
    given = {"PATH": "/bin", "LC_ALL": "C", "PYTHONPATH": "x", "AWS_SECRET_ACCESS_KEY": "s", "OMP_NUM_THREADS": "3"}
    assert scrubbed(given) == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "PYTHONPATH": "x",
        "OMP_NUM_THREADS": "3",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }


@pytest.mark.parametrize(
    ("role", "status"),
    [
        *((f"exit {code}", f"exited with {code}") for code in (0, 1, 2, 255)),
        *(
            (f"die {int(number)}", f"was killed by {number.name}")
            for number in (
                signal.SIGABRT,
                signal.SIGBUS,
                signal.SIGFPE,
                signal.SIGHUP,
                signal.SIGILL,
                signal.SIGINT,
                signal.SIGKILL,
                signal.SIGQUIT,
                signal.SIGSEGV,
                signal.SIGSYS,
                signal.SIGTERM,
                signal.SIGTRAP,
                signal.SIGXCPU,
            )
        ),
        (f"die {signal.SIGRTMIN + 3}", f"was killed by signal {signal.SIGRTMIN + 3}"),
        ("raise", "exited with 1"),
    ],
)
def test_every_way_to_die_is_told(nursery: House, role: str, status: str) -> None:
    nursery.start("trades/0", role=role)
    nursery.exited("trades/0")
    assert nursery.until(lambda: nursery.of(ExitStatus))[0].status == status


def test_a_prints_of_a_handler_never_reach_the_events(lock_fd: int, capfd: pytest.CaptureFixture[str]) -> None:
    house = House(lock_fd)
    house.children.prepare([], [], [])
    house.start("trades/0", role="print")
    house.exited("trades/0")
    out, err = capfd.readouterr()
    house.close()
    assert out == "an event\n"
    assert "a handler prints" in err


def test_the_last_checkpoint_of_a_killed_child_is_in_its_last_report(nursery: House) -> None:
    nursery.start("trades/0", role="checkpoint token-42")
    nursery.started("trades/0")
    nursery.until(lambda: nursery.children.reports()["trades/0"].checkpoint == "token-42")
    nursery.children.kill("trades/0", 1)
    assert nursery.exited("trades/0").report.checkpoint == "token-42"
    nursery.start("trades/0", epoch=2)
    nursery.started("trades/0", 2)
    assert nursery.children.reports()["trades/0"].checkpoint is None


# --- stop and kill ---


def test_a_stop_right_after_the_start_is_not_lost(nursery: House) -> None:
    for epoch in range(1, 21):
        nursery.start("trades/0", epoch)
        pid = nursery.started("trades/0", epoch).pid
        nursery.children.stop("trades/0", epoch)
        nursery.exited("trades/0", epoch)
        told = nursery.until(lambda epoch=epoch: nursery.of(ExitStatus, "trades/0", epoch))[0]
        assert (told.pid, told.status) == (pid, "exited with 0")


@pytest.mark.parametrize("role", ["busy", "deaf", "gil"])
def test_a_kill_ends_a_child_that_ignores_everything(nursery: House, role: str) -> None:
    nursery.start("trades/0", role=role)
    nursery.started("trades/0")
    nursery.until(lambda: nursery.children.reports()["trades/0"].started)
    asked = time.monotonic()
    nursery.children.kill("trades/0", 1)
    nursery.exited("trades/0")
    assert time.monotonic() - asked < 0.5


def test_a_kill_ends_a_stopped_child(nursery: House) -> None:
    nursery.start("trades/0")
    pid = nursery.started("trades/0").pid
    os.kill(pid, signal.SIGSTOP)
    nursery.until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    nursery.children.kill("trades/0", 1)
    nursery.exited("trades/0")


def test_a_child_that_is_killed_before_it_was_forked_never_is(nursery: House) -> None:
    nursery.start("trades/0")  # the fork server is not ready yet
    nursery.children.kill("trades/0", 1)
    assert not nursery.events, "events come from the loop, never from within a call"
    failed = nursery.until(lambda: nursery.of(StartFailed))[0]
    assert (failed.shard, failed.epoch) == ("trades/0", 1)
    nursery.start("trades/0", epoch=2)
    nursery.started("trades/0", 2)
    assert nursery.of(Started, epoch=1) == []


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_child_that_is_ended_while_it_is_being_forked_dies_at_birth(nursery: House, end: str) -> None:
    nursery.start("warm/0")
    nursery.started("warm/0")
    nursery.start("trades/0")  # is sent at once
    getattr(nursery.children, end)("trades/0", 1)
    exited = nursery.exited("trades/0")
    assert not exited.report.started
    assert nursery.of(Started, "trades/0") == nursery.of(StartFailed) == []


def test_a_kill_of_another_epoch_touches_nothing(nursery: House) -> None:
    nursery.start("trades/0", epoch=5)
    pid = nursery.started("trades/0", 5).pid
    for act in (nursery.children.kill, nursery.children.stop):
        act("trades/0", 4)
        act("trades/0", 6)
        act("trades/1", 5)
    nursery.turn(0.1)
    assert _alive(pid)
    assert nursery.of(Exited) == []


# --- permission, slots, deadlines ---


def test_no_child_starts_before_the_last_one_of_its_shard_was_seen_dead(nursery: House) -> None:
    nursery.start("trades/0")
    pid = nursery.started("trades/0").pid
    with pytest.raises(ValueError, match=r"trades/0 cannot start epoch 2: epoch 1 was not seen dead"):
        nursery.start("trades/0", epoch=2)
    nursery.children.kill("trades/0", 1)
    until(lambda: not _alive(pid), 5)  # dead, but the loop has not turned: not seen
    with pytest.raises(ValueError, match="was not seen dead"):
        nursery.start("trades/0", epoch=2)
    nursery.exited("trades/0")
    nursery.start("trades/0", epoch=2)
    assert nursery.started("trades/0", 2).pid != pid


def test_an_exit_notice_is_no_death(nursery: House) -> None:
    """The fork server says that a child ended; its pidfd says that it lives: it lives."""
    nursery.start("trades/0")
    pid = nursery.started("trades/0").pid
    nursery.children._hear(Ended(0, 1, pid, 0), None, 0)
    nursery.turn(0.05)
    assert nursery.of(ExitStatus)
    assert nursery.of(Exited) == []
    with pytest.raises(ValueError, match="was not seen dead"):
        nursery.start("trades/0", epoch=2)
    nursery.children.kill("trades/0", 1)
    nursery.exited("trades/0")


def test_a_child_does_nothing_until_its_epoch_is_on_the_board(lock_fd: int, tmp_path: Path) -> None:
    house = House(lock_fd, start_budget_s=0.5)
    house.children._began = lambda child, pid, pidfd: pids.append((pid, pidfd))  # type: ignore[method-assign]
    pids: list[tuple[int, int]] = []
    try:
        house.children.prepare([], [], [])
        house.start("trades/0", role=f"describe {tmp_path / 'said'}")
        pid, pidfd = house.until(lambda: pids)[0]
        house.board.slot(0).words[EPOCH] = 2  # another child's permission
        asked = time.monotonic()
        house.until(lambda: not _alive(pid))
        assert 0.2 < time.monotonic() - asked < 2
        assert not (tmp_path / "said").exists()
        os.close(pidfd)
    finally:
        house.close()


def test_a_deadline_that_has_passed_when_the_child_begins_ends_it(nursery: House) -> None:
    nursery.start("trades/0", lease_s=-1)
    assert not nursery.exited("trades/0").report.started


def test_a_child_whose_parent_moves_the_deadline_lives_and_one_that_is_forgotten_dies_at_it(nursery: House) -> None:
    nursery.children.start(task("warm/0"), boottime_ns() + 10**11)
    nursery.started("warm/0")
    deadline_ns = boottime_ns() + 500_000_000
    for shard in ("trades/0", "trades/1"):
        nursery.children.start(task(shard), deadline_ns)
        nursery.started(shard)
    nursery.children.extend("trades/0", 1, deadline_ns + 10**11)
    nursery.children.extend("trades/0", 1, 1)
    nursery.children.extend("trades/0", 2, 1)
    exited = nursery.exited("trades/1")
    assert 0 <= exited.at_ns - deadline_ns < 300_000_000
    nursery.turn(0.1)
    assert set(nursery.children.reports()) == {"warm/0", "trades/0"}


def test_who_was_killed_by_the_fence_is_told_apart_from_who_was_killed_by_us_or_by_somebody(nursery: House) -> None:
    for shard, lease_s in {"fenced/0": 0.3, "killed/0": 60, "late/0": 0.3, "oom/0": 60}.items():
        nursery.start(shard, lease_s=lease_s)
        nursery.started(shard)
    nursery.children.kill("killed/0", 1)
    os.kill(nursery.started("oom/0").pid, signal.SIGKILL)
    nursery.children.kill("late/0", 1)
    nursery.until(lambda: len(nursery.of(ExitStatus)) == 4)
    said = {event.shard: event.status for event in nursery.of(ExitStatus)}
    assert said.pop("fenced/0") == "was killed by SIGKILL: its deadline passed"
    assert set(said.values()) == {"was killed by SIGKILL"}


def test_a_full_board_refuses_a_child_and_takes_one_again_when_a_slot_is_free(nursery: House) -> None:
    nursery.children._free_slots.clear()
    nursery.children._free_slots.append(SLOTS - 1)
    nursery.start("trades/0")
    nursery.start("trades/1")
    assert nursery.until(lambda: nursery.of(StartFailed))[0].reason == f"all {SLOTS} slots of the board are taken"
    nursery.started("trades/0")
    nursery.children.kill("trades/0", 1)
    nursery.exited("trades/0")
    nursery.start("trades/1", epoch=2)
    nursery.started("trades/1", 2)


# --- groups ---


def test_what_a_handler_started_is_gone_with_its_child(nursery: House, tmp_path: Path) -> None:
    nursery.start("trades/0", role=f"family {tmp_path / 'pid'}")
    grandchild = int(_read(nursery, tmp_path / "pid"))
    assert _alive(grandchild)
    nursery.children.kill("trades/0", 1)
    nursery.exited("trades/0")
    nursery.until(lambda: not _alive(grandchild), 2)


# --- handlers and contexts of the fork server ---


def _module(folder: Path, name: str, text: str) -> str:
    (folder / f"{name}.py").write_text(f"from workers.handler import Handler\n{text}\nclass H(Handler): pass\n")
    return f"{folder}/{name}.py:H"


def test_handlers_and_contexts_are_made_once_and_inherited(house: House, tmp_path: Path) -> None:
    good = _module(tmp_path, "good", "import sys; print('imported')")
    house.children.prepare([good], [Profile()], [])
    said = _description(house, tmp_path)
    assert said["handlers"] == [good]
    assert said["contexts"] == [""]
    assert not [event for event in house.events if isinstance(event, Complaint)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()", "starts a thread"),
        ("import socket; s = socket.socket()", "leaves a socket open"),
        ("import os; os.environ['ROLE']", "raised KeyError: 'ROLE' at "),
        ("import os; os._exit(7)", "ended the process"),
        ("import os; os._exit(0)", "ended the process"),
        ("import os; os.closerange(3, 256)", "closes files that are not its own"),
        ("import os, time\nif os.fork() == 0: time.sleep(999)", "leaves a process behind"),
        ("import signal; signal.set_wakeup_fd(-1)", "changes what signals do"),
        ("import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)", "changes what signals do"),
        ("import os; os.abort()", "crashed"),
    ],
)
def test_a_module_that_must_not_be_shared_is_imported_in_each_child(
    house: House, tmp_path: Path, text: str, complaint: str
) -> None:
    bad = _module(tmp_path, "bad", text)
    good = _module(tmp_path, "good", "")
    house.children.prepare([bad, good], [Profile(ca="/nowhere.pem")], [])
    said = _description(house, tmp_path)
    assert said["handlers"] == [good]
    texts = [event.text for event in house.events if isinstance(event, Complaint)]
    assert any(bad in text and complaint in text for text in texts), texts
    assert any("/nowhere.pem" in text for text in texts), texts
    server = psutil.Process(house.server_pid)
    assert server.num_threads() == 1
    house.start("trades/8", role="wait", handler=bad)
    if complaint in ("ended the process", "closes files that are not its own", "crashed"):
        house.exited("trades/8")
    else:
        house.started("trades/8")
        house.until(lambda: house.children.reports()["trades/8"].started)
    assert house.server_pid == server.pid


def test_handlers_that_hang_at_import_delay_other_children_a_little_and_hold_up_their_own_alone(
    house: House, tmp_path: Path
) -> None:
    hanging = [_module(tmp_path, f"hanging{number}", "import time; time.sleep(999)") for number in range(3)]
    good = _module(tmp_path, "good", "")
    asked = time.monotonic()
    house.children.prepare([*hanging, good], [], [])
    house.start("good/0", handler=good)
    for number, reference in enumerate(hanging):
        house.start(f"hanging/{number}", handler=reference)
    house.until(lambda: house.of(Started, "good/0") and house.children.reports()["good/0"].started, 12)
    assert time.monotonic() - asked < 10
    for number in range(3):
        house.started(f"hanging/{number}")
        assert not house.children.reports()[f"hanging/{number}"].started
        house.children.kill(f"hanging/{number}", 1)
        house.exited(f"hanging/{number}")
    assert house.children.reports()["good/0"].started


def test_a_trial_dies_with_its_fork_server(house: House, tmp_path: Path) -> None:
    text = f"import os, time; open('{tmp_path}/pid', 'w').write(str(os.getpid())); time.sleep(999)"
    house.children.prepare([_module(tmp_path, "hanging", text)], [], [])
    trial = int(_read(house, tmp_path / "pid"))
    os.kill(house.server_pid, signal.SIGKILL)
    house.until(lambda: not _alive(trial), 2)


def test_a_handler_that_passes_its_trial_and_ends_the_fork_server_is_not_imported_there_again(
    house: House, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    text = f"import os\nif os.path.exists('{mark}'): os._exit(9)\nopen('{mark}', 'w')"
    house.children.prepare([_module(tmp_path, "fickle", text)], [], [])
    house.until(lambda: Ready() in house.events)
    assert _description(house, tmp_path)["handlers"] == []
    texts = [event.text for event in house.events if isinstance(event, Complaint)]
    assert "the fork server exited with 9" in texts[0]
    assert texts[1:] == ["from now on handlers are imported in each child, as one may have ended it"]


def test_a_handler_that_makes_fork_servers_die_young_is_not_imported_there_for_ever(
    house: House, tmp_path: Path
) -> None:
    alarm = _module(tmp_path, "alarm", "import signal; signal.setitimer(signal.ITIMER_REAL, 0.3)")
    house.children.prepare([alarm], [], [])
    house.until(lambda: any("from now on" in event.text for event in house.events if isinstance(event, Complaint)))
    house.until(lambda: house.events[-1] == Ready())
    assert house.events.count(Ready()) == 3
    assert _description(house, tmp_path)["handlers"] == []


# --- the fork server ---


def test_a_fork_server_that_dies_takes_its_children_along_and_comes_again(nursery: House) -> None:
    shards = [f"trades/{number}" for number in range(8)]
    for number, shard in enumerate(shards):
        nursery.start(shard, role="busy" if number < 2 else "wait")
    pids = [nursery.started(shard).pid for shard in shards]
    first = nursery.server_pid
    killed = time.monotonic()
    os.kill(first, signal.SIGKILL)
    nursery.until(lambda: len(nursery.of(Exited)) == 8)
    assert time.monotonic() - killed < 1
    assert not any(_alive(pid) for pid in pids)
    nursery.until(lambda: len(nursery.of(ExitStatus)) == 8)
    assert {event.status for event in nursery.of(ExitStatus)} == {"was killed by SIGKILL"}
    assert any("the fork server was killed by SIGKILL" in str(event) for event in nursery.events)
    nursery.start("trades/0", epoch=2)
    nursery.started("trades/0", 2)
    assert nursery.server_pid != first


def test_each_fork_server_says_once_that_it_is_ready_and_before_any_child_begins(nursery: House) -> None:
    nursery.start("trades/0")
    nursery.started("trades/0")
    assert nursery.events[0] == Ready()
    nursery.start("trades/1")
    nursery.started("trades/1")
    assert nursery.events.count(Ready()) == 1
    os.kill(nursery.server_pid, signal.SIGKILL)
    nursery.until(lambda: nursery.events.count(Ready()) == 2)
    nursery.start("trades/2")
    nursery.started("trades/2")
    assert nursery.events.count(Ready()) == 2


def test_the_budget_of_a_start_request_does_not_run_while_the_fork_server_still_imports(
    lock_fd: int, tmp_path: Path
) -> None:
    house = House(lock_fd, start_budget_s=0.5)
    try:
        house.children.prepare([_module(tmp_path, "slow", "import time; time.sleep(0.5)")], [], [])
        house.start("trades/0")
        house.started("trades/0")
        first = house.server_pid
        os.kill(first, signal.SIGKILL)
        house.exited("trades/0")
        house.until(lambda: house.server_pid not in (0, first))
        house.start("trades/0", epoch=2)
        house.started("trades/0", 2)
        assert house.of(StartFailed) == []
    finally:
        house.close()


def test_no_zombie_and_no_grandchild_is_left_when_the_fork_server_died(nursery: House, tmp_path: Path) -> None:
    nursery.start("trades/0", role=f"family {tmp_path / 'pid'}")
    pid = nursery.started("trades/0").pid
    grandchild = int(_read(nursery, tmp_path / "pid"))
    os.kill(nursery.server_pid, signal.SIGKILL)
    nursery.exited("trades/0")
    nursery.until(lambda: not psutil.pid_exists(pid) and not psutil.pid_exists(grandchild), 2)
    assert nursery.children._unreaped == nursery.children._adopted == {}


def test_requests_under_way_fail_when_the_fork_server_dies_and_their_shards_can_start_again(nursery: House) -> None:
    nursery.start("warm/0")
    nursery.started("warm/0")
    server = nursery.server_pid
    os.kill(server, signal.SIGSTOP)
    shards = [f"trades/{number}" for number in range(40)]
    for shard in shards:
        nursery.start(shard)
    nursery.turn(0.05)
    os.kill(server, signal.SIGKILL)
    nursery.until(lambda: len(nursery.of(StartFailed)) == 40)
    assert {event.reason for event in nursery.of(StartFailed)} == {"the fork server was killed by SIGKILL"}
    nursery.exited("warm/0")
    for shard in shards:
        nursery.start(shard, epoch=2)
    for shard in shards:
        nursery.started(shard, 2)


def test_a_fork_server_that_does_not_answer_is_killed_and_replaced(lock_fd: int) -> None:
    house = House(lock_fd, start_budget_s=0.3)
    try:
        house.children.prepare([], [], [])
        house.start("trades/0")
        house.started("trades/0")
        first = house.server_pid
        os.kill(first, signal.SIGSTOP)
        house.start("trades/1")
        assert "SIGKILL" in house.until(lambda: house.of(StartFailed, "trades/1"))[0].reason
        house.exited("trades/0")
        assert not _alive(first)
        house.start("trades/1", epoch=2)
        house.started("trades/1", 2)
    finally:
        house.close()


def test_a_fork_server_that_cannot_begin_is_tried_again_with_growing_pauses(lock_fd: int) -> None:
    house = House(lock_fd, run="no.such.module:play")
    try:
        house.children.prepare([], [], [])
        house.start("trades/0")
        assert house.until(lambda: house.of(StartFailed))[0].reason == "the fork server exited with 1"
        complaints = house.until(
            lambda: [e.text for e in house.events if isinstance(e, Complaint)] if len(house.events) > 3 else []
        )
        pauses = [float(text.rpartition(" in ")[2].removesuffix(" s")) for text in complaints]
        assert pauses == sorted(set(pauses))
    finally:
        house.close()


def test_a_fork_that_fails_is_a_failed_start_and_hurts_nobody(nursery: House) -> None:
    nursery.start("warm/0")
    nursery.started("warm/0")
    server = psutil.Process(nursery.server_pid)
    files = nursery.until(lambda: _files_at_rest(server.pid))
    taken = {int(fd) for fd in files}
    free = min(set(range(len(taken) + 1)) - taken)
    _, hard = server.rlimit(psutil.RLIMIT_NOFILE)
    server.rlimit(psutil.RLIMIT_NOFILE, (free, hard))  # room for nothing more
    nursery.start("trades/0")
    assert "descriptor" in nursery.until(lambda: nursery.of(StartFailed))[0].reason
    server.rlimit(psutil.RLIMIT_NOFILE, (free + 1, hard))  # room for the task, and then for the pidfd
    nursery.start("trades/0", epoch=2)
    nursery.started("trades/0", 2)
    assert nursery.of(Exited) == []


def test_signals_for_everybody_do_not_end_the_fork_server(nursery: House) -> None:
    nursery.start("trades/0")
    nursery.started("trades/0")
    server = nursery.server_pid
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(server, number)
    nursery.start("trades/1")
    nursery.started("trades/1")
    assert nursery.server_pid == server


def test_only_the_main_thread_may_start_a_fork_server(house: House) -> None:
    errors: list[BaseException] = []

    def prepare() -> None:
        try:
            house.children.prepare([], [], [])
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=prepare)
    thread.start()
    thread.join()
    assert "main thread" in str(errors[0])


def test_two_hundred_restarts_leave_no_thread_and_no_file_behind(nursery: House) -> None:
    for number in range(4):
        nursery.start(f"trades/{number}")
        nursery.started(f"trades/{number}")
    server = psutil.Process(nursery.server_pid)
    gc.collect()
    before = (len(os.listdir("/proc/self/fd")), threading.active_count(), server.num_fds(), server.num_threads())
    for epoch in range(2, 52):
        for number in range(4):
            nursery.children.kill(f"trades/{number}", epoch - 1)
            nursery.exited(f"trades/{number}", epoch - 1)
            nursery.start(f"trades/{number}", epoch)
        for number in range(4):
            nursery.started(f"trades/{number}", epoch)
        nursery.events.clear()
    nursery.turn(0.05)
    after = (len(os.listdir("/proc/self/fd")), threading.active_count(), server.num_fds(), server.num_threads())
    assert all(abs(now - then) <= 2 for now, then in zip(after, before, strict=True)), (before, after)


# --- orphans ---


def test_orphans_of_a_handler_are_reaped_and_take_nobody_along(nursery: House, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    nursery.start("trades/0")
    nursery.started("trades/0")
    nursery.start("trades/1", role=f"orphans 64 {pids}")
    orphans = nursery.until(lambda: pids.exists() and len(pids.read_text().split()) == 64 and pids.read_text().split())
    nursery.until(lambda: not any(psutil.pid_exists(int(pid)) for pid in orphans))
    assert nursery.of(Exited) == []


def test_a_process_of_a_library_keeps_its_status_for_the_library(nursery: House) -> None:
    process = subprocess.Popen(["sh", "-c", "exit 42"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    for _ in range(5):
        nursery.children.reap()
    nursery.turn(0.05)
    assert process.wait() == 42
