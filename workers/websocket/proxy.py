"""Which HTTP proxy an attempt goes through, what is asked of it, and what its answer means. It does not read or send.

What holds: `none` asks nobody, whatever stands in the environment. A proxy is asked for a tunnel to host and port of
the url (CONNECT), also without TLS; it resolves the name, and sees nothing else of the url. Its password is in no
refusal and no log.

`env` goes by the variables as other programs do, the lower case name before the upper case one, an empty one counting
as absent: `https_proxy` for wss, `http_proxy` for ws, else `all_proxy`. `no_proxy` is a list, separated by commas or
spaces, of hosts that are reached directly: `*` is all; a name (`example.com`, `.example.com` and `*.example.com` mean
the same) stands for itself and all below it; an address or a network (`10.0.0.0/8`, `::1`) for hosts that the url names
by number, as no name is resolved for this; each may be followed by the `:port` that it is for.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from workers.stream.session import Refusal, answered
from workers.websocket.upgrade import Refused, ascii_name, status_of

VARIABLES = ("https_proxy", "http_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
_URL = re.compile(
    r"(?:http://)?(?:(?P<login>[^/?#]*)@)?(?P<host>\[[0-9a-f:.%]+\]|[^/?#@:\[\]\s]+):(?P<port>[0-9]{1,5})/?",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Proxy:
    """`authorization`: of the header of that name; empty: none is sent."""

    host: str
    port: int
    authorization: str = ""


def chosen(text: str, secure: bool, host: str, port: int, environ: Mapping[str, str]) -> Proxy | None:
    """`text` is the configured value with all placeholders replaced; the rest is of the url. None: no proxy. Raises
    `Refused`."""
    if text == "none":
        return None
    name = "the proxy"
    if text == "env":
        name, text = _named(secure, environ)
        if not text or _is_spared(host.lower().rstrip("."), port, _first(environ, "no_proxy")[1]):
            return None
    found = _URL.fullmatch(text)
    if found is None or not 0 < int(found["port"]) < 65_536:
        raise Refused(Refusal(f"{name} is none that can be used, expected http://[USER:PASSWORD@]HOST:PORT", True))
    return Proxy(found["host"].strip("[]"), int(found["port"]), _authorization(found["login"]))


def _authorization(login: str | None) -> str:
    if not login:
        return ""
    user, _, password = login.partition(":")
    try:
        told = f"{unquote(user)}:{unquote(password)}".encode()
    except UnicodeEncodeError:  # whose text would quote a piece of it
        raise Refused(Refusal("user or password of the proxy hold bytes that are no UTF-8", permanent=True)) from None
    return f"Basic {binascii.b2a_base64(told, newline=False).decode()}"


# --- the environment ----------------------------------------------------------------------------------------


def _named(secure: bool, environ: Mapping[str, str]) -> tuple[str, str]:
    own = _first(environ, "https_proxy" if secure else "http_proxy")
    return own if own[1] else _first(environ, "all_proxy")


def _first(environ: Mapping[str, str], name: str) -> tuple[str, str]:
    """The variable that counts, and its value."""
    spelled = next((spelled for spelled in (name, name.upper()) if environ.get(spelled)), name)
    return spelled, environ.get(spelled, "")


def _is_spared(host: str, port: int, spared: str) -> bool:
    return any(_matches(host, port, entry) for entry in re.split(r"[,\s]+", spared.lower()) if entry)


def _matches(host: str, port: int, entry: str) -> bool:
    if entry == "*":
        return True
    wanted = re.fullmatch(r"\[(?P<six>[^\]]*)\](?::(?P<port6>\d+))?|(?P<name>[^:]*)(?::(?P<port>\d+))?", entry)
    name, wanted_port = entry, ""
    if wanted is not None:  # else it is an address of version 6 without brackets
        name = wanted["six"] or wanted["name"] or ""
        wanted_port = wanted["port6"] or wanted["port"] or ""
    if wanted_port and int(wanted_port) != port:
        return False
    if ":" in host or host.replace(".", "").isdigit():
        return _is_within(host, name)
    name = ascii_name(name.removeprefix("*").strip("."))
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _is_within(host: str, network: str) -> bool:
    from ipaddress import ip_address, ip_network  # not at the top: large, and seldom needed

    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False


# --- the tunnel ---------------------------------------------------------------------------------------------


def request(proxy: Proxy, host: str, port: int) -> bytes:
    """What asks for a tunnel."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    return "\r\n".join([*lines, "", ""]).encode()


def check(head: bytes, rest: bytes, unix_s: float) -> None:
    """The head of the answer, and what came behind it. Raises `Refused` unless the tunnel is there."""
    first, *lines = head.split(b"\r\n")
    status = status_of(first)
    if not status:
        raise Refused(Refusal("the proxy does not speak HTTP"))
    if not 200 <= status < 300:
        names = (line.decode("latin-1").partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in names}
        of_server = answered(status, headers.get("retry-after"), unix_s)
        raise Refused(Refusal(f"the proxy answered {status}", of_server.permanent, of_server.floor_s))
    if rest:  # in both cases it is we who speak first in the tunnel
        raise Refused(Refusal("the proxy opened no tunnel: it sent more than its answer"))
