"""SIGHUP: reading the configuration anew, off the loop, one reading at a time.

What holds: however many requests come, one reading runs, and one more after it if any came meanwhile; a configuration
that is invalid, or cannot be read, changes nothing and is told with every mistake; an equal one changes nothing. What
only a restart can change keeps its value and is named.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Protocol

from supervisor.configuration.config import ConfigError, Loaded, examine
from supervisor.configuration.settings import Settings, restart_needed
from supervisor.journal import Journal
from supervisor.notify import Notifier
from supervisor.records import REJECTED_MAX_BYTES
from supervisor.rules import with_what_stays


class Reloaded(Protocol):
    """Who lives by the settings."""

    settings: Settings

    @property
    def stopping(self) -> bool: ...

    def reconfigure(self, settings: Settings) -> None: ...

    def reject(self, reason: str) -> None: ...

    def describe(self) -> str:
        """A line for systemd."""


class Reloader:
    def __init__(self, owner: Reloaded, journal: Journal, notifier: Notifier) -> None:
        self._owner = owner
        self._journal = journal
        self._notifier = notifier
        self._task: asyncio.Task[None] | None = None
        self._again = False

    def request(self) -> None:
        """On the loop. Nothing comes after the last word to systemd, that we stop."""
        if self._owner.stopping:
            return
        self._again = True
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._again:
                self._again = False
                await self._reload()
        finally:
            self._task = None

    async def _reload(self) -> None:
        self._notifier.reloading(time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000)
        try:
            loaded = await asyncio.to_thread(examine, self._owner.settings.source, os.environ)
        except ConfigError as error:
            for warning in error.warnings:
                self._journal.write("warning", "config.warning", reason=warning)
            self._reject(error.problems, error.outline)
        except Exception as error:  # whatever a reading can meet, the service goes on as it is
            problem = f"it could not be read: {type(error).__name__}"
            self._reject((problem,), problem)
        else:
            self._take(loaded)
        self._notifier.ready(self._owner.describe())

    def _reject(self, problems: tuple[str, ...], outline: str) -> None:
        """`outline`: what everybody in the fleet may read of the first."""
        for problem in problems:
            self._journal.write("error", "config.rejected", reason=problem)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        first = outline.encode()[: REJECTED_MAX_BYTES - len(more)].decode(errors="ignore")
        self._owner.reject(first + more)

    def _take(self, loaded: Loaded) -> None:
        old = self._owner.settings
        waiting = restart_needed(old, loaded.settings)
        for name in waiting:
            self._journal.write(
                "warning", "config.warning", reason=f"{name} changed, which needs a restart; it stays as it was"
            )
        for warning in loaded.warnings:
            self._journal.write("warning", "config.warning", reason=warning)
        new = with_what_stays(old, loaded.settings)
        reason = "unchanged" if new == old else "changed"
        rest = f", but for what waits for a restart: {', '.join(waiting)}" if waiting else ""
        self._journal.write("info", "config.reloaded", reason=reason + rest)
        self._owner.reconfigure(new)
