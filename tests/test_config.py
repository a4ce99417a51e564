"""A configuration becomes settings, or every mistake in it is said at once: where it stands and what would be right."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.configuration import relations
from supervisor.configuration.capacity import capacity_of, memory_bytes
from supervisor.configuration.config import ConfigError, basics, examine, load
from supervisor.configuration.example import example
from supervisor.configuration.keys import KEYS, STREAM, SUPERVISOR, keys_of
from supervisor.configuration.settings import Settings, restart_needed
from supervisor.configuration.summary import summary
from workers.board import SLOTS
from workers.spec import StreamSpec

ROOT = Path(__file__).resolve().parent.parent
SECRET = "hunter2-very-secret"
MINIMAL = """\
[supervisor]
store = sqlite:///leases.db

[stream:trades]
url = wss://feed.example/ws
"""

Load = Callable[..., Settings]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Writes a configuration and says its path; `extra` goes into [supervisor], `stream` into [stream:trades]."""

    def file(text: str = MINIMAL, extra: str = "", stream: str = "", mode: int = 0o600) -> str:
        text = (text.replace("\n\n", f"\n{extra}\n\n", 1) if extra else text) + stream
        path = tmp_path / "tenured.ini"
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    return file


def problems(source: str, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load(source, environ)
    return [problem.removeprefix(f"{source}:") for problem in error.value.problems]


# --- what comes out ---------------------------------------------------------------------------------------


def test_every_default_is_in_force_when_only_the_required_keys_are_set(
    write: Callable[..., str], tmp_path: Path
) -> None:
    settings = load(write(), {})
    assert settings.store == f"sqlite:///{tmp_path}/leases.db"
    assert settings.fleet == "default"
    assert settings.base == tmp_path
    times = (settings.lease_duration_ms, settings.renew_interval_ms, settings.call_timeout_ms, settings.margin_ms)
    assert times == (10_000, 3333, 1666, 1000)
    assert (settings.poll_interval_ms, settings.stop_timeout_ms) == (1000, 8000)
    assert 1 <= settings.capacity <= SLOTS
    (stream,) = settings.streams
    assert stream.shards == ("trades",)
    assert stream.indices == ("",)
    assert stream.outage_policy == "fence"
    assert stream.spec == StreamSpec("trades", url=("wss://feed.example/ws",), connect_key="feed.example")


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("0-3", ("0", "1", "2", "3")),
        ("eu, us, asia", ("eu", "us", "asia")),
        ("7-7", ("7",)),
        ("0", ("0",)),
        ("7, 9", ("7", "9")),
        ("us-east-1,2-3", ("us-east-1", "2", "3")),
    ],
)
def test_shards_are_a_range_or_names(write: Callable[..., str], text: str, indices: tuple[str, ...]) -> None:
    (stream,) = load(write(stream=f"shards = {text}\n"), {}).streams
    assert stream.indices == indices
    assert stream.shards == tuple(f"trades/{index}" for index in indices)


def test_several_lines_are_several_values_in_order(write: Callable[..., str]) -> None:
    text = MINIMAL + "  wss://b.example\n\n  ; between them\n  wss://c.example\nsubscribe =\n  one\n  two\n"
    (stream,) = load(write(text), {}).streams
    assert stream.spec.url == ("wss://feed.example/ws", "wss://b.example", "wss://c.example")
    assert stream.spec.subscribe == ("one", "two")


@given(st.text(alphabet="ab%;#()s =:\"'\\[]{}", min_size=1, max_size=30).map(str.strip).filter(bool))
def test_percent_signs_semicolons_and_hashes_in_a_value_round_trip(value: str) -> None:
    text = f"{MINIMAL}header.X-Note = {value}\nsubscribe = a%b%%c%(x)s;d#e\n"
    (stream,) = load("env:FILE", {"FILE": text}).streams
    assert stream.spec.headers == (("X-Note", value),)
    assert stream.spec.subscribe == ("a%b%%c%(x)s;d#e",)


def test_the_case_of_a_headers_name_is_kept(write: Callable[..., str]) -> None:
    (stream,) = load(write(stream="header.X-Api-KEY = k\nheader.origin = https://x\n"), {}).streams
    assert stream.spec.headers == (("X-Api-KEY", "k"), ("origin", "https://x"))


def test_relative_paths_resolve_against_the_folder_of_the_file(
    write: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trades.py").touch()
    (tmp_path / "ca.pem").write_bytes(Path(__file__).with_name("certificate.pem").read_bytes())
    (tmp_path / "lib").mkdir()
    stream = "handler = ./trades.py:Trades\nsink = jsonl:events\ntls_ca = ca.pem\n"
    source = write(extra="state_dir = state\nrun_dir = ./run\npython_path = lib", stream=stream)
    monkeypatch.chdir("/")
    settings = load(os.path.relpath(source), {})
    (stream_,) = settings.streams
    assert (settings.state_dir, settings.run_dir) == (tmp_path / "state", tmp_path / "run")
    assert settings.python_path == (str(tmp_path / "lib"),)
    assert stream_.spec.handler == f"{tmp_path}/trades.py:Trades"
    assert stream_.spec.sink == f"jsonl:{tmp_path}/events"
    assert stream_.spec.tls_ca == f"{tmp_path}/ca.pem"


def test_a_stream_with_a_handler_needs_no_url(write: Callable[..., str]) -> None:
    text = MINIMAL.replace("url = wss://feed.example/ws", "handler = feeds.trades:Trades")
    (stream,) = load(write(text), {}).streams
    assert (stream.spec.handler, stream.spec.url) == ("feeds.trades:Trades", ())


def test_a_stream_takes_the_outage_policy_of_its_supervisor_unless_it_has_its_own(write: Callable[..., str]) -> None:
    text = MINIMAL + "[stream:b]\nurl = ws://b\noutage_policy = fence\n"
    settings = load(write(text, extra="outage_policy = hold"), {})
    assert [stream.outage_policy for stream in settings.streams] == ["hold", "fence"]


def test_children_get_the_variables_that_their_templates_ask_for(write: Callable[..., str]) -> None:
    stream = "header.Authorization = Bearer ${env:TOKEN}\nenvironment = REGION, TIER\n"
    (stream_,) = load(write(stream=stream), {"TOKEN": SECRET}).streams
    assert stream_.environment == ("REGION", "TIER", "TOKEN")


def test_placeholders_of_plain_keys_are_replaced_and_templates_stay(write: Callable[..., str]) -> None:
    stream = "shards = ${env:SHARDS:-0-1}\nsink = jsonl:/tmp/${stream}.jsonl\nsubscribe = ${shard} ${env:A:-b}\n"
    settings = load(write(extra="fleet = f-${env:STAGE}", stream=stream), {"STAGE": "prod"})
    (stream_,) = settings.streams
    assert settings.fleet == "f-prod"
    assert stream_.shards == ("trades/0", "trades/1")
    assert stream_.spec.sink == "jsonl:/tmp/trades.jsonl"
    assert stream_.spec.subscribe == ("${shard} ${env:A:-b}",)


def test_the_environment_overrides_keys_of_the_supervisor(write: Callable[..., str]) -> None:
    source = write(extra="lease_duration = 3s")
    loaded = examine(source, {"TENURED_LEASE_DURATION": "6s", "TENURED_CAPACITY": "7", "TENURED_SERVICE_HOST": "x"})
    assert (loaded.settings.lease_duration_ms, loaded.settings.capacity) == (6000, 7)
    assert loaded.warnings == ("TENURED_SERVICE_HOST: overrides nothing, no key of [supervisor] has that name",)


def test_a_misspelt_override_is_told_also_where_its_absence_is_a_mistake(write: Callable[..., str]) -> None:
    assert problems(write("[stream:a]\nurl = ws://x\n"), TENURED_STROE="sqlite:///x.db") == [
        "1: store is missing in [supervisor], expected for example store = sqlite:///leases.db",
    ]
    with pytest.raises(ConfigError) as caught:
        examine(write("[stream:a]\nurl = ws://x\n"), {"TENURED_STROE": "sqlite:///x.db"})
    assert caught.value.warnings == ("TENURED_STROE: overrides nothing, did you mean TENURED_STORE?",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("off", None),
        ("127.0.0.1:9110", ("127.0.0.1", 9110)),
        ("localhost:80", ("localhost", 80)),
        ("0.0.0.0:65535", ("0.0.0.0", 65535)),
        ("[::1]:9110", ("::1", 9110)),
    ],
)
def test_http_is_off_or_an_address_and_a_port(
    write: Callable[..., str], text: str, expected: tuple[str, int] | None
) -> None:
    assert load(write(extra=f"http = {text}"), {}).http == expected
    assert load(write(), {"TENURED_HTTP": text}).http == expected


@pytest.mark.parametrize(
    ("text", "open_"),
    [
        *dict.fromkeys(("off", "127.0.0.1:9110", "127.8.0.1:1", "localhost:9110", "[::1]:1"), False).items(),
        *dict.fromkeys(("0.0.0.0:9110", "10.0.0.7:9110", "[::]:1"), True).items(),
    ],
)
def test_http_that_others_can_reach_is_warned_of_loudly(write: Callable[..., str], text: str, open_: bool) -> None:
    warnings = examine(write(extra=f"http = {text}"), {}).warnings
    assert [":3: HTTP OPEN: whoever can reach this host" in warning for warning in warnings] == [True] * open_


@pytest.mark.parametrize("key", ["state_dir", "run_dir", "store"])
def test_a_folder_in_which_others_may_replace_what_is_ours_is_warned_of(
    write: Callable[..., str], tmp_path: Path, key: str
) -> None:
    (tmp_path / "open" / "ours").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    text = MINIMAL.replace("sqlite:///leases.db", "sqlite:///open/ours/l.db") if key == "store" else MINIMAL
    source = write(text, extra="" if key == "store" else f"{key} = open/ours/more")
    (warning,) = examine(source, {}).warnings
    assert (
        f": FOLDER OPEN: {key}: every user of this host may replace what is in {tmp_path}/open; chmod o-w it" in warning
    )
    for closed in (0o1777, 0o775, 0o700):
        (tmp_path / "open").chmod(closed)
        assert examine(source, {}).warnings == ()


def test_http_hosts_stand_on_lines_or_with_commas(write: Callable[..., str]) -> None:
    extra = "http = 0.0.0.0:80\nhttp_hosts = A.example, 10.0.0.7\n  [fd00::7]\n  a.example"
    loaded = examine(write(extra=extra), {})
    assert loaded.settings.http_hosts == ("a.example", "10.0.0.7", "[fd00::7]")
    assert ["http_hosts means" in warning for warning in loaded.warnings] == [False]
    (warning,) = examine(write(extra="http_hosts = a.example"), {}).warnings
    assert warning.endswith(":3: http_hosts means nothing while http is off")


def test_what_only_a_restart_changes_is_told_and_nothing_else(write: Callable[..., str]) -> None:
    old = load(write(), {})
    changed = "fleet = b\nrun_dir = r\nhttp = 127.0.0.1:1\nlease_duration = 9s\ncapacity = 7\npython_path = ."
    assert restart_needed(old, load(write(extra=changed, stream="shards = 0-1\n"), {})) == ("fleet", "run_dir", "http")
    assert restart_needed(old, old) == ()
    fields = {field.name for field in dataclasses.fields(Settings)}
    assert {key.name for key in KEYS if key.restart} <= fields


def test_a_bad_override_is_named_by_its_variable(write: Callable[..., str]) -> None:
    assert problems(write(), TENURED_LEASE_DURATION="soon") == [
        "TENURED_LEASE_DURATION: lease_duration is 'soon', expected a duration such as 250ms, 10s, 5m or 1h"
    ]


def test_the_whole_file_may_stand_in_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load("env:TENURED_CONFIG", {"TENURED_CONFIG": MINIMAL})
    assert (settings.source, settings.base) == ("env:TENURED_CONFIG", tmp_path)
    assert problems("env:TENURED_CONFIG", TENURED_CONFIG=MINIMAL + "ulr = ws://x\n") == [
        "6: unknown key ulr in [stream:trades], did you mean url?"
    ]
    assert "has no variable NOPE" in problems("env:NOPE")[0]


def test_a_variable_that_holds_no_text_is_told_without_any_of_it(tmp_path: Path) -> None:
    assert problems("env:FILE", FILE=MINIMAL + "header.A = secret\udce9\n") == [" not UTF-8 text"]


def test_a_file_whose_name_leaves_no_room_to_set_it_aside_is_refused(write: Callable[..., str]) -> None:
    (problem,) = problems(write(stream=f"sink = jsonl:/var/lib/{'e' * 232}\nsink_rotate_every = 1h\n"))
    assert problem.endswith(
        "cannot be rotated: its name has 232 bytes, and only up to 231 leave room for the time behind it"
    )
    assert load(write(stream=f"sink = jsonl:/var/lib/{'e' * 232}\n"), {}).streams


def test_included_files_come_in_sorted_order(write: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    for name in ("b", "a", "c"):
        (tmp_path / "conf.d" / f"{name}.ini").write_text(f"[stream:{name}]\nurl = ws://{name}\n")
    settings = load(write(extra="include = conf.d/*.ini"), {})
    assert [stream.name for stream in settings.streams] == ["trades", "a", "b", "c"]


def test_what_a_stream_may_say_of_its_connections_checkpoints_and_sink_reaches_its_children(
    write: Callable[..., str],
) -> None:
    lines = """\
checkpoint = /seq
id = /data/0/id
sequence = /n
on_gap = reconnect
idle_timeout = off
max_age = 12h
connect_rate = 300/m
send_rate = 0.5/s
proxy = http://user:${env:PROXY_PASSWORD}@proxy.internal:3128
sink = https://collector.example/in
sink_header.Authorization = Bearer ${env:COLLECTOR_TOKEN}
sink_buffer = 64KiB
overflow = drop_oldest
"""
    (stream,) = load(write(stream=lines), {"PROXY_PASSWORD": SECRET, "COLLECTOR_TOKEN": SECRET}).streams
    spec = stream.spec
    assert (spec.checkpoint, spec.id, spec.sequence, spec.on_gap) == ("/seq", "/data/0/id", "/n", "reconnect")
    assert (spec.idle_timeout_ms, spec.max_age_ms, spec.connect_rate, spec.send_rate) == (0, 43_200_000, 5.0, 0.5)
    assert spec.proxy == "http://user:${env:PROXY_PASSWORD}@proxy.internal:3128"
    assert spec.sink_headers == (("Authorization", "Bearer ${env:COLLECTOR_TOKEN}"),)
    assert (spec.sink_buffer, spec.overflow) == (65_536, "drop_oldest")
    assert set(stream.environment) == {"PROXY_PASSWORD", "COLLECTOR_TOKEN"}


@pytest.mark.parametrize(
    ("lines", "on_idle"),
    [("", "report"), ("idle_timeout = 10s", "reconnect"), ("idle_timeout = 10s\non_idle = report", "report")],
)
def test_an_idle_timeout_that_was_set_reconnects_and_the_default_only_reports(
    write: Callable[..., str], lines: str, on_idle: str
) -> None:
    (stream,) = load(write(stream=f"{lines}\n"), {}).streams
    assert stream.spec.on_idle == on_idle


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("wss://Feed.example:8443/${index}", "feed.example:8443"),
        ("wss://${env:PLACE:-x}/ws", "trades"),
        ("wss://${index}.feed.example/ws", "trades"),
        ("\n  wss://a.example/1\n  wss://a.example/2", "a.example"),
        ("\n  wss://a.example/1\n  wss://b.example/2", "trades"),
    ],
)
def test_streams_to_one_place_share_a_key_unless_they_name_one(write: Callable[..., str], url: str, key: str) -> None:
    text = MINIMAL.replace("wss://feed.example/ws", url) + "shards = 0-1\n"
    assert load(write(text), {}).streams[0].spec.connect_key == key
    assert load(write(text + "connect_key = mine\n"), {}).streams[0].spec.connect_key == "mine"


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        ("connect_rate = 5/s", "connect_rate = 10/s", "connect_rate is 10/s here and 5/s in [stream:trades]"),
        ("connect_rate = 5/s", "", "connect_rate is off here and 5/s in [stream:trades]"),
        ("", "connect_rate = 300/m", "connect_rate is 5/s here and off in [stream:trades]"),
    ],
)
def test_one_key_has_one_rate(write: Callable[..., str], first: str, second: str, sentence: str) -> None:
    news = f"[stream:news]\nurl = wss://feed.example/news\n{second}\n"
    (problem,) = problems(write(stream=f"{first}\n{news}"))
    assert f"{sentence}, but both have the connect_key feed.example; give them one rate, or [stream:news]" in problem
    load(write(stream=f"{first}\n{news}connect_key = mine\n"), {})
    load(write(stream=f"{second}\n{news}"), {})


def test_a_mistake_in_a_stream_hides_no_conflict_of_rates(write: Callable[..., str]) -> None:
    news = "[stream:news]\nurl = wss://feed.example/news\nconnect_rate = 10/s\nmax_message = 1\n"
    found = problems(write(stream=f"connect_rate = 5/s\nreconnect_min = 2m\n{news}"))
    assert [problem.split(" ")[1] for problem in found] == ["reconnect_min", "connect_rate", "max_message"]


def test_a_token_that_nothing_asks_for_is_warned_of(write: Callable[..., str]) -> None:
    sentence = "6: checkpoint: its token is never used, since no url, subscribe or header.NAME has ${checkpoint}"
    (warning,) = examine(write(stream="checkpoint = /seq\n"), {}).warnings
    assert sentence in warning
    for user in ("header.From = ${checkpoint}", "subscribe = ${checkpoint:-0}", "handler = a.b:C"):
        assert examine(write(stream=f"checkpoint = /seq\n{user}\n"), {}).warnings == ()


def test_shards_that_all_open_one_connection_are_warned_of(write: Callable[..., str]) -> None:
    (warning,) = examine(write(stream="shards = 0-3\n"), {}).warnings
    assert (
        "6: shards: all 4 shards open the same connection: no url, subscribe or header.NAME has ${index} or" in warning
    )
    for different in ("header.Shard = ${shard}", "subscribe = ${index}", "handler = a.b:C"):
        assert examine(write(stream=f"shards = 0-3\n{different}\n"), {}).warnings == ()
    assert examine(write(stream="shards = 7-7\n"), {}).warnings == ()


def test_one_token_cannot_stand_for_several_feeds(write: Callable[..., str]) -> None:
    text = MINIMAL.replace("wss://feed.example/ws", "\n  wss://a.example/1\n  wss://a.example/2")
    (problem,) = problems(write(text + "checkpoint = /seq\n"))
    assert "checkpoint takes one token for the whole shard, but 2 urls are 2 feeds of their own" in problem


@pytest.mark.parametrize("sink", ["kinesis:events?region=eu-west-1", "sqs:https://sqs.example/1/q", "discard", "a.b:C"])
def test_sinks_of_every_kind_are_taken(write: Callable[..., str], sink: str) -> None:
    assert load(write(stream=f"sink = {sink}\n"), {}).streams[0].spec.sink == sink


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        (f"https://u:{SECRET}@collector.example/", "a URL without user and password, which would be shown"),
        (f"https://collector.example:x/{SECRET}", "a URL, such as https://collector.example/events"),
        (f"kinesis:a?x={SECRET}", "no options but region, endpoint_url, profile"),
        (f"sqs:{SECRET}", "the URL of a queue behind sqs:, such as https://sqs.eu-west-1.amazonaws.com/"),
    ],
)
def test_a_sink_that_leads_nowhere_is_a_mistake_that_is_not_quoted(
    write: Callable[..., str], sink: str, expected: str
) -> None:
    (problem,) = problems(write(stream=f"sink = {sink}\n"))
    assert f"sink needs {expected}" in problem
    assert SECRET not in problem


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sink_header.X = ${connection}", "needs a text without ${connection} and ${checkpoint}"),
        ("sink_header.X = a${checkpoint:-0}", "needs a text without ${connection} and ${checkpoint}"),
        ("sink_header.Idempotency-Key = x", "sink_header.Idempotency-Key is set by the request itself"),
        ("sink_header.content-encoding = x", "sink_header.content-encoding is set by the request itself"),
    ],
)
def test_a_header_that_no_request_of_a_sink_can_have_is_a_mistake(
    write: Callable[..., str], line: str, expected: str
) -> None:
    (problem,) = problems(write(stream=f"sink = https://collector.example/\n{line}\n"))
    assert expected in problem


def test_a_sinks_url_is_shown_as_scheme_and_host(write: Callable[..., str]) -> None:
    text = "\n".join(summary(load(write(stream=f"sink = https://collector.example/{SECRET}?t={SECRET}\n"), {})))
    assert "sink https://collector.example" in text
    assert SECRET not in text


# --- what is refused --------------------------------------------------------------------------------------


def test_all_mistakes_are_said_in_one_run_with_line_and_nearest_name(write: Callable[..., str]) -> None:
    source = write(
        """\
[supervisor]
flet = a
lease_duration = 2sec
store = sqlit:///x.db
call_timeout = 6s
renew_interval = 5s
crash_limit = none
[strem:x]
[stream:trades]
shards = 0-3, 2
url = http://foo
header.Y = p${foo}
headr.Z = 1
handler = ./none.py:X
sink = kinesys:foo
max_message = 1MB
outage_policy = fance
close_code = 1006
tls_ca = ${shard}
stray
"""
    )
    found = problems(source)
    assert [problem.split(":")[0] for problem in found] == [str(line) for line in range(2, 21) if line not in (6, 9)]
    for hint in (
        "did you mean fleet?",
        "did you mean sqlite://?",
        "did you mean [stream:x]?",
        "did you mean header.Z?",
        "did you mean fence?",
    ):
        assert sum(hint in problem for problem in found) == 1, hint


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ("lease_duration = 500ms", "lease_duration is '500ms', expected a duration from 1s to 1h"),
        ("lease_duration = 10", "lease_duration is '10', expected a duration such as 250ms, 10s, 5m or 1h"),
        (
            "renew_interval = 4s",
            "renew_interval 4s must fit three times into lease_duration 10s; renew_interval = 3333ms works",
        ),
        ("call_timeout = 4s", "call_timeout 4s must be below renew_interval 3333ms; call_timeout = 1666ms works"),
        ("margin = 500ms", "margin 500ms must be at least 250ms and a tenth of lease_duration 10s; margin = 1s works"),
        (
            "margin = 8s",
            "margin 8s, renew_interval 3333ms and call_timeout 1666ms together must be below lease_duration 10s; "
            "margin = 1s works",
        ),
        ("poll_interval = 20s", "poll_interval 20s must not exceed lease_duration 10s; poll_interval = 1s works"),
        ("capacity = 9999", "capacity is '9999', expected auto or a number from 0 to 4096"),
        ("fleet = a b", "fleet is 'a b', expected a name of at most 64 letters, digits, dots, dashes and underscores"),
        ("fleet =", "fleet has no value, remove the line for the default default"),
        ("fleet = a\n  state_dir = /x", "fleet takes one value, but indented lines after it add to it"),
        ("fleet = a\nfleet = b", "fleet stands already in line 3; several values are indented lines of one key"),
        ("fleet = ${shard}", "fleet: ${shard} has no value here, only in url, subscribe and header.NAME"),
        (
            "fleet = ${env:NOPE}",
            "fleet: ${env:NOPE} is not set in the environment; set it, or give a default: ${env:NOPE:-...}",
        ),
        ("python_path = /no/such/folder", "python_path: there is no folder /no/such/folder"),
        ("include = nothing.ini", "include names nothing.ini, but "),
        ("http = 9110", "http needs off, or an address and a port from 1 to 65535, such as 127.0.0.1:9110, [::1]:9110"),
        ("http = 127.0.0.1:0", "http needs off, or an address and a port from 1 to 65535"),
        ("http = 127.0.0.1:65536", "http needs off, or an address and a port from 1 to 65535"),
        ("http = ::1:9110", "http needs off, or an address and a port from 1 to 65535"),
        ("http = status.example:80", "http needs off, or an address and a port from 1 to 65535"),
        ("http = on", "http needs off, or an address and a port from 1 to 65535"),
        ("http_hosts = a.example:80", "http_hosts needs names or addresses without a port"),
        ("http_hosts = https://a.example", "http_hosts needs names or addresses without a port"),
    ],
)
def test_a_bad_value_is_answered_with_one_that_works(write: Callable[..., str], extra: str, expected: str) -> None:
    (problem,) = problems(write(extra=extra))
    assert re.match(r"\d+: ", problem)
    assert expected in problem


def test_no_mistake_in_a_duration_hides_another(write: Callable[..., str]) -> None:
    first = "renew_interval = 4sec\ncall_timeout = 5s\nmargin = 100ms\npoll_interval = 20s"
    assert [problem.partition("; ")[0] for problem in problems(write(extra=first))] == [
        "3: renew_interval is '4sec', expected a duration such as 250ms, 10s, 5m or 1h (did you mean 4s?)",
        "4: call_timeout 5s must be below renew_interval, a third of lease_duration at most",
        "5: margin is '100ms', expected a duration from 250ms to 1h",
        "6: poll_interval 20s must not exceed lease_duration 10s",
    ]
    second = "renew_interval = 5s\ncall_timeout = 6s\nmargin = 8s\npoll_interval = 20s"
    assert [problem.split(" ")[1] for problem in problems(write(extra=second))] == [
        "renew_interval",
        "call_timeout",
        "margin",
        "poll_interval",
    ]


def test_a_file_where_a_folder_is_needed_is_refused(write: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    os.mkfifo(tmp_path / "pipe")
    found = problems(write(extra="state_dir = plain\nrun_dir = plain/run", stream="sink = jsonl:plain/events\n"))
    assert found == [
        f"3: state_dir: {tmp_path}/plain is no folder, expected a folder or nothing",
        f"4: run_dir: {tmp_path}/plain is no folder, expected a folder or nothing",
        f"8: sink: {tmp_path}/plain is no folder, events could not be written",
    ]
    for sink in ("jsonl:pipe", "jsonl:plain/"):
        assert "events could not be written" in problems(write(stream=f"sink = {sink}\n"))[0]
    assert examine(write(stream="sink = jsonl:plain\n"), {}).warnings == ()


def test_a_sink_without_its_folder_is_warned_of_with_file_and_line(write: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    source = write(
        "[supervisor]\nstore = sqlite:///x.db\nstate_dir = state\ninclude = more.ini\n"
        "[stream:a]\nurl = ws://a\nsink = jsonl:none/events\n[stream:b]\nurl = ws://b\nsink = jsonl:none/\n"
        "[stream:c]\nurl = ws://c\nsink = jsonl:state/events\n[stream:d]\nurl = ws://d\nsink = jsonl:there/\n"
    )
    (tmp_path / "more.ini").write_text("[stream:e]\nurl = ws://e\nsink = jsonl:there/none/events\n")
    sentence = f"sink: there is no folder {tmp_path}/none, events cannot be written to it"
    assert sorted(examine(source, {}).warnings) == sorted(
        [
            f"{source}:7: {sentence}",
            f"{source}:10: {sentence}",
            f"{tmp_path}/more.ini:3: {sentence.replace('none', 'there/none')}",
        ]
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"op": "subscribe" "a": 1}', "expecting ',' delimiter at character 20"),
        ('{"shard": ${index}}', "in what ${index} becomes; a text needs quotes around it"),
        ('{"from": ${checkpoint}}', "expecting value at character 1 after ${checkpoint}"),
        ('{"a": "${index}", "b": 1', "expecting ',' delimiter at character 10 after ${index}"),
        ("[SUBSCRIBE] trades", "expecting value at character 2"),
        ('{"t": ${file:token}}', "in what ${file:token} becomes"),
    ],
)
def test_a_message_that_looks_like_json_and_is_none_is_told_with_its_place(
    write: Callable[..., str], tmp_path: Path, text: str, expected: str
) -> None:
    (tmp_path / "token").write_text(SECRET)
    url = MINIMAL.replace("/ws", "/${index}")
    (warning,) = examine(write(url, stream=f"shards = 0-1, eu\nsubscribe =\n  fine\n  {text}\n"), {}).warnings
    assert ":7: subscribe begins like JSON, but is none for trades/" in warning
    assert expected in warning
    assert SECRET not in warning


@pytest.mark.parametrize(
    "text", ['{"a": ${index}, "b": "${file:token}"}', "[${checkpoint:-0}]", "{}", "hello ${index}", '"a" b', "${env:X}"]
)
def test_messages_that_are_json_or_do_not_look_like_it_are_fine(
    write: Callable[..., str], tmp_path: Path, text: str
) -> None:
    (tmp_path / "token").write_text('with "quotes"')
    source = write(MINIMAL.replace("/ws", "/${index}"), stream=f"shards = 0-1\nsubscribe = {text}\n")
    assert examine(source, {"X": "{no json"}).warnings == ()


def test_a_pattern_of_includes_that_matches_nothing_is_told(write: Callable[..., str], tmp_path: Path) -> None:
    (warning,) = examine(write(extra="include = conf.d/*.ini"), {}).warnings
    assert warning.endswith(f"tenured.ini:3: include: no file in {tmp_path} matches conf.d/*.ini")


@pytest.mark.parametrize(
    ("stream", "exposed"),
    [
        ('subscribe = {"op": "auth", "apiKey": "abc"}', True),
        ('subscribe = {"session_token" : "abc", "x": "${index}"}', True),
        ('subscribe = {"op": "auth", "token": "${file:token}"}', False),
        ('subscribe = {"key": "trades.btc", "op": "subscribe"}', False),
        ("header.X-Api-Key = abc", True),
        ("header.X-Note = abc", False),
        ("header.Authorization = Bearer ${env:NOPE:-abc}", True),
        ("header.Authorization = Bearer ab${shard}c", True),
        ("header.Authorization = Bearer ${file:token}", False),
        ("header.Authorization = Bearer ${env:NOPE:-}${file:token}", False),
        ("header.X-Api = abc", True),
        ("header.X-Author = abc", False),
        ("header.X-Shard-Key = ${shard}", False),
        ('subscribe = {"auth": ["k", "abc"]}', True),
        ('subscribe = {"auth": ["k", "${file:token}"]}', False),
        ('subscribe = {"login": {"user": "u", "pass": "abc"}}', True),
        ('subscribe = {"pwd": "abc"}', True),
        ('subscribe = {"sig": "abc", "token": "${file:token}"}', True),
        ('subscribe = {"token": "${env:NOPE:-abc}"}', True),
        ('subscribe = {"token": "${checkpoint:-0}", "signal": "x", "design": "y"}', False),
        ('subscribe = {"signature": "abc"}', True),
        ("[stream:x]\nurl = ws://host/?a=b&sig=abc", True),
        ("[stream:x]\nurl = ws://host/?pwd=abc", True),
        ("[stream:x]\nurl = ws://host/?token=${env:NOPE:-abc}", True),
        ("[stream:x]\nurl = ws://host/?token=${index}abc", True),
        ("[stream:x]\nurl = ws://host/?signal=abc&token=${file:token}", False),
        ("[stream:x]\nurl = ws://user:${env:NOPE:-abc}@host/", True),
        ("[stream:x]\nurl = ws://user:abc@host/", True),
        ("[stream:x]\nurl = ws://${env:HOME}:abc@host/", True),
        ("[stream:x]\nurl = ws://user:${env:HOME}@host/", False),
        ("[stream:x]\nurl = ws://host/?token=abc", True),
        ("[stream:x]\nurl = ws://host/?token=${env:HOME}", False),
    ],
)
def test_secrets_in_a_public_file_are_found_by_their_names(
    write: Callable[..., str], tmp_path: Path, stream: str, exposed: bool
) -> None:
    (tmp_path / "token").write_text(SECRET)
    warnings = examine(write(stream=f"{stream}\n", mode=0o644), {"HOME": "/"}).warnings
    assert ["SECRET EXPOSED" in warning for warning in warnings] == [True] * exposed
    assert examine(write(stream=f"{stream}\n", mode=0o640), {"HOME": "/"}).warnings == ()


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        ("shards = 5-2", "shards is '5-2', expected a range that rises, 2-5"),
        ("shards = 0..15", "expected a range (0-15) or names (eu, us, asia) (did you mean 0-15?)"),
        ("shards = eu, 0 - 15", "(did you mean 0-15?)"),
        ("shards = 3 to 7", "(did you mean 3-7?)"),
        ("shards = 0-99999", "expected at most 10000 shards"),
        ("shards = a/b", "expected a range (0-15) or names (eu, us, asia)"),
        ("shards = a, b, a", "expected each shard once, but a stands there twice"),
        ("reconnect_min = 2m", "reconnect_min 2m must not exceed reconnect_max 1m; reconnect_min = 1m works"),
        ("handler = trades", "handler needs a file and a class (./trades.py:Trades) or a module and a class"),
        (
            "max_age = 1m",
            "max_age 1m must be twice idle_timeout 45s or more, or no silence is ever noticed; max_age = 90s",
        ),
        ("sink = file", "sink needs one of stdout, jsonl:PATH, http(s)://HOST/PATH, kinesis:NAME"),
        ("sink = ./none.py:Sink", "sink: there is no file "),
        ("sink = jsnl:Events", "sink needs one of stdout, jsonl:PATH"),
        ("sink_compression = gzip", "sink_compression is for a sink of the kind http, but sink is stdout, the default"),
        ("sink_header.X = 1", "sink_header is for a sink of the kind http, but sink is stdout, the default"),
        ("sink_fsync = always", "sink_fsync is for a sink of the kind jsonl, but sink is stdout, the default"),
        (
            "sink = https://collector.example/in\nsink_fsync = always",
            "sink_fsync is for a sink of the kind jsonl, but sink is https",
        ),
        ("sink = own:Own\nsink_timeout = 3s", "of the kind http or kinesis or sqs, but sink is a class of yours"),
        ("sink = kinesys:events", "or a class of yours (FILE.py:CLASS) (did you mean kinesis:...?)"),
        ("sink = /var/lib/events.jsonl", "or a class of yours (FILE.py:CLASS); a file is jsonl:PATH"),
        ("shards = 4", "shards is '4', expected a range or names: 0-3 for 4 shards; for shard 4 alone it is 4-4"),
        ("idle_timeout = 30s ; x", "5m or 1h; comments stand on lines of their own, not behind a value"),
        ("overflow = wait # x", "; comments stand on lines of their own, not behind a value"),
        ('overflow = "wait"', "; values stand without quotes"),
        ("idle_timeout = 1.5 sec", "(did you mean 1500ms?)"),
        ("sink_buffer = 64kb", "expected a size such as 64KiB or 1MiB (did you mean 64KiB?)"),
        ("header = Authorization: Bearer x", "unknown key header in [stream:trades], did you mean header.NAME?"),
        ("header.A = ${shrd}", "header.A: a ${...} is no name, did you mean ${shard}?"),
        ("header.A = ${HOME}", "a variable of the environment is ${env:NAME}; a dollar itself is written $$"),
        ("sink = jsonl:x\nsink_keep = 3", "sink_keep has no effect without sink_rotate_size or sink_rotate_every"),
        ("checkpoint = seq", "expected a JSON pointer such as /seq or /data/0/id (did you mean /seq?)"),
        ("id = $.id", "(did you mean /id?)"),
        ("sequence = $.data[0].seq", "(did you mean /data/0/seq?)"),
        ("id = data.id", "(did you mean /data/id?)"),
        ("tls_verify = false", "the certificate of a server is always verified; tls_ca names those to trust"),
        ("timeout = 10s", "the timeouts are connect_timeout, ping_timeout, frame_timeout and idle_timeout"),
        ("sink = jsonl:x\nsink_rotate_size = 100", "sink_rotate_size is '100', expected a size from 64KiB to 1024GiB"),
        ("max_age = 30", "(did you mean 30s?)"),
        ("connect_timeout = 90000", "connect_timeout is '90000', expected a duration from 100ms to 1h"),
        ("wss://feed.example/2", "several urls are indented lines of one url key"),
        ("id = /a~2", "id needs a JSON pointer such as /seq or /data/0/id, in which ~1 stands for / and ~0 for ~"),
        ("checkpoint_retries = -1", "checkpoint_retries is '-1', expected a number from 0 to 1000"),
        ("on_gap = reconnect", "on_gap has no effect without sequence; say where in a message its number is"),
        ("on_idle = report\nidle_timeout = off", "on_idle has no effect with idle_timeout = off; remove one of them"),
        ("idle_timeout = 1", "idle_timeout is '1', expected off or a duration such as 250ms, 10s, 5m or 1h"),
        ("connect_rate = 5", "connect_rate is '5', expected off, or a rate such as 5/s, 0.5/s or 300/m"),
        ("send_rate = 0/s", "send_rate is '0/s', expected off, or a rate such as 5/s, 0.5/s or 300/m"),
        ("proxy = socks5://x:1", "such as http://proxy.internal:3128; SOCKS is not supported"),
        ("tls_cert = none.pem", "tls_cert: there is no file "),
        ("tls_min_version = 1.1", "tls_min_version is '1.1', expected one of 1.2, 1.3"),
        ("header.Sec-WebSocket-Extensions = permessage-deflate", "has a key of its own: compression = deflate"),
        ("header.Upgrade = h2c", "header.Upgrade is set by the request itself; remove it"),
        ("header.a b = 1", "the name of a header holds letters, digits and -, as in header.Authorization"),
        ("header.A = 1\nheader.a = 2", "header.a is there twice"),
        ("header. = 1", "unknown key header."),
        ("python_path = .", "python_path is a key of [supervisor], and stands in [stream:trades]; move it there"),
        ("environment = A-B", "environment needs names of environment variables"),
        ("tls_ca = none.pem", "tls_ca: there is no file "),
    ],
)
def test_a_bad_value_of_a_stream_is_answered_with_what_is_right(
    write: Callable[..., str], stream: str, expected: str
) -> None:
    (problem,) = problems(write(stream=f"{stream}\n"))
    assert re.match(r"[67]: ", problem)
    assert expected in problem


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("feed.example/ws", "a URL that begins with ws:// or wss://"),
        ("https://feed.example", "a URL that begins with ws:// or wss://"),
        ("ws://", "a URL with a host and a valid port"),
        ("ws://x:99999", "a URL with a host and a valid port"),
        ("ws://[::1", "a URL with a host and a valid port"),
        ("ws://x/#part", "a URL without a fragment"),
        ("ws://a ws://b", "a URL without spaces"),
    ],
)
def test_a_url_that_is_none_is_refused(write: Callable[..., str], url: str, expected: str) -> None:
    (problem,) = problems(write(MINIMAL.replace("wss://feed.example/ws", url)))
    assert problem.startswith(f"5: url needs {expected}")


def test_all_placeholders_that_mean_nothing_are_told_with_what_else_is_wrong_in_the_url(
    write: Callable[..., str],
) -> None:
    url = "http://h/${shrd}?a=${emv:X}&b=${index}&c=${env:NOPE}"
    found = problems(write(MINIMAL.replace("wss://feed.example/ws", url)))
    assert [re.sub(" expected| and what.*", "", problem.partition(";")[0]) for problem in found] == [
        "5: url needs a URL that begins with ws:// or wss:// (did you mean ws://?)",
        "5: url, placeholder 1: a ${...} is no name, did you mean ${shard}?",
        "5: url, placeholder 2: a ${...:...} asks an unknown source, env, file, credential",
        "5: url: ${env:NOPE} is not set in the environment",
    ]


def test_all_placeholders_that_a_plain_key_cannot_have_are_told(write: Callable[..., str]) -> None:
    found = problems(write(extra="fleet = ${shard}${index}${env:NOPE}"))
    assert sorted(problem.split(" ")[2] for problem in found) == ["${env:NOPE}", "${index}", "${shard}"]


def test_the_list_of_all_keys_stands_in_one_message_at_most(write: Callable[..., str]) -> None:
    found = problems(write(stream="xyzzy = 1\nqqqqq = 2\n"))
    assert ["expected one of shards, url" in problem for problem in found] == [True, False]
    assert found[1].endswith("`tenured example` shows all that there are")


@pytest.mark.parametrize("key", ["tls_ca = ./ca.pem", "tls_cert = ./c.pem", "tls_min_version = 1.3"])
def test_tls_options_of_connections_without_tls_are_a_mistake(
    write: Callable[..., str], key: str, tmp_path: Path
) -> None:
    plain = MINIMAL.replace("wss://feed.example/ws", "ws://feed.example/ws")
    found = problems(write(plain + f"{key}\n"))
    name = key.partition(" ")[0]
    assert f"6: {name} has no effect, since no url is encrypted; write wss:// instead of ws://" in found
    for encrypted in (f"{plain} wss://b.example\n", plain.replace("ws://feed", "${env:SCHEME:-wss}://feed")):
        found = problems(write(encrypted + f"{key}\nbeside = 1\n"))
        assert not [problem for problem in found if "no effect" in problem]


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        ("sink = jsonl:./e.jsonl ; main", "sink: all of the line is its value; comments stand on lines of their own"),
        ('id = "/id"', None),
        ("connect_key = 'main'", None),
    ],
)
def test_what_is_hardly_meant_is_warned_of(write: Callable[..., str], line: str, warning: str | None) -> None:
    if warning is None:
        assert "; values stand without quotes" in problems(write(stream=f"{line}\n"))[0]
    else:
        loaded = examine(write(stream=f"{line}\n"), {})
        assert [each for each in loaded.warnings if each.endswith(f"6: {warning}")]


@pytest.mark.parametrize(
    "url", ["ws://[::1]:80/x", "wss://h:${env:PORT:-1}/${index}", "${env:URL}", "ws://u:p@h?a=b%20c"]
)
def test_urls_of_every_shape_are_taken(write: Callable[..., str], url: str) -> None:
    (stream,) = load(write(MINIMAL.replace("wss://feed.example/ws", url)), {"URL": "ws://x"}).streams
    assert stream.spec.url == (url,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["1: store is missing in [supervisor]", "1: there is no stream"]),
        ("[supervisor]\nstore = sqlite:///x.db\n[stream:t]\n", ["3: [stream:t] needs a url, or a handler"]),
        (MINIMAL.replace("[stream:trades]", "[stream:a/b]"), ["4: [stream:a/b] needs a name of at most 64 letters"]),
        (
            MINIMAL.replace("[stream:trades]", "[streams]"),
            ["4: unknown section [streams], did you mean [stream:NAME]?"],
        ),
        (
            MINIMAL + "[DEFAULT]\nurl = ws://x\n",
            ["6: unknown section [DEFAULT], expected [supervisor] or [stream:NAME]"],
        ),
        (
            MINIMAL + "[stream:trades]\nurl = ws://x\n",
            ["6: [stream:trades] stands already in line 4; join the two", "7: url"],
        ),
        (MINIMAL + "[stream:b] ; why\nurl = ws://x\n", ["6: text after [stream:b]"]),
        ("fleet = x\n" + MINIMAL, ["1: a key before the first [section]"]),
    ],
)
def test_a_file_of_another_shape_is_explained(write: Callable[..., str], text: str, expected: list[str]) -> None:
    found = problems(write(text))
    assert len(found) == len(expected)
    for problem, beginning in zip(found, expected, strict=True):
        assert problem.startswith(beginning)


@pytest.mark.parametrize("section", ["stream:a b", "stream:", "strem:z", "streams", "Stream:z"])
def test_the_mistakes_in_a_section_with_a_wrong_name_are_said_in_the_same_run(
    write: Callable[..., str], section: str
) -> None:
    found = problems(write(MINIMAL + f"[{section}]\nurl = http://x\nurll = ws://x\nping_interval = 5\n"))
    assert [problem.split(" ")[0] for problem in found[1:]] == ["7:", "8:", "9:"]
    assert found[0].startswith("6: ")
    assert f"[{section}]" in found[0]
    assert [problem.split(" ")[1] for problem in found[1:]] == ["url", "unknown", "ping_interval"]


def test_the_mistakes_in_a_misspelt_section_of_the_supervisor_are_said_too(write: Callable[..., str]) -> None:
    found = problems(write("[supervisr]\nstore = sqlite:///x.db\npoll_interval = 5\n[stream:a]\nurl = ws://a\n"))
    assert [problem.split(":")[0] for problem in found] == ["1", "1", "3"]


def test_a_section_that_stands_in_two_files_is_named_in_both(write: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "more.ini").write_text("[stream:trades]\nurl = ws://x\n")
    source = write(extra="include = *.ini")
    assert problems(source) == [f"{tmp_path}/more.ini:1: [stream:trades] stands already in {source}:5; join the two"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [(None, "no such file"), (b"[supervisor]\n\xff\n", "not UTF-8 text"), (b"\0" * 5_000_000, "larger than")],
)
def test_a_source_that_cannot_be_read_is_one_sentence(tmp_path: Path, data: bytes | None, expected: str) -> None:
    path = tmp_path / "tenured.ini"
    if data is not None:
        path.write_bytes(data)
    (problem,) = problems(str(path))
    assert expected in problem


def test_a_thousand_mistakes_are_cut_short(write: Callable[..., str]) -> None:
    found = problems(write(stream="".join(f"key{number} = 1\n" for number in range(1000))))
    assert len(found) == 51
    assert found[-1] == "and 950 more"


def test_a_socket_path_that_the_kernel_cannot_take_is_refused(write: Callable[..., str]) -> None:
    (problem,) = problems(write(extra=f"run_dir = /tmp/{'x' * 100}"))
    assert "bytes too long for a socket" in problem


@pytest.mark.parametrize("package", ["workers", "supervisor"])
def test_a_folder_of_handlers_that_hides_a_package_of_ours_is_refused(
    write: Callable[..., str], tmp_path: Path, package: str
) -> None:
    (tmp_path / "lib" / package).mkdir(parents=True)
    foreign = tmp_path / "lib" / package / "__init__.py"
    foreign.touch()
    (problem,) = problems(write(extra="python_path = lib"))
    assert f"{foreign} hides a package of tenured" in problem


def test_durations_that_pass_the_checks_leave_room_for_two_lost_renewals_and_the_margin() -> None:
    for lease in range(1000, 60_000, 7):
        renew = relations.renew_interval_ms(lease)
        ms = {
            "lease_duration": lease,
            "renew_interval": renew,
            "call_timeout": relations.call_timeout_ms(renew),
            "margin": relations.margin_ms(lease),
            "poll_interval": 1000,
        }
        assert relations.broken_in_supervisor(ms) == []
        assert ms["renew_interval"] + ms["call_timeout"] + ms["margin"] < lease


# --- secrets ----------------------------------------------------------------------------------------------


def test_no_secret_is_in_a_message_the_settings_the_summary_or_the_digest(
    write: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(SECRET)
    environ = {"TOKEN": SECRET, "CREDENTIALS_DIRECTORY": str(tmp_path)}
    stream = "header.A = ${file:token}\nheader.B = ${env:TOKEN}\nsubscribe = ${credential:token}\n"
    text = MINIMAL.replace("/ws", "/ws?key=${file:token}")
    settings = load(write(text, stream=stream), environ)
    assert SECRET not in repr(settings) + "\n".join(summary(settings))
    broken = "crash_limit = ${env:TOKEN}\nstop_timeout = ${file:token}"
    literal = f"header.C = {SECRET}${{x}}\nurl = ftp://{SECRET}@x\nheader.D =\n  {SECRET}\n  {SECRET}\n{SECRET}\n"
    found = problems(
        write("[supervisor]\nstore = sqlite:///x\n\n[stream:t]\n", extra=broken, stream=literal), **environ
    )
    assert len(found) == 6
    assert SECRET not in "\n".join(found)


MISTAKES = r"""
environment = API_KEY=@|sink = https://u:@@h/|sink = @|handler = @|shards = @, b/|close_code = @|connect_timeout = @
url = ws://h/${@}|url = ws://h/${x:@}|url = ws://h/${env:@}|url = @|header.A =|subscribe = ${@}|max_message = @
Bearer @ = x|@|@ = x|header.Bad @ = x|headr.B @ = x|{"token": "@"}|["a", "@"]|[@]|[stream:@ x]|[strem:@ x]
url = ws://h/\n  @\nurl = @|@ = 1\n@ = 2|[@]\n[@] x|outage_policy = @|tls_ca = x\n  @|environment = ${env:A} @
"""


@pytest.mark.parametrize("line", MISTAKES.strip().replace("\n", "|").split("|"))
def test_a_mistake_repeats_nothing_that_may_be_a_secret(write: Callable[..., str], line: str) -> None:
    text = MINIMAL.replace("url = wss://feed.example/ws\n", "header.X = y\n")
    found = problems(write(text, stream=line.replace("@", SECRET).replace("\\n", "\n") + "\n"))
    assert [problem for problem in found if SECRET in problem] == []


@pytest.mark.parametrize(
    "line",
    [
        *(
            "http = u:@@h:1",
            "http = @",
            "http_hosts = u:@@h",
            "fleet = @ x",
            "capacity = @",
            "store = @",
            "store = x://@",
        ),
        *(
            "lease_duration = @",
            "log_level = @",
            "python_path = x\0@",
            "crash_limit = ${@}",
            "@ = 1",
            "margin = ${env:@}",
        ),
    ],
)
def test_a_mistake_of_the_supervisor_repeats_nothing_that_may_be_a_secret(write: Callable[..., str], line: str) -> None:
    found = problems(write(f"[supervisor]\n{line.replace('@', SECRET)}\n[stream:a]\nurl = ws://h/\n"))
    assert [problem for problem in found if SECRET in problem] == []


@pytest.mark.parametrize(
    ("line", "outline"),
    [
        ("connect_timeout = soon", "connect_timeout needs a duration such as 250ms, 10s, 5m or 1h"),
        ("tls_ca = nowhere", "tls_ca: there is no such file"),
        ("handler = nowhere.py:X", "handler: there is no such file"),
        ("header.X = ${file:nowhere}", "header.X: what a ${file:...} names cannot be had"),
        ("urk = 1", "unknown key urk in [stream:trades], did you mean url?"),
    ],
)
def test_what_the_fleet_may_read_of_a_mistake_is_its_place_the_key_and_what_is_right(
    write: Callable[..., str], line: str, outline: str
) -> None:
    source = write(stream=f"{line}\n")
    with pytest.raises(ConfigError) as caught:
        load(source, {})
    assert caught.value.outline == f"{source}:6: {outline}"


def test_a_literal_secret_is_shown_by_no_summary_and_changes_no_digest(write: Callable[..., str]) -> None:
    text = MINIMAL.replace("//feed", f"//u:{SECRET}@feed").replace("/ws", f"/ws?token={SECRET}")
    stream = f"header.Authorization = {SECRET}\nsubscribe = {SECRET}\n"
    settings = load(write(text, stream=stream), {})
    other = load(write(text.replace(SECRET, "x"), stream=stream.replace(SECRET, "x")), {})
    assert SECRET not in "\n".join(summary(settings))
    assert settings.digest == other.digest


def test_a_secret_in_a_file_that_everybody_may_read_is_warned_of(write: Callable[..., str]) -> None:
    stream = "header.Authorization = Bearer abc\nheader.X-Note = hello\nheader.Cookie = ${env:C}\n"
    (warning,) = examine(write(stream=stream, mode=0o644), {"C": "x"}).warnings
    assert "tenured.ini:6: SECRET EXPOSED: header.Authorization holds a secret and every user" in warning
    assert examine(write(stream=stream, mode=0o640), {"C": "x"}).warnings == ()


def test_what_a_placeholder_needs_must_be_there(write: Callable[..., str]) -> None:
    stream = (
        "header.A = ${file:/no/token}\nheader.B = ${env:NOPE}\nheader.C = ${credential:c}\nheader.D = ${env:X:-d}\n"
    )
    found = problems(write(stream=stream))
    assert [problem.split(":")[0] for problem in found] == ["6", "7", "8"]
    assert "no such file" in found[0]


# --- digest, capacity, table ------------------------------------------------------------------------------


def test_the_digest_follows_what_the_fleet_shares_and_nothing_local(write: Callable[..., str]) -> None:
    digest = load(write(), {}).digest
    assert (
        load(write(extra="state_dir = /x\ncapacity = 3\nlog_level = debug", stream="sink = discard\n"), {}).digest
        == digest
    )
    for changed in ({"extra": "lease_duration = 9s"}, {"stream": "shards = 0-1\n"}, {"stream": "header.A = 1\n"}):
        assert load(write(**changed), {}).digest != digest


def test_capacity_follows_the_smallest_limit_of_memory(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/a/b"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/a/b\n")
    machine = memory_bytes(tmp_path)
    assert machine == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    (group / "memory.max").write_text("max\n")
    (group.parent / "memory.max").write_text(f"{512 * 1024**2}\n")
    assert memory_bytes(tmp_path) == 512 * 1024**2
    assert capacity_of(512 * 1024**2) == 24
    assert capacity_of(0) == 1
    assert capacity_of(10**13) == SLOTS


def test_the_older_cgroups_limit_memory_too(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/memory"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("4:cpu,memory:/docker/abc\n0::/\n")
    (group / "memory.limit_in_bytes").write_text(f"{256 * 1024**2}\n")
    assert memory_bytes(tmp_path) == 256 * 1024**2


def test_the_shipped_file_is_exactly_the_example_and_valid(tmp_path: Path) -> None:
    assert (ROOT / "etc/tenured.ini").read_text() == example()
    (tmp_path / "tenured.ini").write_text(example())
    loaded = examine(str(tmp_path / "tenured.ini"), {})
    assert [len(stream.shards) for stream in loaded.settings.streams] == [4]


def test_what_check_says_names_handler_and_sink_as_not_imported_and_where_it_listens(
    write: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "trades.py").write_text("raise SystemExit('imported')\n")
    source = write(
        extra="http = [::1]:80\nhttp_hosts = a.example",
        stream="handler = ./trades.py:Trades\nsink = ./trades.py:Table\n",
    )
    lines = list(summary(load(source, {})))
    assert "  http http://[::1]:80, also called a.example" in lines
    told = "(not imported here: run and check --connect do it)"
    assert lines[-1] == f"    handler {tmp_path}/trades.py:Trades {told}, sink {tmp_path}/trades.py:Table {told}"
    assert "  http off" in list(summary(load(write(), {})))


def test_the_example_mentions_every_key_and_every_commented_line_of_it_works() -> None:
    text = example()
    for key in KEYS:
        assert re.search(rf"^(; )?{re.escape(key.name)}\w* = .", text, re.MULTILINE), key.name
        if not key.template:
            key.parse(key.example or key.default, ROOT)


def test_defaults_of_a_stream_are_those_of_its_children() -> None:
    spec = StreamSpec("")
    fields = {field.name for field in dataclasses.fields(spec)}
    for key in keys_of(STREAM).values():
        field = key.name if key.name in fields else f"{key.name}_ms"
        if field in fields and key.default is not None:
            assert key.parse(key.default, ROOT) == getattr(spec, field), key.name


def test_every_key_has_a_value_a_reader_and_one_place_in_the_table() -> None:
    names = [(key.section, key.name) for key in KEYS]
    assert len(set(names)) == len(names)
    for key in KEYS:
        assert key.default or key.example, key.name
        assert key.section in (SUPERVISOR, STREAM)


def test_what_only_children_need_may_be_missing_where_none_is_started(tmp_path: Path) -> None:
    """A laptop that asks for the status, or a shell beside the service, has no secret of the streams."""
    text = "[supervisor]\nstore = sqlite:///l.db\n[stream:a]\nurl = ws://x/${env:KEY}\nheader.A = ${credential:token}\n"
    (tmp_path / "t.ini").write_text(text)
    with pytest.raises(ConfigError) as caught:
        examine(str(tmp_path / "t.ini"), {})
    assert len(caught.value.problems) == 2
    loaded = examine(str(tmp_path / "t.ini"), {}, needed=())
    assert [warning.split("${")[1].split("}")[0] for warning in loaded.warnings] == ["env:KEY", "credential:token"]
    with pytest.raises(ConfigError) as caught:
        examine(str(tmp_path / "t.ini"), {}, needed=("env", "file"))
    assert (len(caught.value.problems), len(caught.value.warnings)) == (1, 1)


def test_a_mistake_of_a_stream_hides_neither_the_store_nor_the_supervisor(write: Callable[..., str]) -> None:
    """A reload has refused such a file, and the commands that show it must not refuse it, too."""
    source = write(extra="stop_timeout = 3s\nlease_duraton = 3s", stream="bogus = 1\n[stream:good]\nurl = ws://x/\n")
    found = basics(source, {})
    assert (found.fleet, found.stop_timeout_ms, found.shards, found.mistakes) == ("default", 3000, ("good",), 2)
    with pytest.raises(ConfigError):
        examine(source, {})


@pytest.mark.parametrize("line", ["run_dir = ${env:NOWHERE}", "fleet = a b", "stop_timeout = soon"])
def test_a_mistake_in_what_leads_there_is_told(write: Callable[..., str], line: str) -> None:
    with pytest.raises(ConfigError):
        basics(write(extra=line), {})
