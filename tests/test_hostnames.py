"""Which Host headers are answered."""

from __future__ import annotations

import pytest

from supervisor.serving.hostnames import accepts, bare

LOOPBACK = accepts("127.0.0.1", "127.0.0.1", ["status.example", "Other.Example:8443"])
EVERYWHERE = accepts("0.0.0.0", "0.0.0.0", ["status.example"])

OURS = ["localhost", "LOCALHOST:9110", "localhost.", "127.0.0.1", "127.0.0.1:9110", "[::1]", "[::1]:80"]
LISTED = ["status.example", "Status.Example:443", "status.example."]
FOREIGN = [
    "evil.example",
    "evil.example:9110",
    "127.0.0.1.evil.example",
    "status.example.evil.example",
    "localhost.evil",
]
NONE = ["", " ", ":", ":80", "[", "[]", "[::1", "::1]:9", "a b", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1, evil.example"]
ODD = ["2130706433", "0x7f.1", "127.1", "user@127.0.0.1", "127.0.0.1/evil.example", "[::1]evil.example", "\x00"]


@pytest.mark.parametrize("host", [*OURS, *LISTED, "other.example"])
def test_on_loopback_our_own_names_and_the_listed_ones_are_answered(host: str) -> None:
    assert LOOPBACK(host)


@pytest.mark.parametrize("host", [*FOREIGN, *NONE, *ODD])
def test_no_name_that_was_not_listed_is_answered_wherever_we_listen(host: str) -> None:
    assert not LOOPBACK(host)
    assert not EVERYWHERE(host)


@pytest.mark.parametrize("host", ["10.0.3.7", "10.0.3.7:9110", "[fd00::7]:9110"])
def test_other_addresses_are_answered_only_where_we_listen_beyond_loopback(host: str) -> None:
    assert EVERYWHERE(host)
    assert not LOOPBACK(host)


@pytest.mark.parametrize("host", [*OURS, *LISTED])
def test_beyond_loopback_our_own_names_and_the_listed_ones_are_answered_too(host: str) -> None:
    assert EVERYWHERE(host)


def test_the_name_that_we_listen_on_is_answered() -> None:
    accepted = accepts("Feeds-1.internal", "10.0.0.5", [])
    assert accepted("feeds-1.internal:9110")
    assert not accepted("feeds-2.internal")


def test_an_address_is_answered_as_it_is_listened_on() -> None:
    accepted = accepts("::1", "::1", [])
    assert accepted("[::1]:9110")
    assert accepted("127.0.0.1")
    assert not accepted("[::2]")


@pytest.mark.parametrize(("host", "name"), [("A.B:80", "a.b"), ("[::1]:80", "::1"), ("a.b.", "a.b"), ("a:b", "")])
def test_a_host_is_compared_without_port_brackets_final_dot_and_case(host: str, name: str) -> None:
    assert bare(host) == name
