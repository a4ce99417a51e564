"""The way to a target: what is asked for, through which proxy, at which addresses. All of it that can take long without
a connection happens here, in the thread of an attempt, so that the permission to connect can be taken last.

What holds: nobody is connected to; whether the environment is asked for a proxy says the configuration. Name resolution
has no deadline of its own: the loop gives up the attempt.
"""

from __future__ import annotations

import os
import socket

# not that of `socket`, which makes enums of its results: that would cost each child a dozen pages of touched memory
from _socket import getaddrinfo
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workers.process.kernel import boottime_ns
from workers.stream.session import Refusal
from workers.stream.target import Target
from workers.websocket.cause import cause_of
from workers.websocket.upgrade import Refused, Request

if TYPE_CHECKING:  # imported only where it is needed: not every child shall pay for it
    from workers.websocket.proxy import Proxy


_STREAM = int(socket.SOCK_STREAM)


@dataclass(frozen=True, slots=True)
class Address:
    """What `socket.getaddrinfo` says of one."""

    family: int
    kind: int
    protocol: int
    address: Any


@dataclass(frozen=True, slots=True)
class Route:
    """`addresses` are of the proxy if there is one, to be tried in order; `left_ns`: of the connect timeout."""

    target: Target
    request: Request
    proxy: Proxy | None
    addresses: tuple[Address, ...]
    left_ns: int

    @property
    def entrance(self) -> str:
        """Whom the addresses belong to, for sentences."""
        return f"the proxy {self.proxy.host}" if self.proxy else self.request.host

    @property
    def port(self) -> int:
        return self.proxy.port if self.proxy else self.request.port


def found(target: Target, deadline_ns: int) -> Route:
    """Raises `Refused`. The deadline is that of the whole attempt."""
    request = Request(target)
    proxy = _proxy(target, request) if target.proxy != "none" else None
    which, host, port = ("the proxy ", proxy.host, proxy.port) if proxy else ("", request.host, request.port)
    try:
        # as bytes, since a text goes through the codec for names in other scripts, also if it is in none
        known = getaddrinfo(host.encode() if host.isascii() else host, port, 0, _STREAM)
    except (OSError, UnicodeError) as error:
        raise Refused(Refusal(f"{which}{host} cannot be resolved: {cause_of(error)}")) from None
    addresses = [Address(family, kind, protocol, address) for family, kind, protocol, _, address in known]
    return Route(target, request, proxy, tuple(addresses), deadline_ns - boottime_ns())


def _proxy(target: Target, request: Request) -> Proxy | None:
    from workers.websocket import proxy

    return proxy.chosen(target.proxy, request.secure, request.host, request.port, os.environ)
