"""Commands that look at the fleet through its store: init, status."""

from __future__ import annotations

import sys

import click

from supervisor import exits
from supervisor.commands.means import CALL_TIMEOUT_S, asked, file_option, store_of, store_option


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


@click.command(epilog="Example: tenured status --json --store sqlite:///leases.db")
@file_option
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
def status(source: str, store_url: str | None, as_json: bool) -> int:
    """Who owns what in the whole fleet, read from the store.

    Exit code 0: every shard is held. 1: some are not. 69: the store cannot tell.
    """
    from supervisor import view
    from supervisor.clock import unix_ms
    from supervisor.status import view as view_of

    store, loaded = store_of(source, store_url)
    try:
        snapshot = asked(store, lambda: store.snapshot(CALL_TIMEOUT_S, full=True))
    finally:
        store.close()
    fleet, configured = (loaded.settings.fleet, tuple(loaded.settings.shards)) if loaded else ("", ())
    seen = view_of(snapshot, unix_ms(), fleet, configured)
    if as_json:
        click.echo(view.as_json(seen))
    else:
        view.show(seen, sys.stdout)
    return exits.NO if seen.degraded else exits.OK
