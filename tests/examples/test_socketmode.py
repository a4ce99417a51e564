"""`examples/socketmode` against a server whose urls work once, and which keeps what was not acknowledged."""

from __future__ import annotations

from pathlib import Path

from tests.examples.app_server import TICK_S, TOKEN, AppServer, api
from tests.examples.application import application, events, kill_child
from tests.examples.far_end import FarEnd
from tests.process.host import Host
from tests.wait import until


def numbers(host: Host) -> list[int]:
    return [event["data"]["payload"]["number"] for event in events(host)]


def test_each_url_is_used_once_and_no_envelope_is_lost_whatever_ends_the_connection(tmp_path: Path) -> None:
    written = tmp_path / "socketmode" / "events.jsonl"
    server = AppServer(lambda name: f'{name}\\"'.encode() in written.read_bytes())
    with FarEnd(server, TICK_S) as far_end, api(far_end) as url:
        with application("socketmode", tmp_path, 0, {"APP_API": url, "APP_TOKEN": TOKEN}) as host:

            def connected_again(connections: int) -> None:
                until(lambda: len(server.used) == connections, 20)
                sent = server.sent
                until(lambda: max(numbers(host), default=0) > sent, 20)

            connected_again(1)
            far_end.cut()
            connected_again(2)
            server.ask_to_be_left()
            connected_again(3)
            server.refusing = 2
            kill_child(host, "app")
            connected_again(4)
            assert server.refused == 2
            assert "apps.connections.open: internal_error" in (host.folder / "log").read_text()

            server.quiet = True
            until(lambda: not server.pending, 20)
            assert set(numbers(host)) == set(range(1, server.sent + 1))
            assert host.stop() == 0
        assert server.given == server.used
        assert server.strangers == server.too_early == 0
        assert TOKEN not in (host.folder / "log").read_text()
