"""What is told of the lives of children: to the log, to the metrics, and of their ends to the lease set."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from supervisor.core.model import MS, Exited
from supervisor.journal import Journal
from supervisor.metrics.metrics import Metrics
from supervisor.processes import child_events


class Witness:
    def __init__(self, journal: Journal, metrics: Metrics, code: Callable[[], Mapping[str, str]]) -> None:
        """`code`: see `rules.code_of`."""
        self._journal = journal
        self._metrics = metrics
        self._code = code
        self._kills: dict[tuple[str, int], tuple[str, int]] = {}  # why, and when its cause was complete

    def kills(self, shard: str, epoch: int, reason: str, at_ns: int) -> None:
        """The child is being killed. The first reason counts."""
        self._kills.setdefault((shard, epoch), (reason, at_ns))

    def heard(self, event: child_events.ChildEvent) -> tuple[Exited, int] | None:
        """The end of a child, and when it was seen; None: it is none."""
        match event:
            case child_events.Started(shard, epoch, pid):
                self._journal.write("info", "child.started", shard=shard, epoch=epoch, pid=pid)
            case child_events.StartFailed(shard, epoch, reason):
                self._journal.write("error", "child.exited", shard=shard, epoch=epoch, reason=f"no start: {reason}")
                self._kills.pop((shard, epoch), None)
                return Exited(shard, epoch, None, reason), 0
            case child_events.Exited(shard, epoch, report, at_ns, status):
                self._tell_kill(shard, epoch, at_ns)
                return Exited(shard, epoch, report, status or "ended"), at_ns
            case child_events.ExitStatus(shard, epoch, pid, status):
                self._journal.write("info", "child.exited", shard=shard, epoch=epoch, pid=pid, reason=status)
            case child_events.Complaint(text, of_configuration):
                event_name = "config.warning" if of_configuration else "child.exited"
                self._journal.write("warning", event_name, reason=self._with_its_owner(text))
        return None

    def _with_its_owner(self, text: str) -> str:
        """What is said of a handler or sink begins with its reference."""
        owners = (
            owner for reference, owner in self._code().items() if text.startswith((f"{reference} ", f"{reference}:"))
        )
        owner = next(owners, "")
        return f"{owner}: {text}" if owner else text

    def _tell_kill(self, shard: str, epoch: int, at_ns: int) -> None:
        if killed := self._kills.pop((shard, epoch), None):
            reason, since_ns = killed
            latency_ms = round((at_ns - since_ns) / MS, 3)
            self._metrics.killed(reason, latency_ms)
            self._journal.write(
                "warning", "child.killed", shard=shard, epoch=epoch, reason=reason, latency_ms=latency_ms
            )
