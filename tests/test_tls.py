"""TLS: whom a child trusts, what it shows, which files can be used, and what a replaced one leads to."""

from __future__ import annotations

import os
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.configuration.config import ConfigError, examine, load
from supervisor.rules import outdated
from tests.child import Child, task
from tests.feed import Feed, Peer
from tests.wait import until
from workers.board import MESSAGES, OPEN
from workers.process.means import Means
from workers.process.preload import preload
from workers.process.wire import Preparation
from workers.websocket import tls
from workers.websocket.tls import BadFile, Profile

FILES = Path(__file__).with_name("tls")
CA, CERT, KEY = (str(FILES / name) for name in ("ca.pem", "client.pem", "client.key"))
SLOW = {"reconnect_min_ms": 60_000, "reconnect_max_ms": 60_000}


def good(peer: Peer) -> None:
    peer.accept()
    peer.text("hello")
    peer.serve()


def server(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, wants_certificate: bool = False) -> ssl.SSLContext:
    """Of this version of TLS and no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FILES / "server.pem")
    context.minimum_version = context.maximum_version = version
    if wants_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(CA)
    return context


# --- connections --------------------------------------------------------------------------------------------

VERSIONS = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])


@VERSIONS
def test_a_server_that_wants_a_certificate_gets_ours(version: ssl.TLSVersion) -> None:
    shown = []

    def behave(peer: Peer) -> None:
        assert isinstance(peer.sock, ssl.SSLSocket)
        shown.append(peer.sock.getpeercert())
        good(peer)

    spec = {"tls_ca": CA, "tls_cert": CERT, "tls_key": KEY}
    with Feed(behave, server(version, True)) as feed, Child(task(feed.url, **spec)) as child:
        child.word(MESSAGES, 1)
    assert shown[0] is not None
    assert shown[0]["subject"] == ((("commonName", "client"),),)


@VERSIONS
@pytest.mark.parametrize(
    ("spec", "reason"),
    [({}, "CERTIFICATE"), ({"tls_cert": str(FILES / "expired.pem"), "tls_key": KEY}, "EXPIRED")],
    ids=["none", "expired"],
)
def test_a_server_that_does_not_accept_our_certificate_is_a_permanent_refusal(
    version: ssl.TLSVersion, spec: dict[str, str], reason: str
) -> None:
    with Feed(good, server(version, True)) as feed, Child(task(feed.url, tls_ca=CA, **spec, **SLOW)) as child:
        closed = until(lambda: child.log("connection.closed"), 5)[0]
    said = closed["reason"].upper().replace("_", " ")
    assert closed["permanent"] is True
    assert reason in said or "HANDSHAKE FAILURE" in said  # which is all that 1.2 has to say of a missing one


def test_an_older_version_than_the_configured_one_is_a_permanent_refusal() -> None:
    old, new = server(ssl.TLSVersion.TLSv1_2), server(ssl.TLSVersion.TLSv1_3)
    with Feed(good, old) as feed, Child(task(feed.url, tls_ca=CA, tls_min_version="1.3", **SLOW)) as child:
        closed = until(lambda: child.log("connection.closed"), 5)[0]
        assert closed["permanent"] is True
        assert "protocol version" in closed["reason"].lower()
    with Feed(good, old) as feed, Child(task(feed.url, tls_ca=CA)) as child:
        child.word(OPEN, 1)
    with Feed(good, new) as feed, Child(task(feed.url, tls_ca=CA, tls_min_version="1.3")) as child:
        child.word(OPEN, 1)


# --- files --------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for file in FILES.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "noise").write_bytes(os.urandom(3000))
    (tmp_path / "whole.pem").write_text(Path(CERT).read_text() + Path(KEY).read_text())
    return tmp_path


NO_CERTIFICATE, NO_KEY = "it holds no certificate in PEM form", "it holds no private key in PEM form"


@pytest.mark.parametrize(
    ("ca", "cert", "key", "named", "reason"),
    [
        ("noise", "", "", "tls_ca noise", NO_CERTIFICATE),
        ("client.key", "", "", "tls_ca client.key", NO_CERTIFICATE),
        (".", "", "", "tls_ca .", "Is a directory"),
        ("", "noise", "client.key", "tls_cert noise", NO_CERTIFICATE),
        ("", "none", "client.key", "tls_cert none", "No such file or directory"),
        ("", "client.pem", "none", "tls_key none", "No such file or directory"),
        ("", "client.pem", "noise", "tls_key noise", NO_KEY),
        ("", "client.pem", "", "tls_cert client.pem", NO_KEY),
        (
            "",
            "client.pem",
            "stranger.key",
            "tls_key stranger.key",
            "the private key does not belong to the certificate",
        ),
        ("", "client.pem", "encrypted.key", "tls_key encrypted.key", "the private key has a password, and nobody is"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_in_a_sentence_that_names_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ca: str, cert: str, key: str, named: str, reason: str
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(BadFile) as bad:
        tls.context(Profile(ca, cert, key))
    assert str(bad.value).startswith(f"{named} cannot be used: {reason}")
    assert bad.value.key == named.split()[0]


def test_the_key_may_stand_in_the_file_of_the_certificate(folder: Path) -> None:
    tls.context(Profile(cert=str(folder / "whole.pem")))


@pytest.fixture
def written(folder: Path) -> Callable[[str], str]:
    def write(keys: str) -> str:
        file = folder / "tenured.ini"
        head = f"[supervisor]\nfleet = f\nstore = sqlite:///{folder}/db\n[stream:a]\nurl = wss://h/\n"
        file.write_text(f"{head}{keys}\n[stream:b]\nurl = wss://h/\n")
        return str(file)

    return write


def test_a_wrong_file_is_a_mistake_in_the_line_that_names_it(written: Callable[[str], str], folder: Path) -> None:
    source = written("tls_cert = client.pem\ntls_key = encrypted.key")
    with pytest.raises(ConfigError) as error:
        load(source, {})
    (problem,) = error.value.problems
    assert problem.startswith(f"{source}:7: tls_key {folder}/encrypted.key cannot be used: the private key has a pass")
    assert "encrypted" not in error.value.outline  # which everybody in the fleet may read


@pytest.mark.parametrize(("certificate", "warned"), [("expired.pem", ["certificate has expired"]), ("client.pem", [])])
def test_a_certificate_that_has_expired_is_warned_of_and_stops_nobody(
    written: Callable[[str], str], folder: Path, certificate: str, warned: list[str]
) -> None:
    source = written(f"tls_cert = {certificate}\ntls_key = client.key")
    found = [warning for warning in examine(source, {}).warnings if "tls_" in warning]
    assert found == [f"{source}:6: tls_cert: servers will say of {folder}/{certificate}: {reason}" for reason in warned]


# --- one context for each profile ---------------------------------------------------------------------------


def test_children_share_the_contexts_that_were_made_before_the_fork() -> None:
    profiles = (Profile(CA), Profile(CA, CERT, KEY), Profile(CA, min_version="1.3"))
    warnings: list[str] = []
    made = preload(Preparation(tls_profiles=(*profiles, Profile("/nowhere"))), warnings.append).contexts
    assert warnings == ["tls_ca /nowhere cannot be used: No such file or directory"]
    assert set(made) == set(profiles)
    means = Means({}, made, -1, lambda line: None)
    for profile, spec in zip(
        profiles, ({}, {"tls_cert": CERT, "tls_key": KEY}, {"tls_min_version": "1.3"}), strict=True
    ):
        scope = task("wss://h/", tls_ca=CA, **spec).scope
        assert means.context(scope) is means.context(scope) is made[profile]


def test_a_replaced_file_replaces_the_children_that_use_it_and_an_untouched_one_nobody(
    written: Callable[[str], str], folder: Path
) -> None:
    source = written("tls_cert = client.pem\ntls_key = client.key")
    first = load(source, {})
    assert load(source, {}) == first
    os.replace(folder / "second.pem", folder / "client.pem")
    second = load(source, {})
    assert outdated(first, second) == {"a"}
    assert first.digest == second.digest
