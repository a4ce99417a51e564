"""Commands for beginners: example, demo."""

from __future__ import annotations

import click

from supervisor import exits


@click.command(epilog="Example: tenured example > tenured.ini")
@click.argument("what", type=click.Choice(["ini", "unit", "sysusers", "tmpfiles"]), default="ini")
def example(what: str) -> int:
    """Print a commented configuration, or what systemd wants.

    \b
    unit        the service, for /etc/systemd/system/tenured.service
    sysusers    its user, for /etc/sysusers.d/tenured.conf
    tmpfiles    the folder of its configuration, for /etc/tmpfiles.d/tenured.conf
    """
    from supervisor import unit
    from supervisor.configuration.example import example as ini

    texts = {"unit": unit.UNIT, "sysusers": unit.SYSUSERS, "tmpfiles": unit.TMPFILES}
    click.echo(texts.get(what) or ini(), nl=False)
    return exits.OK


@click.command(epilog="Example: tenured demo --supervisors 3")
@click.option(
    "--store", "store_url", metavar="URL", help="Where the leases are; without it a file in a temporary folder."
)
@click.option("--supervisors", default=2, show_default=True, help="How many share the shards, 2 or 3.")
@click.option("--shards", default=8, show_default=True, help="How many shards they share.")
@click.option(
    "--seconds", default=3, show_default=True, help="How long it streams before the kill and after it, 1 to 10."
)
@click.option("--plain", is_flag=True, help="Lines instead of a live screen, also on a terminal.")
def demo(store_url: str | None, supervisors: int, shards: int, seconds: int, plain: bool) -> int:
    """Watch a supervisor being killed and others taking over.

    They share the shards of a local feed. It needs no network, no account and no configuration, and ends by itself
    within a minute.

    Exit code 0: everything was as promised. 1: something was not.
    """
    from supervisor.demo import show

    return show.run(store_url, supervisors, shards, seconds, plain)
