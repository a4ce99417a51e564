"""The socket on which a service manager would listen: what it hears, and when."""

from __future__ import annotations

import secrets
import socket
from itertools import pairwise
from types import TracebackType
from typing import Self

from tests.wait import until
from workers.process.kernel import boottime_ns


class Ear:
    """`with Ear() as ear:`; `address` is what NOTIFY_SOCKET says, by default a name that needs no file."""

    def __init__(self, address: str = "") -> None:
        self.address = address or f"@tenured-test-{secrets.token_hex(8)}"
        self.messages: list[tuple[int, str]] = []  # CLOCK_BOOTTIME and text, as far as they were fetched
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind("\0" + self.address[1:] if self.address.startswith("@") else self.address)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def heard(self) -> list[str]:
        """What came since the last call."""
        fetched = []
        while True:
            try:
                fetched.append((boottime_ns(), self._socket.recv(4096).decode()))
            except BlockingIOError:
                self.messages += fetched
                return [text for _, text in fetched]

    def wait_for(self, beginning: str, times: int = 1, timeout_s: float = 20) -> str:
        """The newest message that begins like this, once so many did."""

        def found() -> list[str]:
            self.heard()
            texts = [text for _, text in self.messages if text.startswith(beginning)]
            return texts if len(texts) >= times else []

        return until(found, timeout_s)[-1]

    def gaps_s(self, text: str) -> list[float]:
        """The times between the messages of this text."""
        at = [at_ns for at_ns, each in self.messages if each == text]
        return [(later - earlier) / 1e9 for earlier, later in pairwise(at)]
