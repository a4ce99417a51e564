"""`check --connect`: real connections of a shard, each made by a process that is set up like a child of the daemon.

It does not touch the store, needs no lease and stores nothing. What holds: it ends in time, also when a handler hangs;
the process gets the environment and the task of a child, under epoch 0. Connections are tried one after the other, and
one that fails does not hide the next.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from fnmatch import fnmatchcase

import click

from supervisor import exits
from supervisor.commands.means import Failed
from supervisor.configuration.settings import Settings
from supervisor.configuration.values import nearest
from supervisor.core.model import Start
from supervisor.processes.server import described, scrubbed
from supervisor.tasks import task_for
from workers.process.wire import in_memory

_LEAVE_MS = 5000  # to start an interpreter, and to take leave of the far end


def connect(
    settings: Settings,
    shard: str,
    connection: int | None,
    wait_ms: int,
    checkpoint: str | None,
    environ: Mapping[str, str],
) -> int:
    """Print each step that was reached, of this connection or of all (None); the exit code, that of the worst."""
    if sys.platform != "linux":
        raise Failed(exits.LIMITS, f"--connect needs Linux, this is {sys.platform}")
    stream = settings.shards.get(shard)
    if stream is None:
        raise _not_one(shard, settings)
    count = len(stream.spec.url) or 1
    if connection is not None and connection >= count:
        raise Failed(exits.NO, f"{shard} has no connection {connection}, the last one is {count - 1}")
    start = Start(shard, 0, 0, checkpoint)
    task = task_for(settings, stream, start, "check", socket.gethostname(), environ)
    limit_ms = settings.start_timeout_ms + stream.spec.connect_timeout_ms + wait_ms + _LEAVE_MS
    worst = exits.OK
    for number in range(count) if connection is None else (connection,):
        if count > 1:
            click.echo(f"connection  {number}")
        worst = max(worst, _watched(task.packed(), number, wait_ms, limit_ms / 1000, environ))
        if worst == exits.CONFIG:  # nor could the handler or sink be loaded for the next one
            break
    return worst


def _not_one(shard: str, settings: Settings) -> Failed:
    matching = [name for name in settings.shards if fnmatchcase(name, shard)]
    if matching:
        sentence = f"--connect takes one shard, not a pattern; write for example --connect {matching[0]}"
        return Failed(exits.USAGE, sentence)
    near = nearest(shard, settings.shards)
    hint = f"did you mean {near}?" if near else f"expected for example {next(iter(settings.shards))}"
    return Failed(exits.NO, f"there is no shard {shard} in {settings.source}, {hint}")


def _watched(task: bytes, connection: int, wait_ms: int, limit_s: float, environ: Mapping[str, str]) -> int:
    fd = in_memory(task, "tenured-request")
    # -B: nothing is written, not even compiled code
    command = [sys.executable, "-P", "-B", "-m", "workers.process.tied", str(os.getpid()), "websocket.glimpse"]
    for name, number in {"--task": fd, "--connection": connection, "--wait-ms": wait_ms}.items():
        command += [name, str(number)]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=scrubbed(environ), pass_fds=(fd,)
        )
    finally:
        os.close(fd)
    timer = threading.Timer(limit_s, process.kill)
    timer.start()
    try:
        assert process.stdout is not None  # it is a pipe
        for line in process.stdout:
            click.echo(line.decode(), nl=False)
        code = process.wait()
        late = not timer.is_alive()
    finally:
        timer.cancel()
        process.kill()
        process.wait()
    if late:
        raise Failed(exits.NO, f"it did not end within {limit_s:g} s and was killed: the handler or the sink hangs")
    if code < 0:
        raise Failed(exits.NO, f"its process {described(code)}: the handler or the sink crashes")
    return code
