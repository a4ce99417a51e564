"""The http sink against a collector that misbehaves: only 2xx lets events go, and nothing makes a request endless."""

from __future__ import annotations

import email.utils
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.collector import Behaviour, Collector, Exchange, cut, drip, silence, status
from tests.far_ends import Enough, InThread, Naps, Told, batch, batches, context, numbers
from tests.wait import until
from workers.sinks.choice import sink_of
from workers.sinks.http import outcome_of
from workers.sinks.interface import BadSink
from workers.sinks.outcome import FLOOR_MAX_S, Again, Outcome, Refused, Safe, Unfit
from workers.sinks.post import Answer

CERTIFICATE = str(Path(__file__).with_name("certificate.pem"))  # for 127.0.0.1 and localhost, signed by itself
TIMEOUT_S = 0.4


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


class Rig:
    """A sink that never really waits between requests."""

    def __init__(self, url: str, environment: dict[str, str] | None = None, most: int = 1_000_000, **spec: Any) -> None:
        self.naps = Naps(most)
        self.report = Told(self.naps)
        given = {"sink_timeout_ms": int(TIMEOUT_S * 1000), **spec}
        self.sink = sink_of(url, context(self.report, environment=environment, **given), pytest.fail)
        self.sink.open()

    def write(self, events: int = 20) -> None:
        self.sink.write(batches(events))
        self.sink.flush()


# --- requests -----------------------------------------------------------------------------------------------


def test_events_are_posted_in_order_as_lines_with_a_key_that_names_them(collector: Collector) -> None:
    rig = Rig(collector.url + "?to=a", sink_batch=8)
    rig.write(20)
    assert numbers(collector.lines) == list(range(1, 21))
    assert [posted.key for posted in collector.posted] == ["trades/7/12/1-8", "trades/7/12/9-16", "trades/7/12/17-20"]
    first = collector.posted[0]
    assert first.line == "POST /events?to=a HTTP/1.1"
    assert first.headers["content-type"] == "application/x-ndjson"
    assert first.headers["host"] == f"127.0.0.1:{collector.port}"
    assert first.body.endswith(b"}\n")
    assert json.loads(first.lines[0])["data"].startswith("1 ")
    assert collector.connections == 1
    assert rig.report.retries == []


def test_one_event_has_a_key_of_its_number_alone(collector: Collector) -> None:
    Rig(collector.url).write(1)
    assert collector.posted[0].key == "trades/7/12/1"


def test_a_request_has_five_hundred_events_or_a_mebibyte_at_most_and_a_larger_event_goes_alone(
    collector: Collector,
) -> None:
    rig = Rig(collector.url)
    rig.sink.write(batches(1200))
    assert [len(posted.lines) for posted in collector.posted] == [500, 500, 200]
    rig.sink.write([batch("a" * 600_000, "b" * 600_000, "c" * 1_200_000, "d", first_seq=1201)])
    assert [len(posted.lines) for posted in collector.posted[3:]] == [1, 1, 1, 1]


def test_compressed_requests_say_so_and_are_the_same_again_at_a_retry(collector: Collector) -> None:
    collector.then(status(503))
    Rig(collector.url, sink_compression="gzip").write(300)
    first, second = collector.posted
    assert first.headers["content-encoding"] == "gzip"
    assert first.body == second.body
    assert numbers(second.lines) == list(range(1, 301))
    assert len(first.body) < 5000


def test_headers_are_expanded_for_each_request_so_that_a_rotated_secret_is_in_the_next(
    collector: Collector, tmp_path: Path
) -> None:
    secret = tmp_path / "token"
    secret.write_text("old\n")
    headers = (
        ("Authorization", f"Bearer ${{file:{secret}}}"),
        ("X-From", "${shard} ${epoch} ${env:SITE}"),
        ("Content-Type", "text/plain"),
    )
    rig = Rig(collector.url, {"SITE": "büro"}, sink_headers=headers)

    def rotate(exchange: Exchange) -> None:
        secret.write_text("new\n")
        exchange.answer(401)

    collector.then(rotate)
    rig.write()
    assert [posted.headers["authorization"] for posted in collector.posted] == ["Bearer old", "Bearer new"]
    assert collector.posted[0].headers["x-from"].encode("latin-1").decode() == "trades/7 12 büro"
    assert collector.posted[0].headers["content-type"] == "text/plain"


def test_a_secret_that_is_not_there_or_breaks_the_line_sends_nothing_and_is_told_until_it_is_mended(
    collector: Collector, tmp_path: Path
) -> None:
    secret = tmp_path / "token"
    contents = ["a\r\nX-Evil: yes", "good"]

    def write_secret(_: float) -> None:
        secret.write_text(contents.pop(0))

    report = Told(write_secret)
    headers = (("Authorization", f"${{file:{secret}}}"),)
    sink_of(collector.url, context(report, sink_headers=headers), pytest.fail).write(batches(3))
    assert [posted.headers["authorization"] for posted in collector.posted] == ["good"]
    missing, broken = report.retries
    assert "cannot be read" in missing
    assert "line break" in broken
    assert "Evil" not in broken


def test_a_header_whose_variable_is_no_text_is_told_without_any_of_it(collector: Collector) -> None:
    headers = (("Authorization", "Bearer ${env:TOKEN}"),)
    rig = Rig(collector.url, {"TOKEN": "secret\udce9"}, most=1, sink_headers=headers)
    with pytest.raises(Enough):
        rig.write()
    (told,) = rig.report.retries
    where = f"127.0.0.1:{collector.port}"
    assert told == f"${{env:TOKEN}} holds bytes that are no UTF-8; so there is no request, and no answer from {where}"
    assert collector.posted == []


@pytest.mark.parametrize("name", ["Idempotency-Key", "content-length", "Host", "Transfer-Encoding"])
def test_headers_of_the_request_itself_are_not_for_the_file(name: str) -> None:
    with pytest.raises(BadSink, match=f"sink_header.{name} is set by the request itself"):
        Rig("http://127.0.0.1:1/", sink_headers=((name, "x"),))


@pytest.mark.parametrize("text", ["http://u:p@127.0.0.1/", "https://", "http://127.0.0.1/#x"])
def test_a_url_that_is_none_is_no_sink(text: str) -> None:
    with pytest.raises(BadSink):
        Rig(text)


# --- answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        *((code, Safe()) for code in (200, 201, 202, 204, 299)),
        *((code, Refused(f"answer {code}, a redirect, which is not followed,")) for code in (301, 302, 307, 308)),
        *((code, Again(f"answer {code}")) for code in (103, 408, 425, 429, 500, 502, 503, 504, 599)),
        *((code, Refused(f"answer {code}")) for code in (401, 403, 404, 405, 407, 410, 415, 451)),
        *((code, Unfit(f"answer {code}")) for code in (400, 422)),
        (413, Unfit("answer 413", too_large=True)),
    ],
)
def test_every_status_means_one_of_five_things(code: int, outcome: Outcome) -> None:
    assert outcome_of(Answer(code), 0.0) == outcome


def test_a_retry_after_in_seconds_or_as_a_date_is_waited_for_within_a_bound(collector: Collector) -> None:
    in_a_minute = email.utils.formatdate(time.time() + 60, usegmt=True)
    in_years = email.utils.formatdate(time.time() + 10**9, usegmt=True)
    collector.then(*(status(429, f"Retry-After: {text}") for text in ("7", in_a_minute, in_years, "nonsense")))
    rig = Rig(collector.url)
    rig.write()
    seconds, minute, years, nothing = rig.naps.seconds
    assert seconds == 7.0
    assert 55 < minute <= 60
    assert years == FLOOR_MAX_S
    assert nothing <= 2.0


def test_a_retry_is_byte_for_byte_the_same_request(collector: Collector) -> None:
    collector.then(status(500), cut, status(429), silence)
    Rig(collector.url).write()
    assert len(collector.posted) == 5
    assert {(posted.line, posted.key, posted.body) for posted in collector.posted} == {
        (collector.posted[0].line, "trades/7/12/1-20", collector.posted[0].body)
    }


def test_a_redirect_is_not_followed_and_told(collector: Collector) -> None:
    with Collector() as elsewhere:
        collector.then(status(307, f"Location: {elsewhere.url}"))
        rig = Rig(collector.url, sink_headers=(("Authorization", "secret"),))
        rig.write()
        assert elsewhere.posted == []
    assert rig.report.retries == [f"answer 307, a redirect, which is not followed, from 127.0.0.1:{collector.port}"]


def test_a_request_that_is_too_large_is_halved_and_the_next_ones_are_smaller(collector: Collector) -> None:
    def judge(exchange: Exchange) -> None:
        exchange.answer(413 if len(exchange.posted.body) > 60_000 else 204)

    collector.then(*[judge] * 40)
    rig = Rig(collector.url)
    rig.sink.write(batches(1500, each=100, size=100))
    taken = [line for posted in collector.posted if len(posted.body) <= 60_000 for line in posted.lines]
    assert numbers(taken) == list(range(1, 1501))
    refused = [posted for posted in collector.posted if len(posted.body) > 60_000]
    assert len(refused) == 1
    assert rig.naps.seconds == []


def test_an_event_that_the_collector_refuses_is_told_by_its_number_and_waits_behind_all_before_it(
    collector: Collector,
) -> None:
    rig = Rig(collector.url)

    def judge(exchange: Exchange) -> None:
        exchange.answer(400 if 13 in numbers(exchange.posted.lines) and not rig.naps.seconds else 204)

    collector.then(*[judge] * 40)
    rig.write()
    assert "answer 400" in rig.report.retries[-1]
    assert "to event 13 alone" in rig.report.retries[-1]
    assert len(rig.naps.seconds) == 1
    assert rig.naps.seconds[0] >= 60


# --- a collector that is not well ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (silence, "no answer from"),
        (cut, "no proper answer (RemoteDisconnected) from"),
        (drip(b"HTTP/1.1 2", b"0"), "no answer from"),
        (drip(b"HTTP/1.1 200 OK\r\nX-Long: "), "no answer from"),
        (drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "no answer from"),
        (lambda exchange: exchange.send(b"SSH-2.0-OpenSSH_9.2\r\n"), "no proper answer (BadStatusLine) from"),
        (lambda exchange: exchange.send(b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000), "no proper answer (LineTooLong) from"),
        (
            lambda exchange: exchange.send(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 1000),
            "no proper answer (HTTPException) from",
        ),
        (drip(b"HTTP/1.1 103 Early Hints\r\n\r\n", b""), "no answer from"),
    ],
    ids=["hangs", "cuts", "drips a status", "drips a header", "continues for ever", "is ssh", "long", "many", "early"],
)
def test_what_is_no_answer_ends_within_the_limit_and_lets_nothing_go(
    collector: Collector, behaviour: Behaviour, reason: str
) -> None:
    collector.then(behaviour)
    rig = Rig(collector.url)
    began = time.monotonic()
    rig.write()
    assert time.monotonic() - began < TIMEOUT_S + 1
    assert [numbers(posted.lines) for posted in collector.posted] == [list(range(1, 21))] * 2
    assert rig.report.retries == [f"{reason} 127.0.0.1:{collector.port}"]


@pytest.mark.parametrize("code", [100, 102, 103, 199])
@pytest.mark.parametrize("times", [1, 3])
def test_what_comes_before_the_answer_is_read_over_and_the_connection_kept(
    collector: Collector, code: int, times: int
) -> None:
    interim = f"HTTP/1.1 {code} Wait\r\nLink: </a>\r\n\r\n".encode() * times
    collector.then(lambda exchange: exchange.send(interim + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
    rig = Rig(collector.url)
    rig.write(1)
    rig.write(1)
    assert (rig.report.retries, collector.connections, len(collector.posted)) == ([], 1, 2)


def test_an_answer_before_all_of_the_request_was_sent_lets_nothing_go() -> None:
    taken: list[int] = []

    def early(exchange: Exchange) -> None:
        if rig.naps.seconds:
            taken.append(len(exchange.file.read(int(exchange.posted.headers["content-length"]))))
            exchange.answer(204)
        else:
            exchange.answer(200)
            exchange.collector.over.wait(TIMEOUT_S + 1)
            raise ConnectionError

    with Collector(at_once=early) as collector:
        rig = Rig(collector.url)
        rig.sink.write([batch("x" * 20_000_000)])
        assert rig.report.retries == [f"answer 200 before all of the request was sent from 127.0.0.1:{collector.port}"]
    assert taken[0] > 20_000_000


@pytest.mark.parametrize(
    "behaviour",
    [
        status(200, body=b"x" * 1_000_000),
        drip(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"),
        drip(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n"),
        drip(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        drip(b"HTTP/1.1 200 OK\r\n\r\n"),
        lambda exchange: exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nmore than that"),
        lambda exchange: exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n"),
        lambda exchange: exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"),
    ],
    ids=["huge", "drips", "endless", "drips chunks", "until closed", "too long", "wrong chunks", "negative"],
)
def test_the_head_of_an_answer_decides_whatever_its_body_does(collector: Collector, behaviour: Behaviour) -> None:
    collector.then(behaviour)
    rig = Rig(collector.url, sink_batch=10)
    began = time.monotonic()
    rig.write()
    assert time.monotonic() - began < 3
    assert numbers(collector.lines) == list(range(1, 21))
    assert rig.report.retries == []


def test_a_kept_connection_that_was_closed_meanwhile_is_replaced_without_a_failure(collector: Collector) -> None:
    rig = Rig(collector.url)
    rig.write()
    collector.cut_idle()
    rig.write()
    assert collector.connections == 2
    assert rig.report.retries == []


def test_an_answer_to_half_a_request_counts() -> None:
    def refuse(exchange: Exchange) -> None:
        if rig.naps.seconds:
            exchange.file.read(int(exchange.posted.headers["content-length"]))
            exchange.answer(204)
        else:
            exchange.answer(413)
            exchange.collector.over.wait(TIMEOUT_S + 1)
            raise ConnectionError

    with Collector(at_once=refuse) as collector:
        rig = Rig(collector.url)
        rig.sink.write([batch("x" * 20_000_000)])
        assert ["answer 413" in reason for reason in rig.report.retries] == [True]


def test_a_collector_that_is_away_loses_nothing_and_gets_everything_when_it_is_back(collector: Collector) -> None:
    rig = Rig(collector.url, sink_batch=10)
    rig.write(20)
    collector.stop_listening()
    report_before = len(rig.report.retries)
    writing = InThread(lambda: rig.sink.write([batch("a", "b", first_seq=21)]))
    until(lambda: len(rig.report.retries) > report_before + 3, 10)
    assert writing.running
    collector.listen()
    writing.result()
    assert numbers(collector.lines) == list(range(1, 23))
    assert rig.report.retries[-1] == f"Connection refused from 127.0.0.1:{collector.port}"


def test_a_resolver_that_hangs_holds_a_request_no_longer_than_its_limit_and_few_threads(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, released, hanging = socket.getaddrinfo, threading.Event(), []

    def slow(*arguments: Any, **options: Any) -> Any:
        if not released.is_set():
            hanging.append(1)
            released.wait(30)
        return real(*arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    rig = Rig(collector.url, sink_timeout_ms=50)
    writing = InThread(lambda: rig.write(1))
    until(lambda: len(rig.report.retries) > 10, 10)
    assert len(hanging) == 4
    assert rig.report.retries[0].startswith("no name resolution (no answer) from ")
    released.set()
    writing.result()
    assert numbers(collector.lines) == [1]


def test_a_name_that_does_not_exist_is_told_by_its_name() -> None:
    rig = Rig("http://nowhere.invalid/secret", most=1)
    with pytest.raises(Enough):
        rig.write(1)
    (reason,) = rig.report.retries
    assert reason.startswith("no name resolution (")
    assert reason.endswith("from nowhere.invalid:80")


# --- TLS ----------------------------------------------------------------------------------------------------


def server_context() -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(CERTIFICATE)
    return made


def test_a_certificate_that_the_system_trusts_is_accepted_and_the_connection_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", CERTIFICATE)
    with Collector(server_context()) as collector:
        rig = Rig(collector.url, sink_batch=5, sink_timeout_ms=5000)
        rig.write(20)
        assert numbers(collector.lines) == list(range(1, 21))
        assert collector.connections == 1
        assert rig.report.retries == []


def test_any_other_certificate_and_a_server_without_tls_get_no_byte_of_an_event(collector: Collector) -> None:
    with Collector(server_context()) as stranger:
        for url in (stranger.url, collector.url.replace("http:", "https:")):
            rig = Rig(url, most=2)
            with pytest.raises(Enough):
                rig.write(1)
            assert len(rig.report.retries) == 2
        assert stranger.posted == []
    assert all(b"trades" not in posted.body for posted in collector.posted)


def test_a_proxy_of_the_environment_is_not_asked(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        Rig(collector.url).write()
        assert proxy.posted == []
    assert len(collector.posted) == 1
