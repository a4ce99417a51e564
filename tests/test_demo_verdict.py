"""The demo's verdict: a clean history keeps every promise, and each planted fault breaks exactly its own.

Histories are made the way the show makes them: a feed that sends by its schedule, children that resume from a
checkpoint, one supervisor killed. The faults are planted into the finished history.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from supervisor.demo.record import Connection, Delivery, FeedRecord, Growing, delivery, feed_record
from supervisor.demo.schedule import Schedule
from supervisor.demo.verdict import IN_FLIGHT_MS, Kill, Verdict, judge, promises

MS = 1_000_000
START = 5_000_000_000
KILL = Kill("two", START + 6_000 * MS)
END = START + 15_000 * MS
T_MS = 3000


@dataclass(frozen=True)
class History:
    record: FeedRecord
    deliveries: list[Delivery]

    def judge(self) -> Verdict:
        return judge(self.record, self.deliveries, KILL)

    def broken(self) -> list[str]:
        return [promise.text for promise in promises(self.judge(), T_MS) if not promise.kept]

    def with_connection(self, connection: Connection) -> History:
        return replace(self, record=replace(self.record, connections=(*self.record.connections, connection)))

    def with_changed(self, old: Connection, **changes: object) -> History:
        new = tuple(replace(each, **changes) if each is old else each for each in self.record.connections)
        return replace(self, record=replace(self.record, connections=new))

    def without(self, event: tuple[str, int]) -> History:
        return replace(self, deliveries=[each for each in self.deliveries if (each.shard, each.event) != event])

    def cut(self) -> Connection:
        return next(each for each in self.record.connections if each.supervisor == KILL.supervisor)

    def successor(self) -> Connection:
        cut = self.cut()
        return next(each for each in self.record.connections if each.shard == cut.shard and each.supervisor == "one")


def history(gaps_ms: list[int], rate: int = 20, behind: int = 5, kept: int = 1) -> History:
    """One shard of the killed supervisor per gap, whose successor resumes `behind` events before the kill, and
    `kept` shards that stay where they are."""
    schedule = Schedule(START, rate)
    connections: list[Connection] = []
    for index, gap_ms in enumerate(gaps_ms):
        shard, opened, again = f"demo/{index}", START + 500 * MS, KILL.at_ns + gap_ms * MS
        before = schedule.due(KILL.at_ns)
        resumed = max(1, before - behind)
        connections += [
            Connection(0, shard, 10, "two", opened, KILL.at_ns + MS, 1006, ((1, before),)),
            Connection(0, shard, 11, "one", again, END, 1001, ((resumed, schedule.due(END)),)),
        ]
    for index in range(kept):
        connections.append(
            Connection(0, f"kept/{index}", 7, "one", START + 400 * MS, END, 1001, ((1, schedule.due(END)),))
        )
    connections.sort(key=lambda each: each.opened_ns)
    return History(FeedRecord(schedule, tuple(connections)), delivered_by(connections))


def delivered_by(connections: list[Connection]) -> list[Delivery]:
    return [
        Delivery(each.shard, each.epoch, seq, event)
        for each in connections
        for first, last in each.sent
        for seq, event in enumerate(range(first, last + 1), 1)
    ]


histories = st.builds(
    history,
    st.lists(st.integers(2, T_MS + 1500), min_size=1, max_size=3),
    st.integers(1, 20),
    st.integers(0, 40),
    st.integers(0, 3),
)


@given(histories)
def test_a_clean_history_keeps_every_promise(clean: History) -> None:
    assert clean.broken() == []


@given(histories, st.data())
def test_two_connected_epochs_of_a_shard_are_found_however_short(clean: History, data: st.DataObject) -> None:
    host = data.draw(st.sampled_from(clean.record.connections))
    assert host.closed_ns is not None
    at = data.draw(st.integers(host.opened_ns, host.closed_ns))
    intruder = Connection(99, host.shard, 12, "three", at, at, 1001)
    verdict = clean.with_connection(intruder).judge()
    assert any(intruder in (each.earlier, each.later) for each in verdict.overlaps)
    assert not promises(verdict, T_MS)[1].kept


def test_one_epoch_at_two_supervisors_is_an_overlap_and_two_connections_of_one_child_are_none() -> None:
    clean = history([1000])
    kept = clean.record.connections[0]
    assert clean.with_connection(replace(kept, number=9, connection=1, sent=())).judge().overlaps == ()
    assert (
        len(clean.with_connection(replace(kept, number=9, supervisor="two", code=1001, sent=())).judge().overlaps) == 1
    )


def test_a_connection_that_never_closed_overlaps_with_its_successor() -> None:
    clean = history([1000])
    assert len(clean.with_changed(clean.cut(), closed_ns=None).judge().overlaps) == 1


@given(histories, st.data())
def test_an_event_that_was_sent_and_never_delivered_is_lost(clean: History, data: st.DataObject) -> None:
    connection = data.draw(st.sampled_from(clean.record.connections))
    assert connection.closed_ns is not None
    settled = clean.record.schedule.due(connection.closed_ns - IN_FLIGHT_MS * MS)
    (first, last) = connection.sent[0]
    assume(first <= settled)  # else the whole connection was no longer than what may be on the wire
    event = data.draw(st.integers(first, min(last, settled)))
    verdict = clean.without((connection.shard, event)).judge()
    assert verdict.lost == ((connection.shard, event),)
    assert clean.without((connection.shard, event)).broken() == ["no event is lost"]


@given(histories)
def test_only_the_last_moment_before_the_end_of_a_connection_is_on_the_wire(clean: History) -> None:
    connection = clean.successor()
    assert connection.closed_ns is not None
    last = connection.sent[0][1]
    short = clean.without((connection.shard, last))
    on_the_wire = clean.record.schedule.at_ns(last) > connection.closed_ns - IN_FLIGHT_MS * MS
    assert (short.judge().in_flight, len(short.judge().lost)) == ((1, 0) if on_the_wire else (0, 1))


def test_what_was_on_the_wire_at_the_kill_must_be_asked_for_again() -> None:
    clean = history([1000], behind=0)
    cut, successor = clean.cut(), clean.successor()
    resumed = ((cut.sent[0][1] - 2, successor.sent[0][1]),)
    event = (cut.shard, cut.sent[0][1] - 1)
    assert clean.without(event).judge().in_flight == 1
    assert clean.with_changed(successor, sent=resumed).without(event).judge().lost == (event,)


def test_an_event_that_was_due_while_nobody_was_connected_is_missed_unless_it_is_asked_for() -> None:
    clean = history([1000])
    successor = clean.successor()
    late = ((successor.sent[0][0] + 15, successor.sent[0][1]),)
    forgetful = clean.with_changed(successor, sent=late)
    assert forgetful.judge().missed == 9
    assert forgetful.broken() == ["no event is lost"]


@given(histories, st.data())
def test_a_delivery_under_a_lower_epoch_is_stale(clean: History, data: st.DataObject) -> None:
    cut = clean.cut()
    after = next(
        index for index, each in enumerate(clean.deliveries) if (each.shard, each.epoch) == (cut.shard, cut.epoch + 1)
    )
    at = data.draw(st.integers(after + 1, len(clean.deliveries)))
    late = Delivery(cut.shard, cut.epoch, 1_000_000, 1_000_000)
    planted = replace(clean, deliveries=[*clean.deliveries[:at], late, *clean.deliveries[at:]])
    assert planted.judge().stale == (late,)
    assert planted.broken() == ["nothing comes from an epoch that was succeeded"]


def test_an_epoch_that_connects_after_its_successor_has_returned() -> None:
    clean = history([1000])
    ghost = replace(clean.cut(), opened_ns=END + MS, closed_ns=END + 2 * MS, sent=())
    assert clean.with_connection(ghost).judge().returned == (ghost,)
    assert clean.with_connection(ghost).broken() == ["nothing comes from an epoch that was succeeded"]


def test_the_same_event_twice_under_one_epoch_and_one_name_for_two_events_are_duplicates() -> None:
    clean = history([1000])
    first = clean.deliveries[0]
    again = replace(clean, deliveries=[*clean.deliveries, replace(first, seq=10_000)])
    renamed = replace(clean, deliveries=[*clean.deliveries, replace(first, event=10_000)])
    assert (again.judge().duplicates, renamed.judge().duplicates) == (1, 1)
    assert clean.judge().duplicates == 0
    assert clean.judge().replayed == 6


@pytest.mark.parametrize(("gap_ms", "kept"), [(T_MS + 1500, True), (T_MS + 1501, False)])
def test_a_takeover_may_take_the_lease_and_a_second_and_a_half(gap_ms: int, kept: bool) -> None:
    assert (history([10, gap_ms]).broken() == []) is kept


def test_a_shard_that_never_streams_again_breaks_the_promise_of_the_takeover() -> None:
    clean = history([1000, 2000])
    successor = clean.successor()
    gone = tuple(each for each in clean.record.connections if each is not successor)
    verdict = replace(clean, record=replace(clean.record, connections=gone)).judge()
    assert [gap.length_ms for gap in verdict.gaps] == [None, 2000.0]
    assert not promises(verdict, T_MS)[0].kept


def test_a_kill_that_cut_nothing_shows_nothing() -> None:
    assert [promise.kept for promise in promises(history([]).judge(), T_MS)] == [False, True, True, True, True, True]


def test_an_empty_history_keeps_no_promise_about_events_or_takeovers() -> None:
    verdict = judge(FeedRecord(Schedule(START, 20), ()), [], KILL)
    assert [promise.kept for promise in promises(verdict, T_MS)] == [False, False, True, False, True, True]


def test_a_survivor_that_goes_without_a_close_frame_is_found_and_the_killed_one_is_excused() -> None:
    clean = history([1000])
    assert clean.judge().unclean == ()
    rude = clean.with_changed(clean.successor(), code=1006)
    assert len(rude.judge().unclean) == 1


@given(st.integers(0, 1000), st.integers(0, 10**12))
def test_an_event_is_due_exactly_from_its_instant_on(rate: int, elapsed_ns: int) -> None:
    schedule = Schedule(START, rate)
    newest = schedule.due(START + elapsed_ns)
    if rate:
        assert schedule.at_ns(newest) <= START + elapsed_ns < schedule.at_ns(newest + 1)
    else:
        assert newest == 0


@given(st.integers(-5, 2000), st.integers(0, 60_000))
def test_a_client_can_ask_for_no_more_than_the_feed_remembers(wanted: int, elapsed_ms: int) -> None:
    schedule = Schedule(START, 20, keep=100)
    now = START + elapsed_ms * MS
    first = schedule.first(wanted, now)
    assert max(1, schedule.due(now) - 99) <= first <= schedule.due(now) + 1
    assert schedule.first(None, now) == schedule.due(now) + 1


def test_a_torn_line_of_the_sink_is_no_delivery() -> None:
    line = json.dumps({"shard": "demo/0", "epoch": 3, "seq": 1, "data": json.dumps({"seq": 7})}).encode()
    assert delivery(line) == Delivery("demo/0", 3, 1, 7)
    assert [delivery(line[:end]) for end in range(len(line))] == [None] * len(line)
    assert delivery(b'{"shard":"a","epoch":3,"seq":1,"data":"[]"}') is None


def test_a_growing_file_hands_out_each_whole_line_once(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "events")
    assert growing.lines() == []
    with (tmp_path / "events").open("ab", buffering=0) as file:
        file.write(b"one\ntw")
        assert growing.lines() == [b"one"]
        assert growing.lines() == []
        file.write(b"o\n\n")
        assert growing.lines() == [b"two", b""]


def test_a_record_that_does_not_begin_as_one_is_refused() -> None:
    with pytest.raises(ValueError, match="no line 'started'"):
        feed_record([])
