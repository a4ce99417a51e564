"""The fault campaign: its schedule, its judge (which must find what is planted), and a short run on each store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from supervisor.demo.record import Connection, FeedRecord
from supervisor.demo.schedule import Schedule
from tests.process.campaign import run as course
from tests.process.campaign.history import history
from tests.process.campaign.judge import START_UP_NS, Judgement, judge, percentile, without
from tests.process.campaign.report import tell
from tests.process.campaign.schedule import CALM, DECKS, DOWN, ROUND_S, plan
from tests.process.campaign.sink import arrivals
from tests.process.campaign.story import SECOND_NS, Arrival, Life, Owning, Story, Strike
from tests.process.campaign.watch import owning_of
from tests.process.host import alive
from tests.wait import until

ROOT = Path(__file__).parents[2]
ZERO = 1000 * SECOND_NS  # the instant at which the made-up stories begin
LEASE_S = 3.0


# --- the schedule -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", sorted(DECKS))
def test_a_seed_gives_one_schedule_with_every_kind_and_durations_on_both_sides_of_the_lease(store: str) -> None:
    made = plan(7, DECKS[store], 300, 600, 3, 12, LEASE_S)
    assert made == plan(7, DECKS[store], 300, 600, 3, 12, LEASE_S)
    assert made != plan(8, DECKS[store], 300, 600, 3, 12, LEASE_S)
    assert len(made) == 300
    assert {each.kind for each in made} == set(DECKS[store])
    lasting = [each.lasts_s for each in made if each.kind not in DOWN]
    assert sum(lasts_s < LEASE_S for lasts_s in lasting) > 90
    assert sum(lasts_s > LEASE_S for lasts_s in lasting) > 90
    assert {each.supervisor for each in made} == {0, 1, 2}
    assert {each.shard for each in made} == set(range(12))


def test_every_round_of_a_schedule_ends_in_a_calm_and_no_fault_is_planned_beyond_its_end() -> None:
    made = plan(3, DECKS["sqlite"], 500, 100, 3, 12, LEASE_S)
    assert [each.at_s for each in made] == sorted(each.at_s for each in made)
    assert max(each.at_s % ROUND_S for each in made) <= ROUND_S * (1 - CALM)
    assert max(each.at_s for each in made) <= 100


# --- the judge --------------------------------------------------------------------------------------------


def at(seconds: float) -> int:
    return ZERO + round(seconds * SECOND_NS)


def connection(number: int, epoch: int, supervisor: str, opened_s: float, closed_s: float) -> Connection:
    return Connection(number, "s/0", epoch, supervisor, at(opened_s), at(closed_s), 1006)


def stream(supervisor: str, epoch: int, from_s: float, to_s: float) -> list[Arrival]:
    """An event every tenth of a second."""
    instants = [from_s + index / 10 for index in range(round((to_s - from_s) * 10))]
    return [Arrival(supervisor, "s/0", epoch, seq, seq, at(instant)) for seq, instant in enumerate(instants, 1)]


def takeover(down_s: float = 10.0, up_s: float = 13.5, until_s: float = 20.0) -> Story:
    """Supervisor a owns the only shard and is killed at `down_s`; b streams from `up_s` on, a is back at 16 s."""
    return Story(
        shards=("s/0",),
        lease_ns=3 * SECOND_NS,
        began_ns=ZERO,
        ended_ns=at(until_s),
        feed=FeedRecord(
            Schedule(ZERO, 10),
            (connection(1, 5, "a", -1, down_s + 0.01), connection(2, 6, "b", up_s - 0.05, until_s)),
        ),
        arrivals=(*stream("a", 5, 0.0, down_s), *stream("b", 6, up_s, until_s)),
        lives=(
            Life("a", 100, at(-5), at(down_s + 0.02), -9, asked=True),
            Life("b", 200, at(-5)),
            Life("a", 300, at(16)),
        ),
        strikes=(Strike("kill", at(down_s), at(16), "a"),),
        ownings=(
            Owning("s/0", at(-1), 100, 5, "epoch 5, owner vm:100:x"),
            Owning("s/0", at(up_s - 0.2), 200, 6, "epoch 6, owner vm:200:x"),
        ),
    )


def rules(found: Judgement) -> set[str]:
    return {each.rule for each in found.violations}


def test_a_takeover_keeps_every_promise_and_its_clock_starts_at_the_kill() -> None:
    found = judge(takeover())
    assert rules(found) == set()
    (recovery,) = found.recoveries
    assert recovery.took_s == pytest.approx(3.5)
    assert recovery.cause == "kill"


def test_connections_of_two_epochs_at_once_are_an_overlap_however_short() -> None:
    story = takeover()
    kept, taken = story.feed.connections
    longer = replace(kept, closed_ns=taken.opened_ns + 1)
    found = judge(replace(story, feed=replace(story.feed, connections=(longer, taken))))
    assert rules(found) == {"overlap"}
    assert "epoch 5 at a was open for another" in found.violations[0].text


def test_an_epoch_that_connects_after_a_higher_one_went_back() -> None:
    story = takeover()
    late = connection(3, 5, "a", 30, 31)
    connections = (*story.feed.connections, late)
    assert rules(judge(replace(story, feed=replace(story.feed, connections=connections)))) == {"epoch back"}


def test_an_event_that_was_received_after_the_first_of_a_higher_epoch_is_stale() -> None:
    story = takeover()
    stale = Arrival("a", "s/0", 5, 999, 999, at(13.6))
    found = judge(replace(story, arrivals=(*story.arrivals, stale)))
    assert rules(found) == {"stale"}
    assert "epoch 5 seq 999 was received 100.0 ms after" in found.violations[0].text
    in_time = replace(stale, at_ns=at(13.5) - 1)
    assert rules(judge(replace(story, arrivals=(*story.arrivals, in_time)))) == set()


def test_a_line_below_one_of_a_higher_epoch_in_the_same_sink_went_back() -> None:
    story = takeover()
    below = Arrival("b", "s/0", 4, 1, 1, at(-1))
    assert rules(judge(replace(story, arrivals=(*story.arrivals, below)))) == {"epoch back"}


def test_a_shard_that_is_served_late_although_somebody_is_able_is_slow() -> None:
    found = judge(takeover(up_s=10 + 2 * LEASE_S + 2 + 5.5, until_s=40))
    assert rules(found) == {"slow"}
    assert found.violations[0].text == "not served for 13.50 s, expected 13 s"


def test_a_shard_that_is_never_served_again_is_slow_even_when_later_faults_hide_its_end() -> None:
    story = takeover(up_s=59, until_s=60)
    strikes = (*story.strikes, Strike("lock-all", at(30), at(58.9)))
    (recovery,) = judge(replace(story, strikes=strikes)).recoveries
    assert recovery.took_s == pytest.approx(20)


def test_troubles_of_the_story_are_violations() -> None:
    assert rules(judge(replace(takeover(), troubles=("b exited with 70 by itself",)))) == {"trouble"}


@pytest.mark.parametrize(
    ("strike", "took_s", "cause"),
    [
        (Strike("lock-all", at(9), at(12)), 1.5, "lock-all"),  # the store was out for everybody
        (Strike("hang", at(9), at(12.5), "b"), 1.0, "kill"),  # the only other one was out until then
        (Strike("garble", at(9.9), at(12.5), "", "s/0"), 1.0, "garble"),
        (Strike("kill-child", at(11.5), at(11.5), "", "s/0"), 2.0, "kill-child"),
        (Strike("kill-server", at(12), at(12), "b"), 2.0, "kill"),  # cuts the clock of b, and 2 s had passed
    ],
)
def test_the_clock_of_a_recovery_runs_only_while_one_is_able_and_the_shard_is_not_struck(
    strike: Strike, took_s: float, cause: str
) -> None:
    story = takeover()
    (recovery,) = judge(replace(story, strikes=(*story.strikes, strike))).recoveries
    assert recovery.took_s == pytest.approx(took_s, abs=0.001)
    assert recovery.cause == cause


def test_an_able_supervisor_keeps_the_clock_running_whatever_strikes_the_others() -> None:
    story = takeover()
    third = Life("c", 400, at(-5))
    hangs = Strike("hang", at(9), at(13), "b")
    (recovery,) = judge(replace(story, lives=(*story.lives, third), strikes=(*story.strikes, hangs))).recoveries
    assert recovery.took_s == pytest.approx(3.5)


def test_the_clock_starts_anew_when_a_struck_supervisor_claims() -> None:
    story = takeover(up_s=16.5, until_s=30)
    third = Life("c", 400, at(-5))
    claimed = Owning("s/0", at(13.2), 200, 6, "epoch 6, owner vm:200:x")
    ownings = (story.ownings[0], claimed, Owning("s/0", at(16.4), 400, 7, "epoch 7, owner vm:400:x"))
    hangs = Strike("eat-answers", at(9), at(25), "b")
    (recovery,) = judge(
        replace(story, lives=(*story.lives, third), strikes=(*story.strikes, hangs), ownings=ownings)
    ).recoveries
    assert recovery.took_s == pytest.approx(3.3)
    assert recovery.cause == "eat-answers"


def test_a_missing_row_is_counted_apart_from_the_recovery_that_follows_it() -> None:
    story = takeover()
    gone = Owning("s/0", at(10), None, None, "no row")
    again = Owning("s/0", at(13), None, 7, "epoch 7, free")
    found = judge(replace(story, ownings=(story.ownings[0], gone, again, story.ownings[1])))
    (recovery,) = found.recoveries
    assert (recovery.took_s, recovery.cause) == (pytest.approx(0.5), "delete")
    assert found.missing_s == (pytest.approx(3.0),)


def test_a_locked_store_is_excused_only_by_our_locks_and_by_whoever_was_frozen_just_before() -> None:
    lock, freeze = Strike("lock-all", at(1), at(3)), Strike("freeze", at(3.2), at(6), "a")
    busy = Strike("stuck-store", at(1.1), at(6.1))
    assert list(course.excused([busy], [lock, freeze])) == [Strike("stuck-store", at(3), at(6.1))]
    assert list(course.excused([busy], [lock])) == []
    assert list(course.excused([busy], [lock, replace(freeze, began_ns=at(5))])) == []


def test_a_supervisor_that_has_just_started_is_not_able_yet() -> None:
    story = takeover()
    b = Life("b", 200, at(11))
    (recovery,) = judge(replace(story, lives=(story.lives[0], b, story.lives[2]))).recoveries
    assert recovery.took_s == pytest.approx(2.5 - START_UP_NS / SECOND_NS)


def test_an_outage_in_which_nobody_was_able_and_a_shard_that_was_not_touched_give_no_recovery() -> None:
    story = takeover()
    found = judge(replace(story, strikes=(*story.strikes, Strike("lock-all", at(9), at(14)))))
    assert (found.outages, found.recoveries) == (1, ())
    untouched = takeover(down_s=19.9, up_s=20)
    assert judge(untouched).outages == 0


def test_spans_lose_what_lies_in_holes_and_are_cut_by_those_of_no_length() -> None:
    assert without([(0, 10)], [(2, 3), (5, 5), (9, 20)]) == [(0, 2), (3, 5), (5, 9)]
    assert without([(0, 10)], [(0, 10)]) == []
    assert without([(4, 6)], [(0, 1), (8, 9)]) == [(4, 6)]


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, part) for part in (0.5, 0.99, 1)] == [50, 99, 100]
    assert percentile([4.0], 0.99) == 4
    assert percentile([], 0.99) == 0


# --- what it reads and shows ------------------------------------------------------------------------------


def test_a_sink_is_read_in_its_order_without_its_torn_lines(tmp_path: Path) -> None:
    line = {"shard": "s/0", "epoch": 3, "seq": 1, "connection": 0, "received_at": "1970-01-01T00:00:02.000001Z"}
    sink = tmp_path / "events.jsonl"
    sink.write_text(
        json.dumps(line | {"data": '{"seq": 9}'})
        + '\n{"shard":"s/0","epo\n'
        + json.dumps(line | {"seq": 2, "data": '{"seq": 10}'})
        + "\n"
    )
    first, second = arrivals("a", sink, 5)
    assert first == Arrival("a", "s/0", 3, 1, 9, 2_000_001_000 + 5)
    assert (second.seq, second.event) == (2, 10)
    assert list(arrivals("a", tmp_path / "none", 0)) == []


def test_an_owner_is_known_by_the_pid_in_its_id() -> None:
    row = {"owner": "host:123:0123abcd", "epoch": 4}
    assert owning_of("s/0", row, 1) == Owning("s/0", 1, 123, 4, "epoch 4, owner host:123:0123abcd")
    assert owning_of("s/0", {"owner": "", "epoch": "rubbish"}, 1).pid is None
    assert owning_of("s/0", {"owner": None, "epoch": 4}, 1).text == "epoch 4, free"
    assert owning_of("s/0", None, 1).text == "no row"


def test_the_history_around_an_instant_names_faults_connections_and_rows_in_their_order() -> None:
    shown = history(takeover(), "s/0", at(12), at(12))
    kinds = [text.split()[2] for text in shown]
    assert kinds == ["FAULT", "FEED", "LIFE", "ROW", "FEED", "FAULT", "LIFE"]
    assert shown[0].split() == ["10.000", "s", "FAULT", "kill", "of", "a"]


def test_a_violation_fails_the_campaign_and_says_what_happened_around_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "log").write_text("")
    assert tell("sqlite", takeover(), tmp_path)
    assert not tell("sqlite", takeover(up_s=24, until_s=40), tmp_path)
    said = capsys.readouterr().out
    assert "SLOW s/0 at 24.000 s: not served for 14.00 s" in said
    assert "FAULT   kill of a" in said
    assert "FEED    epoch 6 connects at b" in said
    assert str(tmp_path) in said


# --- a short one ------------------------------------------------------------------------------------------


@pytest.mark.alone
@pytest.mark.parametrize("store", sorted(DECKS))
def test_random_faults_overlap_nothing_deliver_nothing_stale_and_all_recovers(store: str, tmp_path: Path) -> None:
    options = course.Options(store=store, seconds=14, faults=32, seed=20, lease_s=2.0)
    story = course.run(options, tmp_path)
    well = tell(store, story, tmp_path)
    found = judge(story)
    assert not found.violations, f"see {tmp_path}; the table says whether all was well: {well}"
    assert len([each for each in story.strikes if each.kind != "stuck-store"]) > 15
    assert len(Counter(each.kind for each in story.strikes)) > 8
    assert found.recoveries
    assert max(each.took_s for each in found.recoveries) <= 2 * options.lease_s + 2 + 5


def test_a_campaign_that_is_stopped_leaves_no_process_behind(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("c")  # short, since the path of a socket is
    command = [sys.executable, "-m", "tests.process.campaign", "--minutes", "5", "--seed", "1"]
    environment = os.environ | {"TMPDIR": str(folder)}
    with subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        try:
            itself = psutil.Process(running.pid)
            until(lambda: len(itself.children(recursive=True)) > 3 + 3 + 12, 30, 0.1)
            tree = itself.children(recursive=True)
            running.send_signal(signal.SIGTERM)
            said, _ = running.communicate(timeout=20)
        finally:
            running.kill()
    assert running.returncode == 130
    assert said.endswith("interrupted; every process was ended, and nothing is judged\n")
    until(lambda: not alive(tree), 2)
