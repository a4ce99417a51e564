"""Certificates that are replaced while a real supervisor runs."""

from __future__ import annotations

import os
import shutil
import ssl
from collections import Counter
from pathlib import Path

from tests.feed import Feed, Peer
from tests.process.host import Host
from tests.process.test_reload import reload, rows
from tests.wait import until

FILES = Path(__file__).parents[1] / "tls"
KEYS = ("tls_ca = ./ca.pem", "tls_cert = ./client.pem", "tls_key = ./client.key")


def test_a_replaced_certificate_is_shown_after_a_reload_and_an_untouched_one_replaces_nobody(tmp_path: Path) -> None:
    shown: Counter[str] = Counter()

    def behave(peer: Peer) -> None:
        assert isinstance(peer.sock, ssl.SSLSocket)
        shown["second" if "second" in str(peer.sock.getpeercert()) else "client"] += 1
        peer.accept()
        peer.serve()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FILES / "server.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(FILES / "ca.pem")
    for file in FILES.iterdir():
        shutil.copy(file, tmp_path)
    with (
        Feed(behave, context) as feed,
        Host(tmp_path, f"sqlite:///{tmp_path}/leases.db", feed.url, shards=2, stream=KEYS) as host,
    ):
        until(lambda: shown["client"] == 2, 15)
        before = rows(tmp_path)
        assert reload(host)["reason"] == "unchanged"
        os.replace(tmp_path / "second.pem", tmp_path / "client.pem")
        assert reload(host)["reason"] == "changed"
        until(lambda: shown["second"] == 2, 15)
        after = rows(tmp_path)
        assert all(after[shard][1] == before[shard][1] + 1 for shard in before)
        shutil.copy(tmp_path / "stranger.key", tmp_path / "client.key")
        assert "the private key does not belong" in str(reload(host, "config.rejected")["reason"])
        assert rows(tmp_path) == after
    assert shown == {"client": 2, "second": 2}
