"""Where secrets must not be seen: logs, statuses, command lines, and the environments of those that do not need them.

One supervisor uses every kind of secret there is (from a variable, from a file, in a url, a header and a message; one
stream connects, one is refused, one has a handler that fails), and each place that others can read is searched.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from supervisor.ask import ask, socket_path
from supervisor.demo.feed_process import FeedProcess
from tests.process.host import Host, tenured, wait_streaming
from tests.wait import until

IN_URL = "url-secret-4f1c"
IN_HEADER = "header-secret-9a2e"
IN_MESSAGE = "message-secret-77d0"
OF_THE_STORE = "store-secret-c35b"
NEEDED_BY_NONE = "unrelated-secret-1e88"
SECRETS = (IN_URL, IN_HEADER, IN_MESSAGE, OF_THE_STORE, NEEDED_BY_NONE)
VARIABLES = {"URL_TOKEN": IN_URL, "AWS_SECRET_ACCESS_KEY": OF_THE_STORE, "OTHER_TOKEN": NEEDED_BY_NONE}
HANDLER = """
import json, os
from tenured import Handler

class Failing(Handler):
    def start(self, shard):
        self.emit(json.dumps({"environment": sorted(os.environ)}))

    def message(self, connection, message):
        raise RuntimeError("this handler fails with " + repr(sorted(os.environ)))
"""


@dataclass(frozen=True, slots=True)
class Site:
    host: Host
    feed: FeedProcess
    store: str


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "message").write_text(IN_MESSAGE + "\n")
    (folder / "header").write_text(IN_HEADER + "\n")
    (folder / "failing.py").write_text(HANDLER)
    secret = [
        f'subscribe = {{"op": "hello", "token": "${{file:{folder}/message}}"}}',
        f"header.Authorization = Bearer ${{file:{folder}/header}}",
        f"sink = jsonl:{folder}/a/events.jsonl",
    ]
    with FeedProcess(folder / "feed.jsonl", rate=5) as feed:
        url = feed.url("a", "&token=${env:URL_TOKEN}")
        refused = url.replace(f":{feed.port}/", ":9/")
        stream = [
            *secret,
            *["[stream:refused]", f"url = {refused}", "reconnect_min = 100ms", *secret],
            *["[stream:failing]", f"url = {url}", f"handler = {folder}/failing.py:Failing", *secret],
        ]
        store = f"sqlite:///{folder}/leases.db"
        debug = ["log_level = debug"]
        with Host(folder / "a", store, url, shards=2, supervisor=debug, stream=stream, environment=VARIABLES) as host:
            wait_streaming(feed, [*host.shards, "failing"], timeout_s=20)
            until(lambda: len(host.log("connection.closed", shard="refused")) >= 2, 10, 0.05)
            until(lambda: "this handler fails" in text(host.folder / "log"), 10, 0.05)
            yield Site(host, feed, store)
            assert host.stop() == 0
        assert [name for name in SECRETS if name in text(host.folder / "log")] == []


def text(path: Path) -> str:
    return path.read_text(errors="replace")


def processes(site: Site) -> list[psutil.Process]:
    return [psutil.Process(site.host.pid), *site.host.tree()]


def test_the_secrets_are_used(site: Site) -> None:
    received = [message for each in site.feed.connections() for message in each.received]
    assert json.dumps({"op": "hello", "token": IN_MESSAGE}) in received


def test_no_log_line_event_or_database_shows_one(site: Site) -> None:
    for path in (site.host.folder / "log", site.host.events, site.host.folder.parent / "leases.db"):
        content = path.read_bytes()
        assert content
        assert [name for name in SECRETS if name.encode() in content] == [], path


def test_no_command_line_or_title_shows_one(site: Site) -> None:
    shown = {process.pid: " ".join(process.cmdline()) + process.name() for process in processes(site)}
    assert len(shown) == 1 + 1 + 4  # the supervisor, its fork server, four children
    assert [line for line in shown.values() if any(name in line for name in SECRETS)] == []


def test_no_process_below_the_supervisor_shows_one_in_its_environment(site: Site) -> None:
    assert IN_URL in environment(site.host.pid)  # what is looked for can be found
    for process in site.host.tree():
        assert [name for name in SECRETS if name in environment(process.pid)] == []


def environment(pid: int) -> str:
    return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")


def test_a_child_is_given_the_variables_that_its_stream_names_and_no_other(site: Site) -> None:
    lines = [json.loads(line) for line in site.host.events.read_bytes().splitlines()]
    told = [json.loads(line["data"]) for line in lines if line["shard"] == "failing"]
    names = told[0]["environment"]
    assert "URL_TOKEN" in names
    assert "PATH" in names
    assert [name for name in names if name.startswith("AWS_") or name == "OTHER_TOKEN"] == []


@pytest.mark.parametrize(
    "arguments", [["check", "-c"], ["status", "-c"], ["status", "--json", "-c"], ["health", "-c"]], ids=" ".join
)
def test_no_command_shows_one(site: Site, arguments: list[str]) -> None:
    done: subprocess.CompletedProcess[str] = tenured(*arguments, str(site.host.config), **VARIABLES)
    assert done.stdout
    assert [name for name in SECRETS if name in done.stdout + done.stderr] == []


def test_the_control_socket_shows_none(site: Site) -> None:
    reply = json.dumps(ask(socket_path(site.host.folder / "run"), "health", 5))
    assert [name for name in SECRETS if name in reply] == []


def test_no_mistake_in_a_value_that_may_hold_one_is_quoted(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "tenured.ini"
    file.write_text(
        f"[supervisor]\nstore = sqlite:///x.db\n[stream:s]\nurl = wss://user:{IN_URL}@[bad/${{env:URL_TOKEN}}\n"
        f"subscribe = ${{nonsense:{IN_MESSAGE}\nheader.Bad Name = {IN_HEADER}\n"
    )
    done = tenured("check", "-c", str(file), **VARIABLES)
    assert done.returncode == 78
    assert len(done.stderr.splitlines()) == 3
    assert [name for name in SECRETS if name in done.stdout + done.stderr] == []
