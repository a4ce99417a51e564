"""What an error of a socket or of TLS says to people."""

from __future__ import annotations

import ssl

import pytest

from workers.blame import said
from workers.websocket.cause import cause_of, without_source


def tls_error(number: int, text: str, reason: str = "") -> ssl.SSLError:
    error = ssl.SSLError(number, text)
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (tls_error(1, "[SSL: BAD_RECORD] bad record (_ssl.c:2580)", reason="BAD_RECORD_MAC"), "bad record mac"),
        (
            ssl.SSLEOFError(8, "EOF occurred in violation of protocol (_ssl.c:2580)"),
            "EOF occurred in violation of protocol",
        ),
        (TimeoutError("_ssl.c:989: The handshake operation timed out"), "The handshake operation timed out"),
        (tls_error(1, "[SSL] unknown error (_ssl.c:1)"), "unknown error"),
        (ConnectionResetError(104, "Connection reset by peer"), "Connection reset by peer"),
        (OSError(), "OSError"),
    ],
)
def test_a_cause_is_one_phrase_without_a_place_in_a_source(error: OSError, text: str) -> None:
    assert cause_of(error) == text


def test_other_texts_are_left_as_they_are() -> None:
    assert without_source("[Errno 2] No such file or directory: 'a'") == "[Errno 2] No such file or directory: 'a'"


def test_what_a_handler_raises_of_tls_is_said_without_a_place_in_a_source() -> None:
    assert said(tls_error(1, "[SSL: X] it failed (_ssl.c:1006)")) == "SSLError: it failed"
