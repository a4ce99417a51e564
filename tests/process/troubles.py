"""Ways for a supervisor to lose its store: how each strikes, how it is mended, and what it needs beforehand."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from tests import faults
from tests.credential_service import CredentialService, credential_service
from tests.faults import DelayAnswers, EatAnswers, Fault, Hang, Pick, Reply
from tests.proxy import FaultProxy

LATE_S = 0.8  # more than an attempt at a lease of 3 s may take
# As glibc does by default: a query that got no answer is sent again after 5 s, twice in all.
RESOLVER = """
import os, socket, time

resolve = socket.getaddrinfo

def getaddrinfo(*arguments, **more):
    for _ in range(2):
        if not os.path.exists({stalled!r}):
            return resolve(*arguments, **more)
        time.sleep(5)
    raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

socket.getaddrinfo = getaddrinfo
"""


class Trouble(Protocol):
    @property
    def environment(self) -> Mapping[str, str]:
        """Of the supervisor, beside ours."""

    @property
    def back_s(self) -> float:
        """How soon after the end everything streams again."""

    def strike(self, proxy: FaultProxy, long: bool) -> None: ...

    def mend(self, proxy: FaultProxy) -> None: ...


@dataclass(frozen=True, slots=True)
class Faulty:
    """The store, or the way to it, does to each request what `fault` says."""

    fault: Fault
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    back_s: float = 3.0

    def strike(self, proxy: FaultProxy, long: bool) -> None:
        proxy.fault = self.fault

    def mend(self, proxy: FaultProxy) -> None:
        proxy.fault = None


@dataclass(frozen=True, slots=True)
class NoNames:
    """Connections end, and names are not resolved; what is asked meanwhile is asked again 5 s later."""

    stalled: Path
    environment: Mapping[str, str]
    back_s: float = 8.0

    def strike(self, proxy: FaultProxy, long: bool) -> None:
        self.stalled.touch()
        proxy.cut()

    def mend(self, proxy: FaultProxy) -> None:
        self.stalled.unlink()


@dataclass(frozen=True, slots=True)
class NoCredentials:
    """The service of credentials stalls; in a long trouble what it gave out expires meanwhile, and the store says so.
    botocore waits 2 s for an answer and then another second."""

    service: CredentialService
    environment: Mapping[str, str]
    back_s: float = 6.0

    def strike(self, proxy: FaultProxy, long: bool) -> None:
        self.service.stalled.set()
        if long:
            proxy.fault = Reply(faults.expired_token(), Pick(token=self.service.token))
            self.service.generation += 1

    def mend(self, proxy: FaultProxy) -> None:
        """What was given out before stays expired."""
        self.service.stalled.clear()


KINDS: Mapping[str, Fault] = {
    "silence": Hang(),
    "throttling": Reply(faults.throttled()),
    "server errors": Reply(faults.server_error()),
    "a captive portal": Reply(faults.html()),
    "lost answers": EatAnswers(),
    "late answers": DelayAnswers(LATE_S),
    "a clock that stepped": Reply(faults.wrong_clock()),
}
NAMES, CREDENTIALS = "no names", "no credentials"
ALL = (*KINDS, NAMES, CREDENTIALS)


@contextmanager
def troubles(folder: Path) -> Iterator[dict[str, Trouble]]:
    """One of each kind, by its name; `folder` is for what they keep."""
    stalled, startup = folder / "stalled", folder / "startup"
    startup.mkdir()
    (startup / "sitecustomize.py").write_text(RESOLVER.format(stalled=str(stalled)))
    path = os.pathsep.join([str(startup), *filter(None, [os.environ.get("PYTHONPATH")])])
    with credential_service() as service:
        made: dict[str, Trouble] = {kind: Faulty(fault) for kind, fault in KINDS.items()}
        made[NAMES] = NoNames(stalled, {"PYTHONPATH": path})
        made[CREDENTIALS] = NoCredentials(service, service.environment())
        yield made
