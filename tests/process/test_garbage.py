"""Looking for garbage never holds up a supervisor that owns shards: what its libraries keep is left out of that."""

import signal
from pathlib import Path

from supervisor.demo.feed_process import FeedProcess
from tests.process.host import Host, wait_streaming
from tests.wait import until

LIBRARIES_MIN = 20_000  # objects: what a supervisor without DynamoDB imports
TELL = """
import gc, pathlib, signal

def tell(*_):
    found = pathlib.Path(__file__).with_name("found")
    found.with_suffix(".new").write_text(f"{gc.get_freeze_count()} {len(gc.get_objects())}")
    found.with_suffix(".new").rename(found)

signal.signal(signal.SIGUSR2, tell)
"""


def test_what_the_libraries_keep_is_not_looked_through_again(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(TELL)
    with (
        FeedProcess(tmp_path / "feed.jsonl") as feed,
        Host(
            tmp_path / "a",
            f"sqlite:///{tmp_path}/leases.db",
            feed.url("a"),
            environment={"PYTHONPATH": str(tmp_path)},
        ) as host,
    ):
        wait_streaming(feed, host.shards)
        host.signal(signal.SIGUSR2)
        found = until(lambda: (tmp_path / "found").exists() and (tmp_path / "found").read_text(), 10)
        frozen, watched = map(int, found.split())
        assert frozen >= LIBRARIES_MIN
        assert watched < frozen / 4
        assert host.stop() == 0
