"""`check --connect` against servers that behave and servers that do not: what was reached, what failed, no secrets."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.child import task
from tests.feed import BINARY, PING, PONG, TEXT, Feed, Peer, frame
from tests.tunnel import forwards_to
from workers.spec import Task
from workers.websocket.glimpse import CONNECTED, Glimpse, fault
from workers.websocket.talk import SHOWN_MAX_CHARS, printed

CERTIFICATE = str(Path(__file__).with_name("certificate.pem"))  # for 127.0.0.1 and localhost, signed by itself
SECRET = "hunter2"

Check = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Writes a file with these keys of [stream:trades] and checks a connection of it."""

    def call(
        keys: str, *arguments: str, shard: str = "trades/7", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        stream = "[stream:trades]\nshards = 0-9\nheader.Shard = ${shard}"
        text = f"[supervisor]\nstore = sqlite:///leases.db\nstart_timeout = 1s\n{stream}\n{keys}\n"
        file = tmp_path / "tenured.ini"
        file.touch(0o600)
        file.write_text(text)
        command = [sys.executable, "-P", "-m", "supervisor.cli", "check", "-c", "tenured.ini", "--connect", shard]
        variables = {"PATH": os.environ["PATH"], "TENURED_STATE_DIR": str(tmp_path), **environment}
        done = subprocess.run(
            [*command, *arguments], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=60, check=False
        )
        assert "Traceback" not in done.stderr
        assert SECRET not in done.stdout + done.stderr
        assert {path.name for path in tmp_path.iterdir()} <= {"tenured.ini", "handler.py", "token"}
        return done

    return call


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of a `Glimpse` in this process: the steps that it reached; exit code and sentence if it failed."""

    steps: dict[str, str]
    code: int
    sentence: str


def seen(task_: Task, number: int = 0, wait_s: float = 5) -> Seen:
    steps: dict[str, str] = {}
    try:
        Glimpse(task_, number, steps.__setitem__).run(int(wait_s * 1e9))
    except Exception as error:
        return Seen(steps, *fault(error))
    return Seen(steps, CONNECTED, "")


def greeting(peer: Peer) -> None:
    peer.accept()
    peer.text("good \x1b[31m morning")
    peer.serve()


def silent(peer: Peer) -> None:
    peer.accept()
    peer.serve()


@pytest.fixture
def server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


# --- what was reached ---------------------------------------------------------------------------------------


def test_a_connection_is_made_as_a_child_makes_it_and_says_nothing_secret(check: Check, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{SECRET}\n")
    with Feed(greeting) as feed:
        keys = f"""url = ws://user:{SECRET}@127.0.0.1:{feed.port}/${{shard}}/${{epoch}}/${{env:PART}}?t=${{file:token}}
header.Authorization = Bearer ${{file:token}}
subscribe = {{"from": "${{checkpoint:-0}}"}}
  second ${{file:token}}"""
        done = check(keys, "--checkpoint", "token-42", PART=SECRET)
        assert (done.returncode, done.stderr) == (0, "")
        assert feed.connects[0].path == f"/trades/7/0/{SECRET}?t={SECRET}"
        assert feed.connects[0].headers["authorization"] == f"Bearer {SECRET}"
        assert feed.texts == [(0, '{"from": "token-42"}'), (0, f"second {SECRET}")]
        assert feed.close_codes == [1001]
        said = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
        assert list(said) == ["target", "connected", "upgraded", "subscribed", "message"]
        assert said["target"] == f"ws://127.0.0.1:{feed.port}"
        assert said["connected"].startswith(f"to 127.0.0.1 port {feed.port} after ")
        assert said["upgraded"].startswith("the server answered 101 after ")
        assert said["subscribed"] == "2 sent"
        assert said["message"].endswith(r" ms, 18 characters: good \x1b[31m morning")


def test_what_each_pointer_finds_in_the_first_message_is_a_line(check: Check) -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        peer.text('{"seq": 41, "price": 1.10}')
        peer.serve()

    with Feed(behave) as feed:
        done = check(f"url = {feed.url}/?from=${{checkpoint:-0}}\ncheckpoint = /sq\nid = /price\nsequence = /seq")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-3:] == [
        "checkpoint  /sq: not in this message (it has seq, price)",
        "id          /price: 1.10",
        "sequence    /seq: 41",
    ]


def test_a_silent_server_is_a_good_connection_without_a_message() -> None:
    with Feed(silent) as feed:
        found = seen(task(feed.url), wait_s=0.3)
        assert (found.code, found.steps["message"]) == (0, "none within 0.3 s")
        assert feed.close_codes == [1001]


def test_of_a_secure_connection_the_version_of_tls_is_shown(server_tls: ssl.SSLContext) -> None:
    with Feed(greeting, server_tls) as feed:
        found = seen(task(feed.url, tls_ca=CERTIFICATE))
        assert list(found.steps) == ["target", "connected", "TLS", "upgraded", "subscribed", "message"]
        assert found.steps["TLS"].startswith("TLSv1.3, the certificate is accepted after ")


def test_through_a_proxy_the_tunnel_is_a_step_of_its_own_and_its_refusal_is_told() -> None:
    with Feed(greeting) as feed, Feed(forwards_to(feed.port)) as through:
        proxied = task("ws://feed.test:7/", proxy=f"http://user:{SECRET}@127.0.0.1:{through.port}")
        found = seen(proxied)
        assert list(found.steps) == ["target", "connected", "tunnelled", "upgraded", "subscribed", "message"]
        assert found.steps["connected"].startswith(f"to 127.0.0.1 port {through.port} after ")
        assert found.steps["tunnelled"].startswith("the proxy has connected us after ")
        assert SECRET not in str(found)
    with Feed(lambda peer: peer.refuse(407)) as through:
        found = seen(task("ws://feed.test:7/", proxy=f"http://127.0.0.1:{through.port}"))
        assert (found.code, found.sentence) == (1, "the proxy answered 407")


def test_whether_the_server_agrees_to_compress_is_told_and_what_it_compresses_is_read() -> None:
    def compressing(peer: Peer) -> None:
        peer.accept("Sec-WebSocket-Extensions: permessage-deflate")
        peer.raw(frame(TEXT, bytes.fromhex("f248cdc9c90700"), reserved=0x40))
        peer.serve()

    with Feed(compressing) as feed:
        found = seen(task(feed.url, compression="deflate"))
        assert found.steps["compression"] == "agreed on"
        assert found.steps["message"].endswith("5 characters: Hello")
    with Feed(greeting) as feed:
        found = seen(task(feed.url, compression="deflate"))
        assert found.steps["compression"] == "not agreed on, the server does not do it"


def test_pings_are_answered_and_messages_of_any_size_and_kind_are_seen() -> None:
    pong: list[tuple[int, bytes]] = []

    def behave(peer: Peer) -> None:
        peer.accept()
        peer.raw(frame(PING, b"are you there"))
        pong.append(peer.next_frame())
        peer.raw(frame(BINARY, bytes(300_000)))
        peer.serve()

    with Feed(behave) as feed:
        found = seen(task(feed.url))
        assert pong == [(PONG, b"are you there")]
        assert "300000 bytes: 0000" in found.steps["message"]
        assert found.steps["message"].endswith("00...")


def test_one_of_several_connections_is_chosen_by_its_number() -> None:
    with Feed(silent) as feed:
        assert seen(task("ws://127.0.0.1:1/", f"{feed.url}/${{connection}}"), 1, wait_s=0).code == 0
        assert feed.connects[0].path == "/1"


# --- what failed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behave", "sentence"),
    [
        (lambda peer: peer.refuse(401), "the server answered 401"),
        (lambda peer: peer.refuse(429, "Retry-After: 17"), "the server answered 429, and asks to wait 17 s"),
        (
            lambda peer: peer.refuse(302, f"Location: wss://elsewhere.example/?token={SECRET}"),
            "the server answered 302: redirects are not followed, configure the final url",
        ),
        (lambda peer: None, "the server closed the connection during the upgrade"),
        (lambda peer: peer.raw(b"SSH-2.0-OpenSSH\r\n\r\n"), "the server does not speak HTTP"),
        (lambda peer: peer.wait_for_end(), "no connection in time: the upgrade was not complete"),
    ],
)
def test_a_refused_upgrade_is_one_sentence(behave: Callable[[Peer], None], sentence: str) -> None:
    with Feed(behave) as feed:
        found = seen(task(f"{feed.url}/?token={SECRET}", connect_timeout_ms=2000))
        assert (found.code, found.sentence) == (1, sentence)
        assert list(found.steps) == ["target", "connected"]
        assert SECRET not in str(found)


def _leaves(peer: Peer) -> None:
    peer.accept()
    peer.close(4401, "bad \x1b token")


def _vanishes(peer: Peer) -> None:
    peer.accept()


def _masks(peer: Peer) -> None:
    peer.accept()
    peer.raw(frame(BINARY, b"x", masked=True))
    peer.serve()


@pytest.mark.parametrize(
    ("behave", "sentence"),
    [
        (_leaves, r"the server closed the connection with 4401 (bad \x1b token)"),
        (_vanishes, "the server ended the connection without a close frame"),
        (_masks, "what the server sent is wrong: a frame is masked, but only clients mask"),
    ],
)
def test_a_connection_that_ends_before_a_message_came_has_failed(behave: Callable[[Peer], None], sentence: str) -> None:
    with Feed(behave) as feed:
        found = seen(task(feed.url))
        assert (found.code, found.sentence) == (1, sentence)
        assert list(found.steps) == ["target", "connected", "upgraded", "subscribed"]


def test_an_untrusted_certificate_a_closed_port_and_an_unknown_host_are_told_apart(server_tls: ssl.SSLContext) -> None:
    with Feed(greeting, server_tls) as feed:
        found = seen(task(feed.url))
        assert found.sentence.startswith("the certificate of 127.0.0.1 is refused: ")
        assert found.sentence.endswith("; tls_ca names the authority to trust")
        assert list(found.steps) == ["target", "connected"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert (
        seen(task(f"ws://127.0.0.1:{port}/")).sentence == f"127.0.0.1 port {port} cannot be reached: Connection refused"
    )
    found = seen(task("ws://nowhere.invalid/"))
    assert found.sentence.startswith("nowhere.invalid cannot be resolved: ")
    assert list(found.steps) == ["target"]


def test_a_refused_connection_is_one_sentence_on_stderr_and_1(check: Check) -> None:
    with Feed(lambda peer: peer.refuse(503, "Retry-After: 5")) as feed:
        done = check(f"url = {feed.url}/?token={SECRET}")
        assert (done.returncode, done.stderr) == (1, "tenured: the server answered 503, and asks to wait 5 s\n")


def test_a_shard_or_connection_that_is_not_there_is_told_with_what_is_there(check: Check) -> None:
    done = check("url = ws://127.0.0.1:1/", shard="trade/7")
    assert done.returncode == 1
    assert done.stderr == "tenured: there is no shard trade/7 in tenured.ini, did you mean trades/7?\n"
    done = check("url = ws://127.0.0.1:1/", "--connection", "1")
    assert (done.returncode, done.stderr) == (1, "tenured: trades/7 has no connection 1, the last one is 0\n")


def test_all_connections_of_a_shard_are_made_and_one_that_fails_hides_no_other(check: Check) -> None:
    with Feed(silent) as good, Feed(lambda peer: peer.refuse(401)) as refusing, Feed(silent) as last:
        urls = f"url = {good.url}/\n  {refusing.url}/\n  {last.url}/"
        done = check(urls, "--wait", "0")
        assert (done.returncode, done.stderr) == (1, "tenured: connection 1: the server answered 401\n")
        assert [len(feed.connects) for feed in (good, refusing, last)] == [1, 1, 1]
        steps = [line.split()[0] for line in done.stdout.splitlines()]
        whole = ["connection", "target", "connected", "upgraded", "subscribed", "message"]
        assert steps == [*whole, *whole[:3], *whole]
        assert [line for line in done.stdout.splitlines() if "connection" in line.split()[0]] == [
            f"connection  {number}" for number in range(3)
        ]
        assert check(urls, "--wait", "0", "--connection", "2").returncode == 0
        assert [len(feed.connects) for feed in (good, refusing, last)] == [1, 1, 2]


def test_a_handler_that_cannot_be_loaded_is_told_once_for_all_connections(check: Check, tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text("")
    done = check("handler = handler.py:H\nurl = ws://127.0.0.1:1/\n  ws://127.0.0.1:1/")
    assert done.returncode == 78
    assert len(done.stderr.splitlines()) == 1


def test_a_pattern_in_place_of_a_shard_is_told_as_that(check: Check) -> None:
    done = check("url = ws://127.0.0.1:1/", shard="trades/[5-7]")
    sentence = "tenured: --connect takes one shard, not a pattern; write for example --connect trades/5\n"
    assert (done.returncode, done.stderr) == (2, sentence)


def test_a_broken_file_is_78_as_without_a_connection(check: Check) -> None:
    assert check("url = ftp://127.0.0.1/").returncode == 78


def test_options_of_a_connection_without_one_are_a_wrong_command(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "supervisor.cli", "check", "--checkpoint", "x"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "add --connect SHARD" in done.stderr


# --- handlers -----------------------------------------------------------------------------------------------


def test_a_handler_names_the_target_and_speaks_first_and_what_it_emits_goes_nowhere(
    check: Check, tmp_path: Path
) -> None:
    with Feed(greeting) as feed:
        (tmp_path / "handler.py").write_text(f"""
import os
from tenured import Handler

class H(Handler):
    def start(self, shard):
        print("a handler prints")
        self.path = f"{{shard.name}}/{{os.environ.get('OTHER')}}"
        self.emit("an event")
        self.checkpoint("a token")
        self.every(0.001, lambda: 1 / 0)

    def target(self, connection):
        return f"{feed.url}/{{self.path}}", {{"X-Ticket": "{SECRET}"}}

    def opened(self, connection):
        assert connection.send("login")

    def stop(self):
        print("stopped")
""")
        done = check("handler = handler.py:H\nsink = jsonl:events", OTHER="not for children")
        assert (done.returncode, done.stderr) == (0, "a handler prints\nstopped\n")
        assert feed.connects[0].path == "/trades/7/None"
        assert feed.connects[0].headers["x-ticket"] == SECRET
        assert feed.texts == [(0, "login")]
        assert [line.split()[0] for line in done.stdout.splitlines()] == [
            *("target", "connected", "upgraded", "subscribed", "message")
        ]


@pytest.mark.parametrize(
    ("text", "code", "sentence"),
    [
        ("class G: pass", 78, "no class derived from tenured.Handler"),
        ("1 / 0", 1, "handler.py:2: ZeroDivisionError"),
        ("class H(Handler):\n    def start(self, shard): raise KeyError('it')", 1, "handler.py:3: KeyError: 'it'"),
        ("class H(Handler):\n    def target(self, connection): raise OSError('no ticket')", 1, "OSError: no ticket"),
        (
            "import time\nclass H(Handler):\n    def target(self, connection): time.sleep(3)",
            1,
            "no connection in time: resolution or target() took too long",
        ),
    ],
)
def test_a_handler_that_fails_is_one_sentence(tmp_path: Path, text: str, code: int, sentence: str) -> None:
    (tmp_path / "handler.py").write_text(f"from tenured import Handler\n{text}\n")
    found = seen(task(handler=f"{tmp_path}/handler.py:{'G' if 'G' in text else 'H'}", connect_timeout_ms=100))
    assert found.code == code
    assert sentence in found.sentence
    assert found.steps == {}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("class G(Sink): pass", "there is no class H in {file}, it has G"),
        (
            "class H: pass",
            "H is no class derived from tenured.Sink in {file}, nor any other that is derived from tenured.Sink",
        ),
        ("1 / 0", "sink {file}:H cannot be imported: ZeroDivisionError: division by zero at {file}:2"),
        ("raise SystemExit", "sink {file}:H cannot be imported: SystemExit at {file}:2"),
    ],
)
def test_a_sink_that_cannot_be_loaded_is_told_before_the_handler_is_started(
    tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "sink.py").write_text(f"from tenured import Sink\n{text}\n")
    (tmp_path / "handler.py").write_text("1 / 0\n")
    found = seen(task(handler=f"{tmp_path}/handler.py:H", sink=f"{tmp_path}/sink.py:H"))
    assert (found.code, found.steps) == (78, {})
    assert found.sentence.endswith(sentence.format(file=tmp_path / "sink.py"))


def test_a_sink_is_imported_and_not_made(tmp_path: Path) -> None:
    text = "from tenured import Sink\nclass H(Sink):\n  def __init__(self): 1 / 0\n  def write(self, events): pass\n"
    (tmp_path / "sink.py").write_text(text)
    with Feed(greeting) as feed:
        assert seen(task(feed.url, sink=f"{tmp_path}/sink.py:H")).code == CONNECTED


@pytest.mark.parametrize(
    ("returned", "what"),
    [
        ("'wss://feed.example'", "str"),
        ("None", "NoneType"),
        ("('wss://a', ['b'])", r"\(str, list\)"),
        ("('a', {'b': 1})", r"\(str, dict\)"),
    ],
)
def test_a_target_that_is_none_is_told_with_what_is_expected(tmp_path: Path, returned: str, what: str) -> None:
    (tmp_path / "handler.py").write_text(
        f"from tenured import Handler\nclass H(Handler):\n  def target(self, connection): return {returned}\n"
    )
    found = seen(task(handler=f"{tmp_path}/handler.py:H"))
    assert re.search(
        f"TypeError: target returned {what}, expected a pair: the url as str, and a dict of", found.sentence
    )
    assert "feed.example" not in found.sentence


def test_a_handler_that_crashes_its_process_is_named_as_the_cause(check: Check, tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text("import os; os.abort()")
    done = check("handler = handler.py:H")
    assert (done.returncode, done.stderr) == (
        1,
        "tenured: its process was killed by SIGABRT: the handler or the sink crashes\n",
    )


def test_a_handler_that_hangs_is_killed(check: Check, tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text("import time; time.sleep(999)")
    done = check("handler = handler.py:H\nconnect_timeout = 100ms", "--wait", "0s")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("and was killed: the handler or the sink hangs\n")


# --- what is shown of a message -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("äé", "2 characters: äé"),
        ("a\nb\u202e", r"4 characters: a\nb\u202e"),
        ("x" * SHOWN_MAX_CHARS, f"{SHOWN_MAX_CHARS} characters: {'x' * SHOWN_MAX_CHARS}"),
        ("x" * 501, f"501 characters: {'x' * 500}..."),
        (b"\x00\xff", "2 bytes: 00ff"),
    ],
)
def test_a_message_is_shown_on_one_line_in_part_and_without_what_a_terminal_obeys(
    message: str | bytes, shown: str
) -> None:
    assert printed(message) == shown
