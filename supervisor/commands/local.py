"""Commands about the supervisor of this host: run, check, health."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from supervisor import exits
from supervisor.commands.means import Failed, basics_of, duration, file_option, loaded_from

if TYPE_CHECKING:
    from supervisor.configuration.config import Loaded

HEALTH_TIMEOUT_S = 5.0


@click.command(epilog="Example: tenured run -c /etc/tenured/tenured.ini")
@file_option
def run(source: str) -> int:
    """Run the supervisor of this host until it is told to stop.

    SIGTERM stops it gracefully and releases every lease; a second one hurries.
    """
    if sys.platform != "linux":
        raise Failed(exits.LIMITS, f"run needs Linux, this is {sys.platform}")
    from supervisor import signals

    signals.end_at_once()  # before what takes its time: process 1 would miss a stop meanwhile
    from supervisor.configuration.config import SOURCES

    loaded = loaded_from(source, needed=SOURCES)
    from supervisor import launch

    return launch.run(loaded.settings, (*loaded.warnings, *_outlet_warnings(loaded)))


def _outlet_warnings(loaded: Loaded) -> list[str]:
    from supervisor.outlet import containers_stdout, lossy_log

    log = lossy_log(os.fstat(sys.stdout.fileno()), os.environ, containers_stdout(os.environ))
    streams = [stream.name for stream in loaded.settings.streams if stream.spec.sink == "stdout"] if log else []
    advice = "which drops and cuts lines; sink = stdout is for pipes and trials, jsonl:PATH keeps every event"
    return [f"[stream:{name}] writes its events to {log}, {advice}" for name in streams]


@click.command(epilog="Example: tenured check -c ./tenured.ini --connect trades/7")
@file_option
@click.option("--connect", "shard", metavar="SHARD", help="Also make the real connections of this shard.")
@click.option("--connection", type=click.IntRange(0), metavar="N", help="Only this one of them, counted from 0.")
@click.option(
    "--wait",
    "wait_s",
    callback=duration(0, 3600),
    default="10s",
    show_default=True,
    metavar="DURATION",
    help="How long to wait for a first message.",
)
@click.option("--checkpoint", metavar="TOKEN", help="What ${checkpoint} becomes; without it that of a new shard.")
def check(source: str, shard: str | None, connection: int | None, wait_s: float, checkpoint: str | None) -> int:
    """Check the configuration and say what it means.

    No handler and no sink is imported, nothing is started, and nobody is contacted.

    With --connect it makes each connection of the shard (one for each url line) as a child would, one after the other,
    says which steps it reached, shows the first message and closes it again. No lease is taken and nothing is stored,
    but the far end sees a real connection: one that allows a single connection may close the live one. Exit code 0: all
    were made, even if no message came. 1: one failed.
    """
    from supervisor.configuration.config import SOURCES
    from supervisor.configuration.summary import summary
    from workers.texts import printable

    if shard is None and (connection is not None or checkpoint is not None):
        raise click.UsageError("--connection and --checkpoint say how to connect: add --connect SHARD.")
    # Only the service itself has credentials, so that outside of it they are no mistake of the file.
    outside = "CREDENTIALS_DIRECTORY" not in os.environ and shard is None
    loaded = loaded_from(source, needed=[name for name in SOURCES if not (outside and name == "credential")])
    for warning in loaded.warnings:
        print(f"tenured: warning: {printable(warning)}", file=sys.stderr)
    if shard is not None:
        from supervisor.commands.connecting import connect

        return connect(loaded.settings, shard, connection, round(wait_s * 1000), checkpoint, os.environ)
    for line in summary(loaded.settings):
        click.echo(line)
    return exits.OK


@click.command(epilog="Example: tenured health --ready -c /etc/tenured/tenured.ini")
@file_option
@click.option(
    "--ready", is_flag=True, help="Also ask whether it does its work: the store is reachable, its shards run."
)
def health(source: str, ready: bool) -> int:
    """Whether the supervisor of this host is alive.

    It is if its loop answers: an outage of the store does not fail it, nor does a shard in trouble, which is named.

    Exit code 0: yes. 1: no.
    """
    from supervisor.ask import NoAnswer, ask
    from workers.texts import printable

    try:
        reply = ask(socket_of(source), "health", HEALTH_TIMEOUT_S)
    except NoAnswer as error:
        raise Failed(exits.NOT_PERMITTED if error.permission else exits.NO, str(error)) from None
    if ready and not reply.get("ready"):
        raise Failed(
            exits.NO,
            f"{reply.get('supervisor', 'the supervisor')} is not ready: {reply.get('reason', 'no reason given')}",
        )
    told = [f"{reply.get('supervisor', 'the supervisor')} is {'ready' if reply.get('ready') else 'alive'}"]
    if reply.get("rejected"):
        told.append(f"it rejected its last reload: {reply['rejected']}")
    told += [f"{shard} is in trouble: {text}" for shard, text in reply.get("troubles", {}).items()]
    for sentence in told:
        click.echo(printable(sentence))
    return exits.OK


def socket_of(source: str) -> Path:
    """The control socket. An absolute TENURED_RUN_DIR, which wins over the file, is taken without reading that: a
    container must not be replaced because of a mistake in a file that a reload would refuse."""
    from supervisor.ask import socket_path

    named = os.environ.get("TENURED_RUN_DIR", "").strip()
    known = named.startswith("/") and "$" not in named
    try:
        return socket_path(Path(named) if known else basics_of(source).run_dir)
    except ValueError as error:
        raise Failed(exits.CONFIG, f"TENURED_RUN_DIR: {error}") from None
