"""However a child of a real supervisor dies, its shard runs again under the next epoch, and the log says how."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.demo.feed_process import FeedProcess
from tests.process.host import Host, tenured, wait_streaming
from tests.wait import until

EXITS = (0, 1, 2, 255)
SIGNALS = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGKILL", "SIGQUIT")

DYING_ONCE = """
import os, signal
from pathlib import Path
from tenured import Handler

class DyingOnce(Handler):
    def start(self, shard):
        mark = Path(__file__).parent / shard.index
        if shard.index == "healthy" or mark.exists():
            return
        mark.touch()
        if shard.index.startswith("exit"):
            os._exit(int(shard.index[4:]))
        os.kill(os.getpid(), getattr(signal, shard.index))
"""


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[FeedProcess]:
    with FeedProcess(tmp_path / "feed.jsonl") as feed:
        yield feed


def test_every_exit_code_and_fatal_signal_leads_to_a_restart_with_the_reason_logged(
    tmp_path: Path, feed: FeedProcess
) -> None:
    (tmp_path / "dying.py").write_text(DYING_ONCE)
    ways = {f"exit{code}": f"exited with {code}" for code in EXITS} | {
        name: f"was killed by {name}" for name in SIGNALS
    }
    host = Host(
        tmp_path / "a",
        f"sqlite:///{tmp_path}/leases.db",
        feed.url("a"),
        lease_duration="10s",
        indices=[*ways, "healthy"],
        stream=[f"handler = {tmp_path}/dying.py:DyingOnce"],
    )
    with host:
        for way in ways:
            until(lambda shard=f"s/{way}": len(host.log("child.started", shard=shard)) == 2, 30)
            until(lambda shard=f"s/{way}": host.log("child.exited", shard=shard), 10)
        wait_streaming(feed, host.shards, timeout_s=20)
        for way, reason in ways.items():
            first, second = (line["epoch"] for line in host.log("child.started", shard=f"s/{way}"))
            assert second == first + 1
            (exited,) = host.log("child.exited", shard=f"s/{way}")
            assert (exited["epoch"], exited["reason"]) == (first, reason)
        assert len(host.log("child.started", shard="s/healthy")) == 1
        assert host.stop() == 0


DYING = """
import os, signal
from tenured import Handler

class Dying(Handler):
    def start(self, shard):
        if shard.index == "signal":
            os.kill(os.getpid(), signal.SIGSEGV)
        raise KeyError("price")
"""


@pytest.mark.parametrize("crash_limit", [1, 1000])
def test_why_a_child_ends_again_and_again_is_in_status_and_history_from_the_first_time_on(
    tmp_path: Path, feed: FeedProcess, crash_limit: int
) -> None:
    (tmp_path / "dying.py").write_text(DYING)
    line = DYING.splitlines().index('        raise KeyError("price")') + 1
    reasons = {
        "s/raises": f"its child exited with 1; it said: the handler's start raised KeyError: 'price' at {tmp_path}",
        "s/signal": "its child was killed by SIGSEGV",
    }
    host = Host(
        tmp_path / "a",
        f"sqlite:///{tmp_path}/leases.db",
        feed.url("a"),
        lease_duration="10s",
        indices=["raises", "signal"],
        supervisor=[f"crash_limit = {crash_limit}"],
        stream=[f"handler = {tmp_path}/dying.py:Dying"],
    )
    with host:
        for shard, reason in reasons.items():
            until(lambda shard=shard: host.log("child.exited", shard=shard), 30)

            def told(shard: str = shard) -> str:
                return tenured("status", "--shard", shard, "-c", str(host.config)).stdout

            def said(shard: str = shard) -> str:
                return " ".join(tenured("history", shard, "-c", str(host.config)).stdout.split())

            until(lambda told=told, reason=reason: reason[:60] in told(), 10)
            assert " is degraded: " in told().splitlines()[0]
            assert tenured("status", "-c", str(host.config)).returncode == 1
            assert reason[:60] in said()
        whole = json.loads(tenured("status", "--json", "-c", str(host.config)).stdout)
        troubles = {shard["shard"]: shard["trouble"] for shard in whole["shards"]}
        assert troubles["s/signal"] == reasons["s/signal"]
        assert troubles["s/raises"].endswith(f"dying.py:{line}")


def test_a_handler_that_cannot_be_imported_is_named_and_the_host_is_not_ready_while_its_shard_waits(
    tmp_path: Path, feed: FeedProcess
) -> None:
    (tmp_path / "broken.py").write_text("import nosuch\n")
    store = f"sqlite:///{tmp_path}/leases.db"
    handler = f"{tmp_path}/broken.py:Broken"
    with Host(tmp_path / "a", store, feed.url("a"), shards=1, stream=[f"handler = {handler}"]) as host:
        failed = until(lambda: host.log("child.failed", shard="s/0"), 20)[0]
        raised = f"ModuleNotFoundError: No module named 'nosuch' at {tmp_path}/broken.py:1"
        assert failed["reason"] == f"handler {handler} cannot be made: {raised}"
        assert any(handler in line["reason"] for line in host.log("config.warning"))

        def refusal() -> str:
            asked = tenured("health", "--ready", "-c", str(host.config))
            return asked.stderr if asked.returncode == 1 else ""

        # In between a child is being started, again and again.
        until(lambda: "no child has run for a minute since a crash, s/0 among them" in refusal(), 20)
        assert tenured("health", "-c", str(host.config)).returncode == 0
    assert "Traceback" not in (host.folder / "log").read_text()
