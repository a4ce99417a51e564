"""AWS credentials that never make a call wait.

botocore refreshes temporary credentials on whatever thread signs next, and all others wait for it: 9 seconds each
when the endpoint hangs. Here a thread of its own asks for them every `CHECK_INTERVAL_S`; botocore then refreshes
15 minutes ahead of need, and signing takes what was fetched last. When no refresh succeeds the last ones are used
until the service refuses them, which the outcome of the call then says.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol

CHECK_INTERVAL_S = 60.0


class Source(Protocol):
    """What botocore's credential providers return."""

    def get_frozen_credentials(self) -> Any: ...


class AheadOfNeed:
    """Stands in for `source` at the signers. The first fetch happens here and may block, and raise."""

    def __init__(self, source: Source, check_interval_s: float = CHECK_INTERVAL_S) -> None:
        self._source = source
        self._frozen = source.get_frozen_credentials()
        self._interval_s = check_interval_s
        self._stopped = threading.Event()
        threading.Thread(target=self._refresh, name="tenured-credentials", daemon=True).start()

    def get_frozen_credentials(self) -> Any:
        return self._frozen

    def __getattr__(self, name: str) -> Any:
        """botocore also asks where credentials are from; all but the secrets is the source's business."""
        return getattr(self._source, name)

    def close(self) -> None:
        self._stopped.set()

    def _refresh(self) -> None:
        while not self._stopped.wait(self._interval_s):
            try:
                self._frozen = self._source.get_frozen_credentials()
            except Exception:  # any provider may raise anything; botocore has logged it, and the next turn tries again
                continue
