"""Commands that change who runs what: move, pause, resume, forget. Conditional writes in the store, from anywhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from supervisor import exits
from supervisor.commands.means import CALL_TIMEOUT_S, Failed, asked, duration, file_option, say, store_of, store_option

if TYPE_CHECKING:
    from supervisor.configuration.config import Basics
    from supervisor.operating.errands import Report
    from supervisor.operating.orders import Order
    from supervisor.operating.sight import Sight
    from supervisor.records import Snapshot
    from supervisor.stores.interface import Store


def _wish(command: Callable[..., Any]) -> Callable[..., Any]:
    """What the four have in common."""
    for option in (
        click.argument("patterns", nargs=-1, required=True, metavar="SHARD..."),
        click.option(
            "--timeout",
            "timeout_s",
            callback=duration(low_s=0.1),
            default="60s",
            show_default=True,
            metavar="DURATION",
            help="How long it may take in all. What was wished stays wished after that.",
        ),
        click.option("--no-wait", is_flag=True, help="End as soon as the store has it."),
        store_option,
        file_option,
    ):
        command = option(command)
    return command


@click.command(epilog="Example: tenured move 'trades/*' --to host-b -c /etc/tenured/tenured.ini")
@_wish
@click.option("--to", default="", metavar="HOST-OR-ID", help="Who shall have it; by default anybody but its owner.")
def move(to: str, **options: Any) -> int:
    """Move shards to another supervisor.

    The owner stops each gracefully, then the other one starts it. An owner that cannot hand a shard over takes the wish
    back. SHARD is a name or a pattern, as 'trades/*'.

    Exit code 0: all have moved. 1: some have not, and why. 69: the store cannot be used. 77: not permitted.
    """
    from supervisor.operating.orders import Order

    return _carry_out(Order("move", to=to), **options)


@click.command(epilog="Example: tenured pause trades/7 -c /etc/tenured/tenured.ini")
@_wish
@click.option("--force", is_flag=True, help="Take it from an owner that does not heed: its child is killed.")
def pause(force: bool, **options: Any) -> int:
    """Stop shards, and let nobody run them until they are resumed.

    With --force the owner is not asked but removed: its next renewal is refused, and it kills its child at once. Since
    nobody can know when that was, a shard that is resumed is claimed only after its lease duration.

    Exit code 0: all are paused. 1: some are not, and why. 69: the store cannot be used. 77: not permitted.
    """
    from supervisor.operating.orders import Order

    return _carry_out(Order("pause", force=force), **options)


@click.command(epilog="Example: tenured resume 'trades/*' -c /etc/tenured/tenured.ini")
@_wish
def resume(**options: Any) -> int:
    """Let paused shards run again.

    Exit code 0: all run, or were not paused. 1: some do not, and why. 69: the store cannot be used. 77: not permitted.
    """
    from supervisor.operating.orders import Order

    return _carry_out(Order("resume"), **options)


@click.command(epilog="Example: tenured forget 'old/*' -c /etc/tenured/tenured.ini")
@_wish
def forget(**options: Any) -> int:
    """Delete the rows of shards that nobody wants any more.

    Nobody owns them, and no live supervisor is configured for them. Their checkpoints are lost. What the configuration
    of this command has is not forgotten, either.

    Exit code 0: all are forgotten. 1: some are not, and why. 69: the store cannot be used. 77: not permitted.
    """
    from supervisor.operating.orders import Order

    return _carry_out(Order("forget"), **options)


def _carry_out(
    order: Order, source: str, store_url: str | None, patterns: Sequence[str], no_wait: bool, timeout_s: float
) -> int:
    from supervisor.operating.errands import CALL_MIN_S, Errands, sight_of
    from workers.texts import printable

    store, basics = store_of(source, store_url)
    call_timeout_s = min(CALL_TIMEOUT_S, max(CALL_MIN_S, timeout_s))
    code = exits.OK
    try:
        snapshot = asked(store, lambda: store.snapshot(call_timeout_s, full=True))
        if basics:
            _check(order, basics, source, store, snapshot)
            order = dataclasses.replace(order, kept=frozenset(basics.shards))
        sight = sight_of(snapshot)
        errands = Errands(store, order, sight, _shards(order, sight, patterns), not no_wait, call_timeout_s)
        for report in _told(store, errands.run(timeout_s)):
            if report.done:
                click.echo(printable(report.line))
            else:
                code = say(exits.NO, printable(report.line))
    finally:
        store.close()
    return code


def _check(order: Order, basics: Basics, source: str, store: Store, snapshot: Snapshot) -> None:
    """A store has one fleet, and a file that names another one is not meant for it. Of a file with mistakes nobody
    knows which shards it has, and so which are to be kept."""
    from supervisor.clock import unix_ms
    from supervisor.showing.status import fleets_in
    from workers.texts import printable

    found = fleets_in(snapshot, unix_ms())
    if found and basics.fleet not in found:
        its = printable(", ".join(found))
        sentence = f"store {store.url} is that of fleet {its}, but {source} names fleet {basics.fleet}"
        raise Failed(exits.STORE, f"{sentence}; nothing was changed")
    if order.verb == "forget" and basics.mistakes:
        raise Failed(
            exits.CONFIG, f"which shards {source} has cannot be told before it is right; nothing was forgotten"
        )


def _told(store: Store, reports: Iterator[Report]) -> Iterator[Report]:
    """The reports, where a failure of the store between two of them is ours."""
    while report := asked(store, lambda: next(reports, None)):
        yield report


def _shards(order: Order, sight: Sight, patterns: Sequence[str]) -> list[str]:
    """The shards that are meant, each once. Whatever matches nothing, or goes nowhere, is told before anything is
    written."""
    from supervisor.operating.candidates import Candidate, brief, hoped, named
    from supervisor.operating.operate import known_shards, meant_by
    from supervisor.showing.selection import no_such_shard
    from workers.texts import printable

    known = known_shards(sight)
    meant = {pattern: meant_by(pattern, known) for pattern in patterns}
    if missed := [pattern for pattern, shards in meant.items() if not shards]:
        raise Failed(exits.NO, *(printable(no_such_shard(brief(pattern), map(brief, known))) for pattern in missed))
    if order.to:  # who only looks dead may live: that is found out by watching
        judged = [named(order.to, each, sight.now_ms) for each in (sight.candidates, hoped(sight.candidates))]
        if not any(isinstance(each, Candidate) for each in judged):
            raise Failed(exits.NO, printable(str(judged[0])))
    return list(dict.fromkeys(shard for shards in meant.values() for shard in shards))
