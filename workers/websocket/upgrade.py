"""The opening handshake of RFC 6455, section 4: the request as bytes, and whether an answer agrees to it.

What holds: nothing of the request is malformed or ours to set, whatever stands in the configured headers; an answer is
accepted only with status 101, both upgrade headers, the digest of our key, a protocol that we offered if any, and no
extension but compression where it is offered (see `deflate`). Redirects and cookies mean nothing here. No refusal holds
a header or a query.

It does not read or send.
"""

from __future__ import annotations

import binascii
import hashlib
import os
import re
from urllib.parse import unquote

from workers.stream.session import Refusal, answered
from workers.stream.target import Target, fits_header, parts

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
EXTENSION = "permessage-deflate"  # bare: each parameter that concerns us a server may choose by itself
MANDATORY_EXTENSION = 1010
_EXTENSIONS = "sec-websocket-extensions"
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9]\d\d)(?: [^\r\n]*)?")
_NO_URL = re.compile("[\\0- \x7f]")
_OURS = ("connection", "upgrade", "sec-websocket-key", "sec-websocket-version", "sec-websocket-accept")


class Refused(Exception):
    """An attempt failed. `close_code`: what a peer that takes the connection for open is to be told; 0: nothing."""

    def __init__(self, refusal: Refusal, close_code: int = 0) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal
        self.close_code = close_code


class Request:
    """What one attempt asks for. Raises `Refused` where the target cannot be asked for."""

    __slots__ = ("_deflate", "_key", "_protocols", "head", "host", "port", "secure")

    def __init__(self, target: Target) -> None:
        url = _checked_url(target.url)
        self.secure = url["scheme"].lower() == "wss"
        self.host, self.port = ascii_name(url["host"].strip("[]")), int(url["port"] or (443 if self.secure else 80))
        self._key = binascii.b2a_base64(os.urandom(16), newline=False).decode()
        self._protocols: list[str] = []
        self._deflate = target.deflate
        self.head = self._head(url, target.headers)

    def _head(self, url: re.Match[str], headers: tuple[tuple[str, str], ...]) -> bytes:
        """No Origin unless configured: we are no browser."""
        lines = [f"GET {url['path'] or '/'}{url['query'] or ''} HTTP/1.1"]
        lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
        lines.append(f"Sec-WebSocket-Key: {self._key}")
        if self._deflate:
            lines.append(f"Sec-WebSocket-Extensions: {EXTENSION}")
        names = []
        for name, value in headers:
            self._check_header(name, value)
            names.append(name.lower())
            lines.append(f"{name}: {value}")
        if "host" not in names:
            lines.append(f"Host: {self._place(url['port'])}")
        if url["login"] is not None and "authorization" not in names:
            user, _, password = url["login"].partition(":")
            login = f"{unquote(user)}:{unquote(password)}"
            lines.append(f"Authorization: Basic {binascii.b2a_base64(_utf_8(login), newline=False).decode()}")
        return _utf_8("\r\n".join([*lines, "", ""]))

    def _place(self, port: str | None) -> str:
        """Host and port as the url has them."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if port is None else f"{name}:{port}"

    def _check_header(self, name: str, value: str) -> None:
        lower = name.lower()
        if lower == _EXTENSIONS:
            sentence = f"header {name} asks for an extension; leave it out, compression = deflate is how to ask for one"
            raise Refused(Refusal(sentence, permanent=True))
        if lower in _OURS:
            raise Refused(Refusal(f"header {name} belongs to the upgrade itself, leave it out", permanent=True))
        if not fits_header(name + value):
            raise Refused(Refusal(f"header {name!r} holds a line break or control character", permanent=True))
        if lower == "sec-websocket-protocol":
            self._protocols += [protocol.strip().lower() for protocol in value.split(",")]

    def check(self, head: bytes, unix_s: float) -> str:
        """Raises `Refused` unless the head of the answer agrees to the upgrade as we asked for it. Returns what the
        server agreed to of extensions, with its parameters; empty: to none."""
        first, *lines = head.split(b"\r\n")
        status = status_of(first)
        if not status:
            raise Refused(Refusal("the server does not speak HTTP"))
        answer: dict[str, str] = {}
        for line in lines:
            name, _, value = line.decode("latin-1").partition(":")
            name, value = name.lower(), value.strip()
            # lists may be spread over several lines; what is no list is refused when it comes twice
            answer[name] = f"{answer[name]}, {value}" if name in answer else value
        if status != 101:
            raise Refused(answered(status, answer.get("retry-after"), unix_s))
        if _EXTENSIONS in answer and not self._deflate:
            refusal = Refusal("the server agreed to an extension that nobody asked for", permanent=True)
            raise Refused(refusal, MANDATORY_EXTENSION)
        protocol = answer.get("sec-websocket-protocol", "").lower()
        if (
            not first.startswith(b"HTTP/1.1 ")
            or answer.get("upgrade", "").lower() != "websocket"
            or "upgrade" not in map(str.strip, answer.get("connection", "").lower().split(","))
            or answer.get("sec-websocket-accept") != accept_of(self._key)
        ):
            raise Refused(Refusal("the upgrade failed: the answer is not one to our request"))
        if protocol and protocol not in self._protocols:
            raise Refused(Refusal("the upgrade failed: the server chose a protocol that was not offered"))
        return answer.get(_EXTENSIONS, "")


def _utf_8(text: str) -> bytes:
    """Without the words of Python, which would quote a piece of what may be a secret."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Refused(Refusal("the url or a header holds bytes that are no UTF-8", permanent=True)) from None


def status_of(first_line: bytes) -> int:
    """Of an answer; 0: the line is none of HTTP/1 (RFC 9112, section 4)."""
    found = _STATUS.fullmatch(first_line)
    return int(found[1]) if found else 0


def accept_of(key: str) -> str:
    """What an answer says to the key of a request."""
    digest = hashlib.sha1((key + _GUID).encode(), usedforsecurity=False).digest()
    return binascii.b2a_base64(digest, newline=False).decode()


def ascii_name(host: str) -> str:
    """Of a host, as it stands in DNS, in certificates and in what we send: A-labels (RFC 5890). Raises `Refused`."""
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        raise Refused(Refusal(f"{host} is no name of a host", permanent=True)) from None


def _checked_url(text: str) -> re.Match[str]:
    if _NO_URL.search(text):
        raise Refused(Refusal("the url holds a space or a control character; write it as %20", permanent=True))
    url = parts(text)
    if url is None or not 0 < int(url["port"] or 80) < 65_536:
        raise Refused(Refusal("the url is none, expected ws://HOST[:PORT]/PATH or wss://...", permanent=True))
    return url
