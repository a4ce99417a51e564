"""A shard played through in the fork server, before it has children, so that they share what the first times cost.

The first calls of a function write to it: the interpreter specialises the code and notes which attribute of which type
it has found. After a fork each of these writes costs the child a page of its own; a tenth of its memory was such pages.

What holds: afterwards this process has one thread and the files that it had. A rehearsal that fails, which it does at
once, is a warning: all that is lost is memory. It connects to this process alone, over loopback, and writes to files in
memory only.
"""

from __future__ import annotations

import _thread
import contextlib
import gc
import os
import signal
import socket
import time
from collections.abc import Callable

from workers.board import DEADLINE, EPOCH, Board, Slot
from workers.process import child, fence, signals
from workers.process.child import permitted
from workers.process.kernel import KillTimer, boottime_ns, die_with_parent
from workers.process.means import Means
from workers.process.wire import Began, Start, in_memory, receive, send
from workers.spec import Scope, StreamSpec, Task, read_environment, read_scope, read_task
from workers.websocket.upgrade import accept_of

TIMES = 20  # the interpreter specialises a function after its eighth call, and some of it some calls later
_THREADS_END_MAX_S = 5.0
_CONNECT_TIMEOUT_MS = 2000
_LEASE_NS = 60_000_000_000

Prepare = Callable[[Means, Scope], Callable[[Task, Slot, int], int]]


def rehearse(prepare: Prepare) -> None:
    """Raises OSError if something in the way of a rehearsal was found."""
    before = _files()
    try:
        _recall()
        _play_all(prepare)
    finally:
        gc.collect()
        for fd in _files() - before:  # a child leaves its files to the kernel; here they would be its successors'
            os.close(fd)


def _recall() -> None:
    """Look up the names of a child's first steps, which cannot be rehearsed in this process: the interpreter keeps
    what it found of each type, and what a child has to look up anew is written to its memory."""
    for step in (child.live, child._live, child._prefer_our_death, signals.release, fence.arm, fence._follow):
        for name in step.__code__.co_names:
            hasattr(os, name)  # whatever the module: what is kept is that modules as such have no such attribute


def _files() -> set[int]:
    names = os.listdir("/proc/self/fd")  # the listing itself is in it, and gone by now
    return {int(name) for name in names if os.path.lexists(f"/proc/self/fd/{name}")}


def _play_all(prepare: Prepare) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        _thread.start_new_thread(_serve, (listener,))
        try:
            slot = Board.create().slot(0)
            for _ in range(TIMES):
                _play(prepare, slot, listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            _wait_for_threads()


def _play(prepare: Prepare, slot: Slot, port: int) -> None:
    """One child's life from its task to its end, which comes with the first line of its log."""
    slot.words[DEADLINE], slot.words[EPOCH] = boottime_ns() + _LEASE_NS, 1
    wakeup_fd, wakeup_end_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    events_fd = os.memfd_create("rehearsal", os.MFD_CLOEXEC)
    url = f"ws://127.0.0.1:{port}/${{shard}}"
    sink = f"jsonl:/proc/self/fd/{events_fd}"
    spec = StreamSpec("rehearsal", (url,), ("hello",), sink=sink, connect_timeout_ms=_CONNECT_TIMEOUT_MS)
    task = Task(Scope(spec, "", "", "/"), f"rehearsal/{events_fd}", "0", 1, 0, None, {})
    try:
        task = _sent(task)
        said: list[bytes] = []

        def write_log(line: bytes) -> None:
            said.append(line)
            os.write(wakeup_end_fd, bytes([signal.SIGTERM]))

        means = Means({}, {}, -1, write_log)
        die_with_parent()  # once more; it changes nothing
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # so is this: all are blocked here
        permitted(slot, Start(slot.number, task.epoch, 0))
        timer = KillTimer()
        timer.set(slot.words[DEADLINE])
        timer.delete()
        prepare(means, task.scope)(task, slot, wakeup_fd)
        if b'"connection.opened"' not in said[0]:
            raise OSError(f"a connection to this very process failed: {said[0].decode().strip()}")
    finally:
        for fd in (wakeup_fd, wakeup_end_fd, events_fd):
            os.close(fd)


def _sent(task: Task) -> Task:
    """The task as it comes from the parent, and the answer."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        task_fd = in_memory(task.packed(), "rehearsal")
        send(theirs, Start(task.slot, task.epoch, 0), task_fd)
        os.close(task_fd)
        received = receive(ours)
        assert received is not None
        assert received[1] is not None
        task_fd = received[1]
        try:
            task = read_task(task_fd, Scope.from_json(read_scope(task_fd)))
            read_environment(task_fd)
            send(ours, Began(task.slot, task.epoch, 0), task_fd)
        finally:
            os.close(task_fd)
    return task


def _serve(listener: socket.socket) -> None:
    while True:
        try:
            sock, _ = listener.accept()
        except OSError:  # it was shut down: the rehearsal is over
            return
        with sock, contextlib.suppress(OSError):  # the other end tells what it misses
            _answer(sock)


def _answer(sock: socket.socket) -> None:
    """Agree to the upgrade, send an event, take leave when the other end does."""
    sock.settimeout(_CONNECT_TIMEOUT_MS / 1000)
    head = sock.recv(4096).decode("latin-1")
    key = head.partition("Sec-WebSocket-Key: ")[2].partition("\r\n")[0]
    lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
    lines += [f"Sec-WebSocket-Accept: {accept_of(key)}", "", ""]
    sock.sendall("\r\n".join(lines).encode() + b"\x81\x05event")
    while data := sock.recv(4096):
        if b"\x88\x82" in data:
            sock.sendall(b"\x88\x00")


def _wait_for_threads() -> None:
    """No thread may be left when a process forks; those of the rehearsal have nothing left to do."""
    until_s = time.monotonic() + _THREADS_END_MAX_S
    while len(os.listdir("/proc/self/task")) > 1:
        if time.monotonic() > until_s:
            raise RuntimeError("a thread of the rehearsal did not end, and no process with two threads may fork")
        time.sleep(0.001)
