"""Why a child ended that nobody had asked to, in the one sentence that the shard's row shows as its trouble. Pure.

It stands there from the first crash on: in the claim that starts the next child, in each renewal, and in the release of
an owner that gives the shard up for that; so it does with whoever takes the shard then. It ends when a child has run
for `OVER_AFTER_NS`; with us also when somebody else has the shard, or nobody is to run it here.
"""

from __future__ import annotations

from supervisor.core.model import SECOND, Exited
from supervisor.core.phases import Held
from supervisor.records import TROUBLE_MAX_BYTES
from workers.texts import shortened

OVER_AFTER_NS = 60 * SECOND

_KILLED = {"hung": "hung and was killed", "start-timeout": "did not start in time and was killed"}


def sentence(held: Held, event: Exited) -> str:
    """`its child exited with 1; it said: KeyError: 'price' at feed.py:12`"""
    if event.report is None:
        told = f"its child could not be started: {event.reason}"
    else:
        told = f"its child {_KILLED.get(held.reason, event.reason)}"
        told += f"; it said: {event.report.trouble}" if event.report.trouble else ""
    return shortened(told, TROUBLE_MAX_BYTES)
