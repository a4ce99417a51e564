"""One POST after the other over a kept connection, each within a total time limit.

What holds:

- name resolution, TCP, TLS, the request and the head of its answer end within the limit, however bytes trickle (0.2 s
  later where the request could not be sent whole: there may be an answer to the part that was);
- the head decides: an answer's body is read for a second and 64 KiB at most, and only so that the connection can be
  kept. It is not kept otherwise, nor when the far end has closed it, or has said something unasked, in the meantime;
- certificate and host name are verified against the system's authorities; no redirect is followed, no cookie kept, no
  proxy asked, whatever the environment says.

The standard library's `http.client` does the protocol. It is imported when the first request is made, since it brings
1.5 MB along.
"""

from __future__ import annotations

import io
import re
import select
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workers.process.kernel import boottime_ns
from workers.sinks.address import HttpAddress, place_of
from workers.sinks.limited import Limited, Overdue

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

_BODY_MAX_BYTES = 64 * 1024
_BODY_MAX_NS = 1_000_000_000
_EARLY_ANSWER_NS = 200_000_000
_SEND_BYTES = 64 * 1024
_HEAD_MAX_BYTES = 64 * 1024
_LINE_END, _HEAD_END = re.compile(rb"\n"), re.compile(rb"\n\r?\n")
_INTERIM = re.compile(rb"HTTP/1\.\d 1(?!01)\d\d[ \r\n]")  # RFC 9110, section 15.2: to be read over, but for 101
_S = 1_000_000_000


class Unanswered(Exception):
    """There is no answer; one phrase. It may be that the request has arrived."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`whole`: to all of the request; else the far end spoke, or closed, while we still sent."""

    status: int
    retry_after: str | None = None
    whole: bool = True


class Poster:
    """For one caller at a time."""

    def __init__(self, address: HttpAddress, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._resolving = Limited()
        self._context: ssl.SSLContext | None = None
        self._sock: _Timed | None = None

    def post(self, headers: Sequence[tuple[str, bytes]], body: bytes) -> Answer:
        """`headers` are all but Host and Content-Length. Raises `Unanswered`."""
        from http.client import HTTPException

        deadline_ns = boottime_ns() + int(self._timeout_s * _S)
        try:
            sock = self._ready(deadline_ns)
            response = self._asked(sock, headers, body)
            answer = Answer(response.status, response.getheader("Retry-After"), sock.whole)
            if not _finished(response, sock):
                self.close()
        except TimeoutError:
            self.close()
            raise Unanswered("no answer") from None
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise Unanswered(f"a certificate that is refused ({error.verify_message})") from None
        except (OSError, HTTPException) as error:
            self.close()
            raise Unanswered(_cause(error)) from None
        except BaseException:
            self.close()
            raise
        return answer

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def _ready(self, deadline_ns: int) -> _Timed:
        """The kept connection, or a new one."""
        if self._sock is not None and self._sock.idle:
            self._sock.deadline_ns = deadline_ns
            return self._sock
        self.close()
        sock = self._connected(deadline_ns)
        if self._address.secure:
            sock = self._secured(sock, deadline_ns)
        self._sock = _Timed(sock, deadline_ns)
        return self._sock

    def _connected(self, deadline_ns: int) -> socket.socket:
        """Each address in turn, so that none can use up the time of those after it."""
        host, port = self._address.host, self._address.port
        try:
            found = self._resolving.call(
                lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), _left_s(deadline_ns)
            )
        except Overdue as error:
            raise Unanswered(f"no name resolution ({error})") from None
        except (OSError, UnicodeError) as error:
            raise Unanswered(f"no name resolution ({_cause(error)})") from None
        cause: OSError = OSError("the name has no address")
        for number, (family, kind, protocol, _, place) in enumerate(found):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(_left_s(deadline_ns) / (len(found) - number))
                sock.connect(place)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as error:
                sock.close()
                cause = error
            else:
                return sock
        raise cause

    def _secured(self, sock: socket.socket, deadline_ns: int) -> ssl.SSLSocket:
        if self._context is None:
            self._context = ssl.create_default_context()
            self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            sock.settimeout(_left_s(deadline_ns))  # Python applies it to the whole handshake
            return self._context.wrap_socket(sock, server_hostname=self._address.host)
        except BaseException:
            sock.close()
            raise

    def _asked(self, sock: _Timed, headers: Sequence[tuple[str, bytes]], body: bytes) -> HTTPResponse:
        request = self._request(sock)
        request.putrequest("POST", self._address.path, skip_host=True, skip_accept_encoding=True)
        port = 443 if self._address.secure else 80
        host = place_of(self._address.host, self._address.port)
        request.putheader("Host", host.removesuffix(f":{port}"))
        for name, value in headers:
            request.putheader(name, value)
        request.putheader("Content-Length", str(len(body)))
        try:
            request.endheaders()
            sock.sendall(body)
        except OSError:  # a far end that has heard enough answers and closes, or answers and reads no further
            sock.deadline_ns = boottime_ns() + _EARLY_ANSWER_NS
            sock.whole = False
        return request.getresponse()

    def _request(self, sock: _Timed) -> HTTPConnection:
        from http.client import HTTPConnection

        request = HTTPConnection(self._address.host, self._address.port)
        request.auto_open = 0
        made: Any = sock
        request.sock = made
        return request


def _finished(response: HTTPResponse, sock: _Timed) -> bool:
    """Whether the connection can be kept: all of the answer was read, quickly, and both sides mean to."""
    if response.will_close or not sock.whole or (response.length or 0) > _BODY_MAX_BYTES:
        return False
    sock.deadline_ns = min(sock.deadline_ns, boottime_ns() + _BODY_MAX_NS)
    try:
        response.read(_BODY_MAX_BYTES)
        return response.isclosed() or not response.read(1)
    except Exception:  # whatever it says after its head, the answer was given
        return False


def _left_s(deadline_ns: int) -> float:
    left_ns = deadline_ns - boottime_ns()
    if left_ns <= 0:
        raise TimeoutError
    return left_ns / _S


def _cause(error: Exception) -> str:
    """Without what the far end wrote."""
    return (error.strerror if isinstance(error, OSError) else None) or f"no proper answer ({type(error).__name__})"


class _Timed:
    """A socket whose calls all end at one instant, however bytes trickle; as much of one as `http.client` uses."""

    __slots__ = ("_ahead", "_poll", "_sock", "deadline_ns", "whole")

    def __init__(self, sock: socket.socket, deadline_ns: int) -> None:
        self._sock = sock
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self.deadline_ns = deadline_ns
        self._ahead = bytearray()  # received, and not read yet
        self.whole = True  # so far all was sent that was to be

    @property
    def idle(self) -> bool:
        """Nothing has come since the last answer, nor has it been closed."""
        return not self._ahead and not self._poll.poll(0)

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._sock.settimeout(_left_s(self.deadline_ns))
            view = view[self._sock.send(view[:_SEND_BYTES]) :]

    def receive_into(self, buffer: Any) -> int:
        if self._ahead:
            part = self._ahead[: len(buffer)]
            buffer[: len(part)] = part
            del self._ahead[: len(part)]
            return len(part)
        self._sock.settimeout(_left_s(self.deadline_ns))
        return self._sock.recv_into(buffer)

    def makefile(self, mode: str) -> io.BufferedReader:
        """Of the answer, without the interim ones in front of it: `http.client` knows one of them alone."""
        while _INTERIM.match(self._until(_LINE_END)) and (end := _HEAD_END.search(self._until(_HEAD_END))):
            del self._ahead[: end.end()]
        return io.BufferedReader(_Incoming(self))

    def _until(self, end: re.Pattern[bytes]) -> bytearray:
        """What has come, once that is in it, or as much as there will be."""
        while not end.search(self._ahead) and len(self._ahead) < _HEAD_MAX_BYTES:
            self._sock.settimeout(_left_s(self.deadline_ns))
            more = self._sock.recv(4096)
            if not more:
                break
            self._ahead += more
        return self._ahead

    def close(self) -> None:
        self._sock.close()


class _Incoming(io.RawIOBase):
    """What comes; to close it leaves the socket open."""

    def __init__(self, sock: _Timed) -> None:
        self._sock = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        return self._sock.receive_into(buffer)
