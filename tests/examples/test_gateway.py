"""`examples/gateway` against a gateway that cuts, asks for reconnects, ignores heartbeats and forgets sessions."""

from __future__ import annotations

import collections
from collections.abc import Callable
from pathlib import Path

from tests.examples.application import application, events, kill_child
from tests.examples.chat_gateway import TICK_S, TOKEN, ChatGateway
from tests.examples.far_end import FarEnd
from tests.process.host import Host
from tests.wait import until

SHARDS = (0, 1)


def texts(host: Host, shard: int) -> list[str]:
    return [event["data"]["d"]["text"] for event in events(host) if event["shard"] == f"chat/{shard}"]


def test_sessions_outlive_cuts_kills_and_stops_and_no_event_of_them_is_lost(tmp_path: Path) -> None:
    gateway = ChatGateway()
    with (
        FarEnd(gateway, TICK_S) as far_end,
        application("gateway", tmp_path, far_end.port, {"GATEWAY_TOKEN": TOKEN}) as host,
    ):
        until(lambda: all(texts(host, shard) for shard in SHARDS), 20)
        assert sorted(gateway.done) == [("identify", 0), ("identify", 1)]

        def each_resumes(after: Callable[[], object]) -> None:
            gateway.done.clear()
            after()
            until(lambda: {shard for _, shard in gateway.done} == set(SHARDS), 20)
            assert {what for what, _ in gateway.done} == {"resume"}

        each_resumes(far_end.cut)
        each_resumes(gateway.ask_to_reconnect)
        each_resumes(lambda: [kill_child(host, f"chat/{shard}") for shard in SHARDS])
        each_resumes(lambda: (host.stop(), host.start()))

        gateway.deaf = True
        each_resumes(lambda: None)  # as soon as a heartbeat has no answer
        gateway.deaf = False
        assert gateway.late == 0  # its own were always in time

        gateway.quiet = True
        for shard in SHARDS:
            expected = {event["d"]["text"] for event in gateway.messages(shard)}
            until(lambda shard=shard, expected=expected: set(texts(host, shard)) == expected, 20)
        assert host.stop() == 0
    copies = collections.Counter((event["epoch"], event["shard"], event["data"]["s"]) for event in events(host))
    assert set(copies.values()) == {1}  # a child knows where it is; only the next one sees some again


def test_who_has_lost_the_session_identifies_itself_once_and_goes_on(tmp_path: Path) -> None:
    gateway = ChatGateway()
    with (
        FarEnd(gateway, TICK_S) as far_end,
        application("gateway", tmp_path, far_end.port, {"GATEWAY_TOKEN": TOKEN}) as host,
    ):
        until(lambda: all(texts(host, shard) for shard in SHARDS), 20)
        gateway.done.clear()
        gateway.forget_sessions()
        far_end.cut()
        until(lambda: len(gateway.done) >= len(SHARDS), 20)
        for shard in SHARDS:
            newest = gateway.messages(shard)[-1]["d"]["text"]
            until(lambda shard=shard, newest=newest: newest in texts(host, shard), 20)
        assert sorted(gateway.done) == [("identify", 0), ("identify", 1)]
        assert TOKEN not in (host.folder / "log").read_text()
        assert host.stop() == 0
