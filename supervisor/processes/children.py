"""All children of this supervisor, and the fork servers that make them, as the parent sees them.

What holds:

- every `start` ends in exactly one `Exited` or `StartFailed`, and there is no second child of a shard before that;
- `Exited` means that the pidfd was readable: the process is gone. Nothing else (an exit notice, an end of file, a dead
  fork server) is ever taken for a death. Only then is the slot of the board free for another child. A death that we had
  no part in is told with its exit status, which is there in a moment, or after `STATUS_MAX_S` without;
- a child gets its deadline, then its epoch, and the epoch only when its pidfd is held here. `StartFailed` means that
  the epoch was never written, so that the process, if there is one, has done and will do nothing;
- signals go through pidfds, at once, from within the call. A child that is killed before it exists dies at birth;
- a fork server that dies takes its children along and is started again. One that does not answer is killed;
- one that is prepared anew takes over as `nurseries` says, and every child that is there goes on.

It decides nothing else: when to start, stop or kill is up to the caller. Events come from the loop, never from within
a call. Not thread-safe: everything, also the creation, belongs to the main thread, which must own the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import resource
import signal
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from supervisor.core.model import Report
from supervisor.processes.child import Child
from supervisor.processes.child_events import ChildEvent, Complaint, Exited, ExitStatus, Ready, Started, StartFailed
from supervisor.processes.gates import Gates
from supervisor.processes.nurseries import Nurseries
from supervisor.processes.nursery import Died
from supervisor.processes.orphans import GRACE_NS, Undertaker
from supervisor.processes.server import Seat, seen_dead
from workers import board as words_of
from workers.board import Board
from workers.process.kernel import adopt_orphans, boottime_ns
from workers.process.wire import Began, Ended, Failed, Message, Preparation, Start, Warned
from workers.process.wire import Ready as ServerReady
from workers.spec import Task
from workers.websocket.tls import Profile

STATUS_MAX_S = 0.1


class Children:
    """See the head of this file. `prepare` comes first."""

    def __init__(
        self,
        board: Board,
        lock_fd: int,
        on_event: Callable[[ChildEvent], None],
        loop: asyncio.AbstractEventLoop,
        *,
        environment: Mapping[str, str],
        start_budget_s: float = 5.0,
        run: str = "workers.stream.shard:prepare",
        now_ns: Callable[[], int] = boottime_ns,
    ) -> None:
        adopt_orphans()
        _raise_open_files()
        self._board = board
        self._on_event = on_event
        self._loop = loop
        self.start_budget_s = start_budget_s  # may change
        self._now_ns = now_ns
        self._gates = Gates(loop, lambda: self._children.values(), now_ns)
        seat = Seat(board.fd, lock_fd, self._gates.bell_fd, run, environment)
        self._nurseries = Nurseries(seat, loop, self._hear)
        self._free_slots = deque(range(words_of.SLOTS))
        self._children: dict[str, Child] = {}
        self._by_slot: dict[int, Child] = {}
        self._unreaped: dict[int, Child] = {}  # by pid: alive, or dead and the fork server has not said so
        self._adopted: dict[int, Child] = {}  # by pid: unreaped when the fork server died, and so ours to reap
        self._undertaker = Undertaker()

    def prepare(
        self, handlers: Iterable[str], profiles: Iterable[Profile], python_path: Iterable[str], base: str = ""
    ) -> None:
        """Have a fork server that imports and builds these once for all children. Called again with something else:
        another one, for the children to come (see `nurseries`). By the main thread."""
        sorted_handlers, sorted_profiles = tuple(sorted(set(handlers))), tuple(sorted(set(profiles)))
        self._nurseries.prepare(Preparation(sorted_handlers, sorted_profiles, tuple(python_path), base))

    @property
    def preparing(self) -> bool:
        """Another fork server is about to take over: who replaces a child should wait for that. The end of it is a
        `Ready`, or a `Complaint` when it does not work; then the old one goes on to serve."""
        return self._nurseries.preparing

    def crowding(self) -> frozenset[str]:
        """The shards whose children keep an old fork server alive while a newer one waits for its place; the caller
        should replace these, one at a time."""
        return frozenset(self._by_slot[slot].shard for slot in self._nurseries.crowding())

    def start(self, task: Task, deadline_ns: int) -> None:
        """Ask for a child; its slot is chosen here. ValueError: the last child of the shard was not seen dead."""
        last = self._children.get(task.shard)
        if last is not None:
            raise ValueError(f"{task.shard} cannot start epoch {task.epoch}: epoch {last.epoch} was not seen dead")
        if not self._free_slots:
            reason = f"all {words_of.SLOTS} slots of the board are taken"
            self._loop.call_soon(self._on_event, StartFailed(task.shard, task.epoch, reason))
            return
        slot = self._board.slot(self._free_slots.popleft())
        start = Start(slot.number, task.epoch, int(self.start_budget_s * 1000))
        spec = task.scope.spec
        child = Child(task.shard, start, slot, spec.connect_key, spec.connect_rate)
        self._children[task.shard] = self._by_slot[slot.number] = child
        slot.words[words_of.DEADLINE] = deadline_ns
        self._gates.begun(child)
        self._nurseries.ask(start, dataclasses.replace(task, slot=slot.number).packed())

    def kill(self, shard: str, epoch: int) -> None:
        """SIGKILL, now. Nothing happens if that child is gone."""
        child = self._children.get(shard)
        if child is None or child.epoch != epoch:
            return
        if child.pidfd >= 0:
            child.signal(signal.SIGKILL)
        elif not self._nurseries.withdraw(child.start):
            child.doomed = True

    def stop(self, shard: str, epoch: int) -> None:
        """SIGTERM. One that has not begun has nothing to finish, and is killed."""
        child = self._children.get(shard)
        if child is not None and child.epoch == epoch and child.pidfd >= 0:
            child.signal(signal.SIGTERM)
        else:
            self.kill(shard, epoch)

    def extend(self, shard: str, epoch: int, deadline_ns: int) -> None:
        """Move the fence deadline, never back."""
        child = self._children.get(shard)
        if child is not None and child.epoch == epoch and deadline_ns > child.slot.words[words_of.DEADLINE]:
            child.slot.words[words_of.DEADLINE] = deadline_ns

    def reports(self) -> dict[str, Report]:
        """What the slots of all children say that have begun."""
        return {shard: child.report() for shard, child in self._children.items() if child.pidfd >= 0}

    def pids(self) -> dict[str, int]:
        """Of all children that have begun, to be shown; never to be signalled."""
        return {shard: child.pid for shard, child in self._children.items() if child.pidfd >= 0}

    @property
    def server_pids(self) -> tuple[int, ...]:
        """Of the fork servers, to be shown; the one that makes new children is the first."""
        return self._nurseries.pids()

    def reap(self) -> None:
        """To be called at every SIGCHLD: takes the adopted children of a dead fork server, and orphans."""
        for child in list(self._adopted.values()):
            self._reap_adopted(child)
        if self._undertaker.reap(self._is_ours, self._now_ns()):
            self._loop.call_later(GRACE_NS / 1e9, self.reap)

    def close(self, patience_s: float = 2.0) -> bool:
        """Kill everything and wait until it is gone, but not longer than that. No event comes any more.

        False: something does not die (it hangs in the kernel); it still holds the lock.
        """
        self._on_event = _unheard
        self._gates.close()
        held = {
            child.pidfd: child for child in (*self._children.values(), *self._unreaped.values()) if child.pidfd >= 0
        }
        for pidfd, child in held.items():
            self._loop.remove_reader(pidfd)
            child.signal(signal.SIGKILL)
        ended = True
        for server in self._nurseries.close():
            ended = server.collect(patience_s) is not None and ended
        ended = seen_dead(held, patience_s) and ended
        for child in held.values():
            child.gone = True
            self._let_go(child)
        self._adopted.update(self._unreaped)
        self.reap()
        return ended

    def _hear(self, message: Message | Died, pidfd: int | None, server_pid: int) -> None:
        match message:
            case Began(slot=slot, pid=pid) if pidfd is not None:
                child = self._by_slot[slot]
                child.server_pid = server_pid
                self._began(child, pid, pidfd)
            case Failed(slot=slot, reason=reason):
                child = self._by_slot[slot]
                self._free(child)
                self._on_event(StartFailed(child.shard, child.epoch, reason))
            case Ended(pid=pid, status=status):
                self._ended(pid, status)
            case Warned(text=text):
                self._on_event(Complaint(text, of_configuration=True))
            case ServerReady():
                self._on_event(Ready())
            case Died():
                self._server_died(message)
            case _:
                raise TypeError(f"a fork server never says {type(message).__name__}")

    def _began(self, child: Child, pid: int, pidfd: int) -> None:
        child.pid, child.pidfd = pid, pidfd
        self._unreaped[pid] = child
        self._loop.add_reader(pidfd, self._exited, child)
        if child.doomed:
            child.signal(signal.SIGKILL)
            return
        child.slot.words[words_of.EPOCH] = child.epoch  # the deadline is there already
        self._on_event(Started(child.shard, child.epoch, pid))

    def _exited(self, child: Child) -> None:
        """Its pidfd is readable: the one proof of death."""
        self._loop.remove_reader(child.pidfd)
        report = child.report()
        self._free(child)
        child.gone = True
        self._let_go(child)
        child.untold = Exited(child.shard, child.epoch, report, self._now_ns())
        if child.signalled or child.pid not in self._unreaped:
            self._tell(child)
        else:
            self._loop.call_later(STATUS_MAX_S, self._tell, child)

    def _tell(self, child: Child) -> None:
        if child.untold is not None:
            exited, child.untold = dataclasses.replace(child.untold, status=child.status), None
            self._on_event(exited)

    def _free(self, child: Child) -> None:
        child.deadline_ns = child.slot.words[words_of.DEADLINE]
        self._gates.ended(child)
        child.slot.clear()
        self._free_slots.append(child.slot.number)
        del self._children[child.shard], self._by_slot[child.slot.number]
        self._nurseries.freed(child.slot.number)

    def _ended(self, pid: int, status: int) -> None:
        child = self._unreaped.pop(pid, None)
        if child is None:  # one that never began for us
            return
        self._adopted.pop(pid, None)
        self._let_go(child)
        child.status = child.ended(status, self._now_ns())
        self._on_event(ExitStatus(child.shard, child.epoch, pid, child.status))
        self._tell(child)

    def _let_go(self, child: Child) -> None:
        """The pidfd names the process without doubt until it is both gone and reaped."""
        if child.gone and child.pid not in self._unreaped:
            os.close(child.pidfd)

    def _server_died(self, died: Died) -> None:
        orphaned = {pid: child for pid, child in self._unreaped.items() if child.server_pid == died.pid}
        if orphaned or died.pause_s is not None:
            children = ", and its children with it" if orphaned else ""
            successor = f"; the next comes in {died.pause_s:g} s" if died.pause_s is not None else ""
            self._on_event(Complaint(f"the fork server {died.status}{children}{successor}"))
        self._adopted.update(orphaned)
        for child in orphaned.values():
            if not child.gone:
                child.signal(signal.SIGKILL)  # the kernel does so too; this needs nobody's help
        self.reap()

    def _reap_adopted(self, child: Child) -> None:
        try:
            dead = os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # the fork server reaped it and died before it could say so
            del self._unreaped[child.pid], self._adopted[child.pid]
            self._let_go(child)
            return
        if dead is None:
            return
        with contextlib.suppress(ProcessLookupError):  # it died before it made its session
            os.killpg(child.pid, signal.SIGKILL)
        os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED)
        self._ended(child.pid, dead.si_status if dead.si_code == os.CLD_EXITED else -dead.si_status)

    def _is_ours(self, pid: int) -> bool:
        return pid in self._unreaped or pid in self.server_pids


def _unheard(event: ChildEvent) -> None:
    """After `close` nobody listens."""


def _raise_open_files() -> None:
    """A descriptor per child is more than many a default allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
