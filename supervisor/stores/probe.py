"""Is this table fit for leases? Decided on the description of the table and on what the engine does to our own
member row.

What holds: an engine that ignores a condition of UpdateItem is unfit; batches are used only if the engine refuses a
statement for each of its conditions alone and applies one whose conditions are all true. (Emulators exist that ignore
all conditions of a statement but the key.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from supervisor.records import Member
from supervisor.stores.interface import Unavailable, Unfit
from supervisor.stores.statements import KEY, Between, Change, Equals, Term

Attempt = Callable[[Change], bool]
"""Makes a change; True: applied, False: refused. Raises if nobody can tell."""


def check_table(table: str, description: Any) -> None:
    """`description` is what DescribeTable answers under `Table`. Raises `Unfit`, or `Unavailable` while the table is
    being made."""
    if not isinstance(description, dict) or not description.get("KeySchema"):
        raise Unavailable("DescribeTable: the answer describes no table")
    keys = {part.get("AttributeName"): part.get("KeyType") for part in description["KeySchema"]}
    types = {part.get("AttributeName"): part.get("AttributeType") for part in description["AttributeDefinitions"]}
    if keys != {KEY: "HASH"} or types.get(KEY) != "S":
        found = ", ".join(f"{name} ({types.get(name)}, {kind})" for name, kind in keys.items())
        raise Unfit(f"table {table} has the key {found}, expected {KEY} (S, HASH) as `tenured init` makes it")
    replicated = description.get("Replicas") or description.get("GlobalTableVersion") == "2017.11.29"
    if replicated and description.get("MultiRegionConsistency") != "STRONG":
        raise Unfit(
            f"table {table} is a global table in which the last writer wins, expected one without replicas "
            "or with multi-region strong consistency"
        )
    if description.get("TableStatus") not in ("ACTIVE", "UPDATING"):
        raise Unavailable(f"table {table} is in status {description.get('TableStatus')}, expected ACTIVE")


def flaw(member: Member, attempt: Attempt, read_digest: Callable[[], object], way: str) -> str:
    """What is wrong with this way of writing to the row of `member`, which must be in the store; empty: nothing.

    It changes the row's `digest`: the caller puts the row again. The read at the end is for engines whose answers
    are right and whose deeds are not. Raises `Unavailable` if a late write of an earlier probe came in between: one
    that hung may land at any time, and what it leaves says nothing about this one.
    """
    right, beat = Equals("nonce", member.nonce), Between("beat", member.beat, member.beat)
    truth = f"probe of {way} {member.nonce}"
    if not attempt(_touch(member, truth, (right, beat))):
        return "refuses a write whose conditions are true"
    lies: tuple[tuple[Term, ...], ...] = (
        (Equals("nonce", f"not {member.nonce}"), beat),
        (right, Between("beat", member.beat + 1, member.beat + 2)),
        (right, Equals("owner", member.id), beat),  # a member row has no owner
    )
    for terms in lies:
        if attempt(_touch(member, f"{truth}, false", terms)):
            return "applies a write whose condition is false"
    digest = read_digest()
    if member.nonce not in str(digest):
        raise Unavailable("a late write to the member row came in between during the probe")
    return "" if digest == truth else "does not do what it answers"


def _touch(member: Member, digest: str, terms: tuple[Term, ...]) -> Change:
    return Change(member.key, {"nonce": member.nonce, "digest": digest}, (), terms)
