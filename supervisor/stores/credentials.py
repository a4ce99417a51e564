"""AWS credentials that never make a call wait.

botocore refreshes temporary credentials on whatever thread signs next, and all others wait for it: 9 seconds each
when the endpoint hangs. Here a thread of its own asks for them every `CHECK_INTERVAL_S`; botocore then refreshes
15 minutes ahead of need, and signing takes what was fetched last. When no refresh succeeds the last ones are used
until the service refuses them, which the outcome of the call then says. Those that it refused (`doubt`) are looked for
anew at once, from the first provider on: an endpoint may be back, a file may have been rewritten.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from supervisor.stores.errors import NoCredentials

CHECK_INTERVAL_S = 60.0
PAUSE_S = 1.0  # between two looks: every refused call doubts


class Source(Protocol):
    """What botocore's credential providers return."""

    def get_frozen_credentials(self) -> Any: ...


class AheadOfNeed:
    """Stands in for what `load` finds at the signers. The first fetch happens here and may block, and raise;
    `NoCredentials` if nothing is found."""

    def __init__(
        self, load: Callable[[], Source | None], check_interval_s: float = CHECK_INTERVAL_S, pause_s: float = PAUSE_S
    ) -> None:
        self._load = load
        self._source = self._found()
        self._frozen = self._source.get_frozen_credentials()
        self._interval_s = check_interval_s
        self._pause_s = pause_s
        self._doubted = threading.Event()
        self._stopped = threading.Event()
        threading.Thread(target=self._refresh, name="tenured-credentials", daemon=True).start()

    def get_frozen_credentials(self) -> Any:
        return self._frozen

    def __getattr__(self, name: str) -> Any:
        """botocore also asks where credentials are from; all but the secrets is the source's business."""
        return getattr(self._source, name)

    def doubt(self) -> None:
        """The service refused them."""
        self._doubted.set()

    def close(self) -> None:
        self._stopped.set()
        self._doubted.set()

    def _found(self) -> Source:
        source = self._load()
        if source is None:
            raise NoCredentials
        return source

    def _refresh(self) -> None:
        while True:
            doubted = self._doubted.wait(self._interval_s)
            if self._stopped.is_set():
                return
            self._doubted.clear()
            try:
                source = self._found() if doubted else self._source
                self._frozen = source.get_frozen_credentials()
                self._source = source
            except Exception:  # any provider may raise anything; botocore has logged it, and the next turn tries again
                pass
            self._stopped.wait(self._pause_s)
