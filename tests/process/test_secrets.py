"""Where secrets must not be seen: logs, statuses, command lines, and the environments of those that do not need them.

One supervisor uses every kind of secret there is (from a variable, a file, systemd's credentials; in a URL, its
user-info, a header and a message; one stream connects, one is refused, one has a handler that fails), and each place
that others can read is searched, also over HTTP and after reloads.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
IN_PATH = "path-secret-8d3f"
IN_PATH_FROM_A_FILE = "path-file-secret-60b9"
IN_TARGET = "target-secret-b7c4"
IN_USER_INFO = "password-secret-5b3d"
OF_A_CREDENTIAL = "credential-secret-2c6f"
SECRETS = (
    *(IN_URL, IN_HEADER, IN_MESSAGE, OF_THE_STORE, NEEDED_BY_NONE, IN_USER_INFO, OF_A_CREDENTIAL),
    *(IN_PATH, IN_PATH_FROM_A_FILE, IN_TARGET),
)
VARIABLES = {
    "URL_TOKEN": IN_URL,
    "PASSWORD": IN_USER_INFO,
    "PATH_TOKEN": IN_PATH,
    "AWS_SECRET_ACCESS_KEY": OF_THE_STORE,
    "TARGET_TOKEN": IN_TARGET,
    "OTHER_TOKEN": NEEDED_BY_NONE,
}
HANDLER = """
import json, os
from tenured import Handler

class Failing(Handler):
    def start(self, shard):
        self.emit(json.dumps({"environment": sorted(os.environ)}))

    def message(self, connection, message):
        raise RuntimeError("this handler fails with " + repr(sorted(os.environ)))

class Aiming(Handler):
    def target(self, connection):
        return os.environ["FEED"] + "/aiming/" + os.environ["TARGET_TOKEN"], {}
"""


@dataclass(frozen=True, slots=True)
class Site:
    host: Host
    feed: FeedProcess
    store: str
    port: int
    environment: dict[str, str]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "message").write_text(IN_MESSAGE + "\n")
    (folder / "header").write_text(IN_HEADER + "\n")
    (folder / "path").write_text(IN_PATH_FROM_A_FILE + "\n")
    (folder / "failing.py").write_text(HANDLER)
    credentials = folder / "credentials"
    credentials.mkdir()
    (credentials / "key").write_text(OF_A_CREDENTIAL + "\n")
    environment = VARIABLES | {"CREDENTIALS_DIRECTORY": str(credentials)}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    secret = [
        f'subscribe = {{"op": "hello", "token": "${{file:{folder}/message}}"}}',
        f"header.Authorization = Bearer ${{file:{folder}/header}}",
        "header.X-Key = ${credential:key}",
        f"sink = jsonl:{folder}/a/events.jsonl",
    ]
    with FeedProcess(folder / "feed.jsonl", rate=5) as feed:
        url = feed.url("a", "&token=${env:URL_TOKEN}")
        url = url.replace("ws://", "ws://user:${env:PASSWORD}@")
        refused = url.replace(f":{feed.port}/", ":9/")
        stream = [
            *secret,
            *["[stream:refused]", f"url = {refused}", "reconnect_min = 100ms", *secret],
            *["[stream:failing]", f"url = {url}", f"handler = {folder}/failing.py:Failing", *secret],
            *["[stream:path]", "sink = discard"],
            f"url = ws://127.0.0.1:{feed.port}/path/${{env:PATH_TOKEN}}/${{file:{folder}/path}}/x",
            *["[stream:aiming]", f"handler = {folder}/failing.py:Aiming", "environment = FEED, TARGET_TOKEN"],
            "sink = discard",
        ]
        environment["FEED"] = f"ws://127.0.0.1:{feed.port}"
        store = f"sqlite:///{folder}/leases.db"
        more = ["log_level = debug", f"http = 127.0.0.1:{port}"]
        with Host(folder / "a", store, url, shards=2, supervisor=more, stream=stream, environment=environment) as host:
            hidden = [f"path/{IN_PATH}/{IN_PATH_FROM_A_FILE}/x", f"aiming/{IN_TARGET}"]
            wait_streaming(feed, [*host.shards, "failing", *hidden], timeout_s=20)
            until(lambda: len(host.log("connection.closed", shard="refused")) >= 2, 10, 0.05)
            until(lambda: "this handler fails" in text(host.folder / "log"), 10, 0.05)
            yield Site(host, feed, store, port, environment)
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
    assert len(shown) == 1 + 1 + 6  # the supervisor, its fork server, six children
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
    "arguments",
    [
        *(["check", "-c"], ["health", "-c"], ["health", "--ready", "-c"]),
        *(["status", "-c"], ["status", "--json", "-c"], ["status", "--all", "-c"]),
        *(["history", "s/0", "-c"], ["history", "--json", "failing", "-c"]),
    ],
    ids=" ".join,
)
def test_no_command_shows_one(site: Site, arguments: list[str]) -> None:
    done: subprocess.CompletedProcess[str] = tenured(*arguments, str(site.host.config), **site.environment)
    assert done.stdout or "is not ready" in done.stderr
    assert [name for name in SECRETS if name in done.stdout + done.stderr] == []


def test_the_control_socket_shows_none(site: Site) -> None:
    reply = json.dumps(ask(socket_path(site.host.folder / "run"), "health", 5))
    assert [name for name in SECRETS if name in reply] == []


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/metrics", "/api/leases"])
def test_nothing_that_is_answered_over_http_shows_one(site: Site, path: str) -> None:
    until(lambda: "failing" in answered(site, "/api/leases"), 20, 0.1)
    shown = answered(site, path)
    assert shown
    assert [name for name in SECRETS if name in shown] == []


def answered(site: Site, path: str) -> str:
    """Headers and body, whatever the status."""
    try:
        response = urllib.request.urlopen(f"http://127.0.0.1:{site.port}{path}", timeout=10)
    except urllib.error.HTTPError as error:
        response = error
    with response:
        return f"{response.headers}\n{response.read().decode()}"


def test_a_reload_that_is_rejected_shows_none_where_the_reason_is_told(site: Site) -> None:
    good = site.host.config.read_text()
    bad = good.replace("lease_duration = 3s", f"lease_duration = 3s\nbad = {IN_HEADER}")
    site.host.config.write_text(f"{bad}\nheader.Bad Name = {IN_MESSAGE}\nurl = http://user:{IN_USER_INFO}@x/\n")
    site.host.signal(signal.SIGHUP)
    until(lambda: site.host.log("config.rejected"), 10, 0.05)
    until(lambda: 'rejected": "' in answered(site, "/api/leases").replace('rejected": ""', ""), 15, 0.1)
    for shown in (text(site.host.folder / "log"), answered(site, "/api/leases"), answered(site, "/metrics")):
        assert [name for name in SECRETS if name in shown] == []
    site.host.config.write_text(good)
    site.host.signal(signal.SIGHUP)
    until(lambda: site.host.log("config.reloaded"), 10, 0.05)


def test_a_file_with_secrets_that_everybody_may_read_is_warned_about_loudly_at_each_reload(site: Site) -> None:
    good = site.host.config.read_text()
    site.host.config.chmod(0o644)
    site.host.config.write_text(f"{good}header.X-Token = {NEEDED_BY_NONE}\n")
    for seen in range(2):
        site.host.signal(signal.SIGHUP)
        until(lambda seen=seen: len(exposures(site)) > seen, 15, 0.05)  # type: ignore[misc]
        site.host.config.write_text(site.host.config.read_text() + "max_message = 1MiB\n")
    assert all("header.X-Token" in line["reason"] and line["level"] == "WARNING" for line in exposures(site)), (
        exposures(site)
    )
    site.host.config.write_text(good)
    site.host.signal(signal.SIGHUP)
    assert NEEDED_BY_NONE not in text(site.host.folder / "log")


def exposures(site: Site) -> list[dict[str, Any]]:
    return [line for line in site.host.log("config.warning") if "SECRET EXPOSED" in line["reason"]]


# --- errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "postgres://user:{secret}@db/leases",
        "sqlite://user:{secret}@host/leases.db",
        "dynamodb://AKIA:{secret}@table?region=eu-west-1",
        "dynamodb://leases?region=x&endpoint_url=http://user:{secret}@127.0.0.1:9",
    ],
)
def test_a_store_that_is_none_is_refused_without_quoting_what_may_be_a_secret(url: str, tmp_path: Path) -> None:
    store = url.format(secret=OF_THE_STORE)
    file = tmp_path / "tenured.ini"
    file.write_text("[supervisor]\nstate_dir = state\nrun_dir = run\n[stream:s]\nurl = ws://127.0.0.1:9/\n")
    for done in (
        tenured("status", "--store", store),
        tenured("check", "-c", str(file), TENURED_STORE=store),
        tenured("run", "-c", str(file), TENURED_STORE=store),
    ):
        assert done.returncode in (2, 78), done
        assert len(done.stderr.splitlines()) == 1
        assert OF_THE_STORE not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "variables",
    [
        {"AWS_SECRET_ACCESS_KEY": OF_THE_STORE},
        {"AWS_ACCESS_KEY_ID": f"{OF_THE_STORE}\n"},
        {"AWS_SESSION_TOKEN": f"{OF_THE_STORE}\nX: y"},
        {"AWS_SESSION_TOKEN": f"{OF_THE_STORE}\u20ac"},
        {"AWS_ACCESS_KEY_ID": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://u:{OF_THE_STORE}@8.8.8.8/"},
    ],
    ids=["refused", "key", "token", "unicode", "service"],
)
def test_no_failure_of_the_aws_library_shows_a_key(variables: dict[str, str], tmp_path: Path) -> None:
    store = "dynamodb://leases?region=eu-west-1&endpoint_url=http://127.0.0.1:9"
    done = tenured("status", "--store", store, **variables)
    assert (done.returncode, len(done.stderr.splitlines())) == (69, 1), done.stderr
    assert OF_THE_STORE not in done.stdout + done.stderr
    host = Host(tmp_path / "a", store, "ws://127.0.0.1:9/", supervisor=["log_level = debug"], environment=variables)
    with host:
        until(lambda: host.log("store.unreachable"), 20, 0.05)
        assert host.stop() == 0
    assert OF_THE_STORE not in text(host.folder / "log")


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
