"""Which Host headers are answered: what keeps a foreign web page from reading us through a browser. Pure.

A page of another site can let its own name resolve to our address and then read us as if we were that site (DNS
rebinding). The browser still sends the page's name as Host, so a name passes only if it is expected: `localhost`, what
we were told to listen on, and the names of `http_hosts`. An address written in digits cannot be resolved to anything
else: where we listen on loopback those of loopback pass, elsewhere all do, so that load balancers and probes, which ask
by address, need no configuration. Ports do not matter: they change with every tunnel.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable

_PARTS = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\s:\[\]@/,]+))(?::[0-9]{1,5})?")


def bare(host: str) -> str:
    """A Host header or an entry of `http_hosts` without port, brackets and final dot, in small letters; "" if it is
    none."""
    match = _PARTS.fullmatch(host.strip().lower())
    return "" if match is None else (match[1] or match[2]).removesuffix(".")


def accepts(listening_on: str, bound_to: str, hosts: Iterable[str]) -> Callable[[str], bool]:
    """`listening_on`: name or address as configured; `bound_to`: the address that it became."""
    names = {"localhost", bare(listening_on), listening_on.lower(), *map(bare, hosts)} - {""}
    only_loopback = ipaddress.ip_address(bound_to).is_loopback

    def accepted(host: str) -> bool:
        name = bare(host)
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name in names
        return name in names or not only_loopback or address.is_loopback

    return accepted
