"""From plain rows to outcomes, the same for every provider. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from supervisor.records import BadRow, lease_from
from supervisor.writes import Applied, Outcome, Refused, Unknown


def applied_with(item: Mapping[str, Any]) -> Outcome:
    """Of a create or a claim, with its whole new row. A row that does not parse leaves the caller nothing to go by:
    unknown, to be settled by a read."""
    try:
        return Applied(lease_from(item))
    except BadRow as error:
        return Unknown(f"applied to a row that does not parse: {error}")


def refused_by(item: Mapping[str, Any] | None) -> Refused:
    """`item` is the row that beat us, None if there is none."""
    if item is None:
        return Refused(None)
    try:
        return Refused(lease_from(item))
    except BadRow as error:
        return Refused(None, str(error))
