"""`tenured drain`: stop the supervisor of this host gracefully, and see it end."""

from __future__ import annotations

import os
import select
import time
from typing import Any

import click

from supervisor import exits
from supervisor.commands.local import HEALTH_TIMEOUT_S, socket_of
from supervisor.commands.means import Failed, asked, basics_of, duration, file_option, store_of

REPORT_EVERY_S = 1.0


@click.command(epilog="Example: tenured drain -c /etc/tenured/tenured.ini")
@file_option
@click.option("--no-wait", is_flag=True, help="Do not wait until it has ended.")
@click.option(
    "--timeout",
    "timeout_s",
    callback=duration(),
    metavar="DURATION",
    help="How long to wait; it goes on draining after that. Default: stop_timeout and 30 seconds.",
)
def drain(source: str, no_wait: bool, timeout_s: float | None) -> int:
    """Stop the supervisor of this host gracefully, as SIGTERM does.

    Its peers take its shards over. It takes no shard any more, closes its connections, releases each lease when its
    child is dead, and exits.

    Exit code 0: it has ended and holds no lease. 1: no supervisor is running, or it has not ended in time. 75: it has
    ended, but leases run out by themselves.
    """
    from supervisor.ask import NoAnswer, ask

    basics = basics_of(source)
    patience_s = basics.stop_timeout_ms / 1000 + 30 if timeout_s is None else timeout_s
    try:
        reply = ask(socket_of(source), "drain", min(HEALTH_TIMEOUT_S, max(patience_s, 0.1)))
    except NoAnswer as error:
        # Who does not answer in time finds the request withdrawn.
        raise Failed(exits.NOT_PERMITTED if error.permission else exits.NO, str(error)) from None
    name = str(reply["supervisor"])
    click.echo(f"{name} drains, it holds {_shards(reply['shards'])}")
    if no_wait:
        return exits.OK
    began_s = time.monotonic()
    if not _ended(source, reply, began_s + patience_s):
        raise Failed(exits.NO, f"{name} has not ended within {patience_s:g} s; it goes on draining")
    click.echo(f"{name} has ended after {time.monotonic() - began_s:.1f} s")
    return _left_behind(source, name)


def _ended(source: str, reply: dict[str, Any], until_s: float) -> bool:
    """Wait for the death of the process; tell how many shards are left meanwhile."""
    from supervisor.ask import NoAnswer, ask

    try:
        pidfd = os.pidfd_open(int(reply["pid"]))
    except ProcessLookupError:
        return True
    try:
        left = reply["shards"]
        while (wait_s := until_s - time.monotonic()) > 0:
            if select.select([pidfd], [], [], min(wait_s, REPORT_EVERY_S))[0]:
                return True
            try:
                now = ask(socket_of(source), "health", HEALTH_TIMEOUT_S)
            except NoAnswer:  # it is about to end
                continue
            if now.get("supervisor") == reply["supervisor"] and now["shards"] != left:
                left = now["shards"]
                click.echo(f"{_shards(left)} left")
        return False
    finally:
        os.close(pidfd)


def _left_behind(source: str, name: str) -> int:
    """What the store says about its leases now that it has ended."""
    from supervisor.commands.means import CALL_TIMEOUT_S

    store, _ = store_of(source, None)
    try:
        snapshot = asked(store, lambda: store.snapshot(CALL_TIMEOUT_S))
    finally:
        store.close()
    left = sorted(shard for shard, row in snapshot.leases.items() if row.owner == name)
    if left:
        raise Failed(
            exits.UNRELEASED, f"these leases could not be released and run out by themselves: {', '.join(left)}"
        )
    click.echo("it holds no lease")
    return exits.OK


def _shards(number: int) -> str:
    return f"{number} shard{'' if number == 1 else 's'}"
