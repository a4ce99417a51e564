"""A store that fails in every way a network can: who is killed, who is not, and when.

One supervisor serves all tests here, in their order; between it and its store stands a proxy that each test tells how
to misbehave. Shards of the stream `s` are fenced in an outage, the shard `h` is held through it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from supervisor.ask import ask, socket_path
from supervisor.demo.feed_process import FeedProcess
from supervisor.lanes import STUCK_MAX_PER_THREAD
from tests import faults
from tests.engines import Engine
from tests.faults import RENEWALS, CutBody, Duplicate, EatAnswers, Fault, Hang, HoldRequests, Pick, Reply, TrickleBody
from tests.process.hand import DynamoHand
from tests.process.host import Deaths, Host, overlaps, tenured, wait_streaming
from tests.proxy import FaultProxy
from tests.wait import until
from workers.process.kernel import boottime_ns

pytestmark = pytest.mark.alone

SECOND_NS = 1_000_000_000
LEASE_S = 3.0
RENEW_S = LEASE_S / 3
MARGIN_S = 0.3
ATTEMPT_S = RENEW_S / 2
RATE = 20
LANE_WIDTH = 8
TABLE = "leases-faults"
HANDLER = """
import json, sys
from tenured import Handler

class Modules(Handler):
    def start(self, shard):
        self.emit(json.dumps(sorted(sys.modules)))
"""


@dataclass(frozen=True, slots=True)
class Site:
    host: Host
    feed: FeedProcess
    hand: DynamoHand
    proxy: FaultProxy

    @property
    def shards(self) -> list[str]:
        return [*self.host.shards, "h"]

    def connections(self) -> dict[str, int]:
        """The number of each shard's open connection: another number is another connection."""
        return {each.shard: each.number for each in self.feed.connected()}

    def health(self) -> dict[str, Any]:
        return ask(socket_path(self.host.folder / "run"), "health", 5)

    def last_events(self) -> dict[str, int]:
        """The newest event that each shard delivered."""
        newest: dict[str, int] = {}
        for each in self.host.deliveries():
            newest[each.shard] = max(each.event, newest.get(each.shard, 0))
        return newest


@pytest.fixture(scope="module")
def site(ministack: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("faults")
    (folder / "modules.py").write_text(HANDLER)
    with FaultProxy(ministack.port) as proxy, FeedProcess(folder / "feed.jsonl", rate=RATE) as feed:
        assert tenured("init", "--store", proxy.url(TABLE)).returncode == 0
        held = [f"sink = jsonl:{folder / 'a' / 'events.jsonl'}", f"handler = {folder}/modules.py:Modules"]
        stream = [*held, "[stream:h]", f"url = {feed.url('a')}", "outage_policy = hold", *held]
        with Host(folder / "a", proxy.url(TABLE), feed.url("a"), shards=10, stream=stream) as host:
            yield Site(host, feed, DynamoHand(ministack, TABLE), proxy)
            assert host.stop() == 0
        assert not overlaps(feed)


@pytest.fixture
def settled(site: Site) -> Iterator[Site]:
    """No fault, and every shard is connected and was renewed by a batch."""
    wait_streaming(site.feed, site.shards, timeout_s=20)
    batches = site.proxy.count("BatchExecuteStatement")
    until(lambda: site.proxy.count("BatchExecuteStatement") > batches, 10, 0.05)
    yield site
    site.proxy.faults = ()


def undisturbed(site: Site, seconds: float, shards: Sequence[str], more: Callable[[], bool] = lambda: True) -> None:
    """For so long, and until `more`: these shards keep their connections and deliver what the feed sends."""
    before = site.connections()
    until_ns = boottime_ns() + int(seconds * SECOND_NS)

    def over() -> bool:
        after = site.connections()
        gone = [shard for shard in shards if after.get(shard) != before[shard]]
        assert not gone, f"lost their connection: {gone}"
        return boottime_ns() >= until_ns and more()

    until(over, seconds + 10, 0.1)
    newest, due = site.last_events(), site.feed.record().schedule.due(boottime_ns())
    late = {shard: due - newest[shard] for shard in shards if newest[shard] < due - RATE}
    assert not late, f"events behind the feed: {late}"


def of(shard: str) -> Pick:
    """Every write and read of one row, also in a batch with others."""
    return Pick(when=lambda body: json.dumps(shard).encode() in body)


def test_a_child_has_no_socket_to_the_store_and_no_boto3(settled: Site) -> None:
    site = settled
    ports = {connection.raddr.port for connection in tcp(psutil.Process(site.host.pid))}
    assert site.proxy.port in ports  # what is looked for can be found
    for pid in site.host.child_pids().values():
        ports = {connection.raddr.port for connection in tcp(psutil.Process(pid))}
        assert ports == {site.feed.port}
    lines = [json.loads(line) for line in site.host.events.read_bytes().splitlines()]
    modules = {line["shard"]: json.loads(line["data"]) for line in lines if line["data"].startswith("[")}
    assert set(modules) == set(site.shards)
    assert not {module for loaded in modules.values() for module in loaded if module.startswith(("boto", "supervisor"))}


def tcp(process: psutil.Process) -> list[Any]:
    return [each for each in process.net_connections("tcp") if each.raddr]


def test_renewals_that_are_applied_and_never_answered_kill_nobody(settled: Site) -> None:
    site = settled
    epochs = {shard: row["epoch"] for shard, row in site.hand.rows().items() if shard in site.shards}
    site.proxy.fault = EatAnswers(RENEWALS)
    began = site.proxy.count()
    undisturbed(site, 2.5 * LEASE_S, site.shards, lambda: site.proxy.count() > began + 50)
    eaten = [each for each in site.proxy.seen()[began:] if RENEWALS(each)]
    assert len(eaten) > 20
    assert not [each for each in eaten if each.status], "an answer came through"
    assert {shard: site.hand.rows()[shard]["epoch"] for shard in site.shards} == epochs


def test_a_late_write_moves_nothing_back_and_kills_nobody(settled: Site) -> None:
    site = settled
    late = HoldRequests(RENEWALS)
    site.proxy.fault = late
    held = site.proxy.count("BatchExecuteStatement")
    until(lambda: site.proxy.count("BatchExecuteStatement") > held, 5)
    site.proxy.fault = None
    sent = len(site.proxy.seen())
    newer = lambda: [each for each in site.proxy.seen()[sent:] if RENEWALS(each) and each.status == 200]  # noqa: E731
    undisturbed(site, 2 * RENEW_S, site.shards, lambda: len(newer()) > 12)
    before = {shard: site.hand.rows()[shard]["beat"] for shard in site.shards}
    late.release()
    until(lambda: late.landed, 5)
    after = {shard: site.hand.rows()[shard]["beat"] for shard in site.shards}
    assert all(after[shard] >= before[shard] for shard in site.shards)
    assert late.landed[0].body.count(b"ConditionalCheckFailed") == len(site.shards)
    undisturbed(site, RENEW_S, site.shards)


def test_a_write_that_was_sent_twice_kills_nobody(settled: Site) -> None:
    site = settled
    began = len(site.proxy.seen())
    site.proxy.fault = Duplicate(RENEWALS)
    undisturbed(site, 1.5 * LEASE_S, site.shards)
    refused = [each for each in site.proxy.seen()[began:] if b"ConditionalCheckFailed" in each.answer]
    assert len(refused) >= 3, "no write was refused as its own duplicate"


def test_one_rows_faults_delay_no_other_and_hold_a_bounded_number_of_threads(settled: Site) -> None:
    site = settled
    s = site.host.shards
    unapplied: list[Fault] = [
        Reply(faults.html(), of(s[0])),
        Reply(faults.server_error(), of(s[1])),
        Hang(of(s[2])),
        Reply(faults.throttled(), of(s[3])),
    ]
    trickling: list[Fault] = [TrickleBody(0.3, of(shard)) for shard in s[5:8]]  # these hold a thread each, for minutes
    before = len(site.host.log())
    site.proxy.faults = (*unapplied, CutBody(of(s[4])), *trickling)
    stuck: list[int] = []

    def bounded() -> bool:
        stuck.append(site.health()["stuck_calls"])
        return True

    undisturbed(site, 3 * LEASE_S, [s[4], s[8], s[9], "h"], bounded)
    most = LANE_WIDTH * STUCK_MAX_PER_THREAD
    threads = psutil.Process(site.host.pid).num_threads()
    assert 0 < max(stuck) <= 2 * most
    assert threads <= 2 * (LANE_WIDTH + most) + 10
    fenced = [line for line in site.host.log()[before:] if line.get("event") == "lease.fenced"]
    assert set(s[:4]) <= {line["shard"] for line in fenced} <= {*s[:4], *s[5:8]}
    site.proxy.faults = ()
    site.proxy.stop_listening()  # ends what trickles
    site.proxy.listen()
    until(lambda: site.health()["stuck_calls"] == 0, 10, 0.1)


def test_throttling_shorter_than_the_slack_kills_nobody_at_any_phase(settled: Site) -> None:
    site = settled
    slack_s = LEASE_S - MARGIN_S - RENEW_S - ATTEMPT_S
    for phase in range(3):
        batches = site.proxy.count("BatchExecuteStatement")
        until(lambda batches=batches: site.proxy.count("BatchExecuteStatement") > batches, 5)  # type: ignore[misc]
        undisturbed(site, phase * RENEW_S / 3, site.shards)
        site.proxy.fault = Reply(faults.throttled())
        undisturbed(site, slack_s - 0.1, site.shards)
        site.proxy.fault = None
    undisturbed(site, RENEW_S + ATTEMPT_S, site.shards)


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (faults.access_denied("UpdateItem"), "dynamodb:UpdateItem is not permitted"),
        (faults.expired_token(), "the AWS credentials have expired"),
    ],
    ids=["denied", "expired"],
)
def test_a_store_that_turns_us_away_fences_at_the_deadline_and_names_the_cause(
    settled: Site, answer: faults.Answer, named: str
) -> None:
    site = settled
    before = len(site.host.log())
    deaths = Deaths(pid for shard, pid in site.host.child_pids().items() if shard != "h")
    held = site.connections()["h"]
    site.proxy.fault = Reply(answer)
    check_fenced(site, before, deaths, named)
    site.proxy.fault = None
    wait_streaming(site.feed, site.shards, timeout_s=2 * LEASE_S)
    assert site.connections()["h"] == held


def check_fenced(site: Site, before: int, deaths: Deaths, named: str) -> None:
    """Every child of `s` dies at the deadline that its last applied renewal gave it, with the cause in the log."""
    until(lambda: len(deaths.at_ns) == len(site.host.shards), LEASE_S + 5)
    applied = [each for each in site.proxy.seen("BatchExecuteStatement") if each.status == 200 and each.answer]
    deadline_ns = applied[-1].arrived_ns + (LEASE_S - MARGIN_S) * SECOND_NS
    late_s = [(at_ns - deadline_ns) / SECOND_NS for at_ns in deaths.at_ns.values()]
    assert min(late_s) > -0.2, f"a child was killed {-min(late_s):.3f} s before its deadline"
    assert max(late_s) < 0.2, f"a child was killed {max(late_s):.3f} s after its deadline"
    fenced = lambda: [line for line in site.host.log()[before:] if line.get("event") == "lease.fenced"]  # noqa: E731
    until(lambda: len(fenced()) == len(site.host.shards), 2)
    assert {line["shard"] for line in fenced()} == set(site.host.shards)
    assert [line["reason"] for line in fenced() if named not in line["reason"]] == []
    assert all(line["reason"].startswith("nothing was renewed for 2.") for line in fenced())


def test_an_outage_fences_or_holds_as_the_row_said_beforehand_and_ends_without_a_restart(settled: Site) -> None:
    site = settled
    policies = {shard: row["policy"] for shard, row in site.hand.rows().items() if shard in site.shards}
    assert policies == dict.fromkeys(site.host.shards, "fence") | {"h": "hold"}
    before = len(site.host.log())
    deaths = Deaths(pid for shard, pid in site.host.child_pids().items() if shard != "h")
    site.proxy.stop_listening()
    check_fenced(site, before, deaths, "cannot connect to the endpoint")
    undisturbed(site, LEASE_S, ["h"])
    warned = [line for line in site.host.log()[before:] if line.get("shard") == "h"]
    assert warned
    assert all(line["event"] == "store.unreachable" for line in warned)
    assert all("hold keeps the connections, another owner is possible" in line["reason"] for line in warned)
    assert site.health()["ready"] is False
    site.proxy.listen()
    wait_streaming(site.feed, site.shards, timeout_s=2 * LEASE_S)
    until(lambda: site.health()["ready"], 5, 0.1)
    assert len(site.host.log("supervisor.started")) == 1
