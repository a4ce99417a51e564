"""What `Children` tells its owner. Events come from the loop, in the order in which they happened to each child."""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.core.model import Report


@dataclass(frozen=True, slots=True)
class Ready:
    """A fork server has imported everything and begins to fork; once for each fork server."""


@dataclass(frozen=True, slots=True)
class Started:
    """The child exists and has its epoch."""

    shard: str
    epoch: int
    pid: int


@dataclass(frozen=True, slots=True)
class StartFailed:
    """There is no child of this epoch, or it will never do anything. `reason` is one phrase."""

    shard: str
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Exited:
    """The child is gone. `report` is what its slot last said; `at_ns` when that was seen; `status`: how it ended, in
    words, if that was known by then."""

    shard: str
    epoch: int
    report: Report
    at_ns: int
    status: str = ""


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a child ended, in words, for logs; before or after its `Exited`, and not always."""

    shard: str
    epoch: int
    pid: int
    status: str


@dataclass(frozen=True, slots=True)
class Complaint:
    """A sentence for the log about the fork server, or about something configured that it could not import."""

    text: str
    of_configuration: bool = False


ChildEvent = Ready | Started | StartFailed | Exited | ExitStatus | Complaint
