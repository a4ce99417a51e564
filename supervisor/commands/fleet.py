"""Commands that look at the fleet through its store: init, status, history."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from supervisor import exits
from supervisor.commands.means import CALL_TIMEOUT_S, Failed, asked, duration, file_option, store_of, store_option

if TYPE_CHECKING:
    from supervisor.configuration.config import Basics
    from supervisor.showing.status import FleetView
    from supervisor.stores.interface import Store

INTERVAL_S = 2.0


@click.command(epilog="Example: tenured init --store 'dynamodb://tenured-leases?region=eu-west-1'")
@file_option
@store_option
def init(source: str, store_url: str | None) -> int:
    """Create the table or file of the leases, unless it is there."""
    store, _ = store_of(source, store_url)
    try:
        click.echo(asked(store, store.initialize))
    finally:
        store.close()
    return exits.OK


@click.command(epilog="Example: tenured status --shard 'trades/*' --store sqlite:///leases.db")
@file_option
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
@click.option("--all", "every", is_flag=True, help="A row for each shard, also where there are many.")
@click.option(
    "--shard", "patterns", multiple=True, metavar="PATTERN", help="Only these, as trades/7 or 'trades/*'; repeatable."
)
@click.option(
    "--owner", "owners", multiple=True, metavar="HOST-OR-ID", help="Only those of this host or id, or part of it."
)
@click.option("--watch", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.option(
    "--interval", "interval_s", callback=duration(1, 3600), metavar="DURATION", help="Of --watch.  [default: 2s]"
)
def status(
    source: str,
    store_url: str | None,
    as_json: bool,
    every: bool,
    patterns: tuple[str, ...],
    owners: tuple[str, ...],
    watch: bool,
    interval_s: float | None,
) -> int:
    """Who owns what in the whole fleet, read from the store.

    Exit code, of what is shown: 0: every shard is held. 1: some are not. 69: the store cannot tell, or is
    that of another fleet than the configuration names.

    It needs the right to dynamodb:Scan and no other. A look reads the whole table: of 1,000 shards about 200 read
    units, so that --watch of them costs a few cents an hour.
    """
    if interval_s is not None and not watch:
        raise click.UsageError("--interval belongs to --watch")
    if as_json and watch:
        raise click.UsageError("--watch is for people; a program asks for --json as often as it likes")
    from supervisor.commands.looking import Looks, follow
    from supervisor.showing import view
    from supervisor.showing.screen import console_for

    store, basics = store_of(source, store_url)

    def look() -> view.Picture:
        whole = _seen(store, basics)
        if not patterns and not owners:
            return view.Picture(whole, every)
        return view.Picture(_selected(whole, patterns, owners), True, whole)

    looks = Looks(store, look)
    try:
        picture = follow(looks, interval_s or INTERVAL_S, sys.stdout) if watch else looks.once()
    finally:
        looks.end()
    fleet = picture.fleet
    if as_json:
        click.echo(view.as_json(fleet))
    elif not watch:
        console_for(sys.stdout).print(picture)
    if fleet.expected:
        return exits.STORE
    return exits.NO if fleet.degraded else exits.OK


@click.command(epilog="Example: tenured history trades/7 --store sqlite:///leases.db")
@file_option
@store_option
@click.option("--json", "as_json", is_flag=True, help="The shard as in `status --json`, its history oldest first.")
@click.argument("shard")
def history(source: str, store_url: str | None, as_json: bool, shard: str) -> int:
    """How a shard came to its owner, and where it stands now.

    Its last changes of owner, newest first. Starts by the same owner are counted in one line. Exit code 1: there is no
    such shard.
    """
    from supervisor.commands.looking import Looks
    from supervisor.showing import story, view
    from supervisor.showing.screen import console_for
    from supervisor.showing.selection import no_such_shard
    from workers.texts import printable

    store, basics = store_of(source, store_url)
    looks = Looks(store, lambda: _seen(store, basics))
    try:
        fleet = looks.once()
    finally:
        looks.end()
    found = {each.shard: each for each in fleet.shards}
    if shard in fleet.bad:
        raise Failed(exits.NO, printable(f"the row {shard} does not parse: {fleet.bad[shard]}"))
    if shard not in found:
        raise Failed(exits.NO, printable(no_such_shard(shard, found)))
    if as_json:
        click.echo(view.shard_json(found[shard]))
    else:
        story.show(found[shard], fleet, console_for(sys.stdout))
    return exits.OK


def _seen(store: Store, basics: Basics | None) -> FleetView:
    from supervisor.clock import unix_ms
    from supervisor.showing.status import view

    snapshot = asked(store, lambda: store.snapshot(CALL_TIMEOUT_S, full=True))
    fleet, configured = (basics.fleet, basics.shards) if basics else ("", ())
    return view(snapshot, unix_ms(), fleet, configured)


def _selected(fleet: FleetView, patterns: tuple[str, ...], owners: tuple[str, ...]) -> FleetView:
    from supervisor.showing.selection import NoMatch, select
    from workers.texts import printable

    try:
        return select(fleet, patterns, owners)
    except NoMatch as error:
        raise Failed(exits.NO, *map(printable, error.sentences)) from None
