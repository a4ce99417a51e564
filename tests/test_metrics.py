"""What is counted, and how it looks to Prometheus."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.core import leaseset, model
from supervisor.core.phases import Dying, Releasing, Shard
from supervisor.core.state import State
from supervisor.metrics import families
from supervisor.metrics.families import FAMILIES
from supervisor.metrics.gauges import COUNTED
from supervisor.records import Lease
from supervisor.writes import Applied, PutMember, Renew, Unknown
from tests import engines, promtool
from tests.core import (
    ME,
    OTHER,
    RULES,
    free,
    held,
    lease,
    member,
    mine,
    moment,
    ns,
    report,
    shard,
    snapshot,
    state,
    tenure,
)
from tests.metrics import NOW_S, Bench, loaded, read

ROOT = Path(__file__).resolve().parent.parent
HOSTILE = ('a"b\\c\nd', "\\n", "ключ/🔑", "tab\t cr\r", 'x{y="z"} 1', "half \ud83d of a pair", "")
MESSAGES = "tenured_shard_messages_total"


# --- the page ---------------------------------------------------------------------------------------------


def test_the_linter_of_prometheus_has_no_complaint_whatever_the_shards_are_called() -> None:
    checked = promtool.promtool(
        engines.promtool_folder(), "check", "metrics", given=loaded("s/0", *HOSTILE).metrics.render()
    )
    assert (checked.returncode, checked.stdout.decode()) == (0, "")


def test_what_is_shown_is_what_the_list_of_metrics_says_with_a_value_for_each() -> None:
    page = loaded("s/0").page()
    shown = {name: family for name, family in page.items() if not name.startswith("process_")}
    assert {name: (family.type, family.documentation) for name, family in shown.items()} == {
        family.name: (family.kind, family.meaning) for family in FAMILIES
    }
    assert [name for name, family in shown.items() if not family.samples] == []


def test_every_label_has_one_of_the_values_on_its_list() -> None:
    page = loaded("s/0").page()
    strays = [
        (family.name, label, value)
        for family in FAMILIES
        for sample in page[family.name].samples
        for label, value in sample.labels.items()
        if label != "le" and family.labels[label] and value not in family.labels[label]
    ]
    assert strays == []


def test_hostile_names_come_back_as_they_were() -> None:
    names = {sample.labels["shard"] for sample in loaded(*HOSTILE).page()["tenured_shard_up"].samples}
    assert names == {*HOSTILE, "lost/0"} - {HOSTILE[5]} | {"half ? of a pair"}


def test_there_is_a_page_before_the_first_step() -> None:
    page = Bench().page()
    assert page["tenured_claims_won_total"].samples
    assert "tenured_shard_up" not in page


def test_a_page_is_kept_for_a_second_however_many_ask() -> None:
    bench = loaded("s/0")
    first = bench.metrics.render()
    bench.metrics.killed("lost", 1)
    bench.clock.seconds += 0.9
    assert bench.metrics.render() is first
    bench.clock.seconds += 0.2
    assert bench.metrics.render() != first


def test_pages_rendered_while_the_loop_counts_are_whole_and_never_go_back() -> None:
    bench = Bench(state(mine("s/0")))
    done = threading.Event()
    pages: list[bytes] = []

    def scrape() -> None:
        while not done.is_set():
            bench.clock.seconds += 1
            pages.append(bench.metrics.render())

    thread = threading.Thread(target=scrape)
    thread.start()
    epoch = 1
    while len(pages) < 20:
        bench.metrics.reported({"s/0": report(0, epoch=epoch, messages=7)})
        bench.metrics.heard(model.Exited("s/0", epoch, report(0, epoch=epoch, messages=9)))
        bench.metrics.heard(model.RowRead("s/0", None, 0))
        epoch += 1
    done.set()
    thread.join(30)
    counted = [read(page)[MESSAGES].samples[0].value for page in pages]
    assert len(counted) >= 20
    assert counted == sorted(counted)


# --- shards -----------------------------------------------------------------------------------------------


def test_a_shard_shows_its_connections_its_silence_and_what_is_left_of_its_lease() -> None:
    bench = Bench(state(held()))
    counted = {name: number for number, name in enumerate(COUNTED, 10)}
    sink = {"sink_waiting_bytes": 4096, "sink_stalled_ns": ns(1)}
    bench.metrics.reported({"s/0": report(3, open=2, want=3, last_event_ns=ns(1.5), **sink, **counted)})
    shown = {
        name: samples[0].value
        for name, family in bench.page().items()
        if name.startswith("tenured_shard_") and (samples := family.samples)
    }
    assert shown == {
        "tenured_shard_up": 1,
        "tenured_shard_epoch": 8,
        "tenured_shard_connections_open": 2,
        "tenured_shard_connections_wanted": 3,
        "tenured_shard_quiet_seconds": 2.5,
        "tenured_shard_renewal_age_seconds": 4,
        "tenured_shard_deadline_left_seconds": 5,
        "tenured_shard_sink_waiting_bytes": 4096,
        "tenured_shard_sink_stalled_seconds": 3,
        "tenured_shard_messages_total": counted["messages"],
        "tenured_shard_message_bytes_total": counted["bytes"],
        "tenured_shard_connects_total": counted["connects"],
        "tenured_shard_handler_errors_total": counted["handler_errors"],
        "tenured_shard_sequence_gaps_total": counted["gaps"],
        "tenured_shard_protocol_violations_total": counted["violations"],
        "tenured_shard_silences_total": counted["silences"],
        "tenured_shard_checkpoints_dropped_total": counted["tokens_dropped"],
        "tenured_shard_events_dropped_total": counted["events_dropped"],
        "tenured_shard_sink_retries_total": counted["sink_retries"],
        "tenured_shard_restarts_total": 0,
    }


def test_a_sink_that_takes_events_again_is_not_stalled_and_one_without_a_child_waits_for_nothing() -> None:
    bench = Bench(state(held()))
    for reports in ({"s/0": report(3)}, {}):
        bench.metrics.reported(reports)
        for name in ("tenured_shard_sink_stalled_seconds", "tenured_shard_sink_waiting_bytes"):
            assert bench.value(name, shard="s/0") == 0


@pytest.mark.parametrize("stage", ["starting", "stopping", "killing"])
def test_a_shard_is_up_only_while_its_child_runs(stage: str) -> None:
    assert Bench(state(held(stage))).value("tenured_shard_up", shard="s/0") == 0


def test_a_silence_counts_from_the_claim_while_nothing_came() -> None:
    bench = Bench(state(held()))
    bench.metrics.reported({"s/0": report(3)})
    assert bench.value("tenured_shard_quiet_seconds", shard="s/0") == pytest.approx(3.99)


def test_counts_of_a_shard_run_on_over_its_children() -> None:
    bench = Bench(state(mine("s/0")))
    metrics, counted = bench.metrics, []

    def look() -> None:
        counted.append(bench.value(MESSAGES, shard="s/0"))

    metrics.reported({"s/0": report(1, epoch=8, messages=100)})
    look()
    metrics.heard(model.Exited("s/0", 8, report(1, epoch=8, messages=110)))
    look()  # the report of before stands there still
    metrics.heard(model.Exited("s/0", 9, None, "it never came to be"))
    look()
    metrics.reported({})
    look()
    metrics.reported({"s/0": report(2, epoch=10, messages=1)})
    look()
    assert counted == [100, 110, 110, 110, 111]


def test_a_shard_that_is_given_up_disappears_and_goes_on_where_it_was_when_it_comes_back() -> None:
    bench = Bench(state(mine("s/0")))
    bench.metrics.heard(model.Exited("s/0", 8, report(1, epoch=8, messages=5)))
    bench.show(state())
    shard_families = [family for name, family in bench.page().items() if name.startswith("tenured_shard_")]
    assert [sample for family in shard_families for sample in family.samples] == []
    bench.show(state(mine("s/0", epoch=10)))
    assert bench.value(MESSAGES, shard="s/0") == 5


def test_a_shard_that_left_the_configuration_is_forgotten_once_its_child_is_gone() -> None:
    bench = Bench(state(mine("s/0")))
    metrics, without = bench.metrics, replace(RULES, shards={})
    metrics.heard(model.Exited("s/0", 8, report(1, epoch=8, messages=5)))
    metrics.reported({"s/0": report(1, epoch=9, messages=1)})
    metrics.heard(model.Reconfigured(without))
    assert bench.value(MESSAGES, shard="s/0") == 6
    metrics.reported({})
    metrics.heard(model.Reconfigured(without))
    assert bench.value(MESSAGES, shard="s/0") == 0


def exits(bench: Bench, known: State, seconds: float, epoch: int = 8) -> None:
    """A child is seen dead, and the core says what that was."""
    event = model.Exited("s/0", epoch, report(seconds, epoch=epoch))
    after, effects = leaseset.step(known, event, moment(seconds))
    bench.metrics.stepped(after, ns(seconds))
    bench.metrics.heard(event)
    for effect in effects:
        bench.metrics.performed(effect)


def test_crashes_of_a_shard_are_counted_and_stay_while_nobody_owns_it() -> None:
    bench = Bench(state(held()))
    bench.metrics.performed(model.Log("info", "lease.claimed", "s/0", 8, "claimed"))
    assert bench.value("tenured_shard_crashes_total", shard="s/0") == 0
    for seconds in (1, 2):
        exits(bench, state(held()), seconds)
    bench.show(state())
    assert bench.value("tenured_shard_up", shard="s/0") is None
    assert bench.value("tenured_shard_crashes_total", shard="s/0") == 2


@pytest.mark.parametrize("known", [held("stopping", crashed=False), held(release=True), shard(Dying(8, ns(0), "lost"))])
def test_a_death_that_somebody_wanted_is_no_crash_also_not_a_second_time(known: Shard) -> None:
    bench = Bench(state(held()))
    exits(bench, state(held()), 1)
    exits(bench, state(replace(known, crashes=(ns(1),))), 2)
    assert bench.value("tenured_shard_crashes_total", shard="s/0") == 1


def test_crashes_are_forgotten_with_the_shard() -> None:
    bench = Bench(state(held()))
    exits(bench, state(held()), 1)
    bench.metrics.heard(model.Reconfigured(replace(RULES, shards={})))
    assert bench.value("tenured_shard_crashes_total", shard="s/0") is None


def test_restarts_are_told_by_shard_and_claims_of_others_are_none() -> None:
    bench = Bench(state(mine("s/0")))
    for reason in ("expired", "restart", "restart"):
        bench.metrics.performed(model.Log("info", "lease.claimed", "s/0", 8, reason))
    assert bench.value("tenured_shard_restarts_total", shard="s/0") == 2
    assert bench.value("tenured_claims_won_total", reason="expired") == 1
    assert bench.value("tenured_claims_won_total", reason="restart") == 2


def test_shards_are_counted_by_where_they_stand() -> None:
    releasing = replace(mine("s/1"), phase=Releasing(tenure(), "stopped", ns(1)))
    bench = Bench(state(mine("s/0", stage="starting"), releasing))
    page = bench.page()["tenured_shards"].samples
    assert {sample.labels["phase"]: sample.value for sample in page if sample.value} == {"starting": 1, "releasing": 1}


# --- the fleet --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "unowned_s"),
    [
        (free(), NOW_S),
        (None, NOW_S),
        (lease(duration_ms=2000), NOW_S - 2),  # it promised two seconds and stood still
        (lease(duration_ms=10_000), None),
        (free(paused=True), None),
        ("no epoch", NOW_S),
    ],
    ids=["free", "missing", "expired", "owned", "paused", "bad"],
)
def test_a_configured_shard_without_a_live_owner_is_named_with_for_how_long(
    row: Lease | str | None, unowned_s: float | None
) -> None:
    bench = Bench()
    rows = [row] if isinstance(row, Lease) else []
    bad = {"s/0": row} if isinstance(row, str) else {}
    bench.show(state(), snapshot(member(), *rows, lease(shard="s/1"), bad=bad))
    assert bench.value("tenured_shard_unowned_seconds", shard="s/0") == unowned_s


def test_a_shard_of_ours_or_of_nobodys_configuration_is_not_named_as_unowned() -> None:
    bench = Bench()
    bench.show(state(held(), mine("s/1")), snapshot(free(), free(shard="else/0"), lease(shard="s/1")))
    assert bench.page()["tenured_shard_unowned_seconds"].samples == []


def test_who_cannot_reach_the_store_takes_nobody_for_dead() -> None:
    bench = Bench()
    bench.show(state(), snapshot(lease(), lease(shard="s/1")))
    bench.clock.seconds += 3600
    page = bench.page()
    assert page["tenured_shard_unowned_seconds"].samples == []
    assert page["tenured_snapshot_age_seconds"].samples[0].value == 3601


def test_paused_shards_and_rows_that_do_not_parse_are_counted() -> None:
    bench = Bench()
    bench.show(state(), snapshot(free(paused=True), free(shard="else/0", paused=True), bad={"s/1": "no epoch"}))
    assert bench.value("tenured_paused_shards") == 1
    assert bench.value("tenured_bad_rows") == 1


def test_it_is_told_who_this_is() -> None:
    rules = replace(RULES, fleet="f", host="h", digest="d")
    labels = {"supervisor": ME, "fleet": "f", "host": "h", "version": "1.0", "config": "d"}
    assert Bench(state(rules=rules)).value("tenured_supervisor_info", **labels) == 1


def test_the_stage_is_the_one_that_is_1() -> None:
    samples = Bench(state(stage="draining")).page()["tenured_stage"].samples
    assert {sample.labels["stage"] for sample in samples if sample.value} == {"draining"}
    assert len(samples) == len(families.STAGES)


def test_the_poll_interval_in_force_is_shown_not_the_configured_one() -> None:
    assert Bench(state(moving_members=20)).value("tenured_poll_interval_seconds") == pytest.approx(10 / 3, rel=0.01)
    assert Bench(state(moving_members=600)).value("tenured_poll_interval_seconds") == 5


def test_of_the_durations_in_force_the_shortest_and_the_longest_are_shown() -> None:
    old = [mine("s/0"), mine("s/1")]
    old = [
        replace(shard, phase=replace(shard.phase, tenure=replace(shard.phase.tenure, duration_ns=ns(seconds) - ns(0))))
        for shard, seconds in zip(old, (6, 30), strict=True)
    ]
    for known, shortest, longest in ((state(), 10, 10), (state(*old), 6, 30), (state(old[0]), 6, 10)):
        bench = Bench(known)
        assert bench.value("tenured_lease_duration_seconds") == 10
        assert bench.value("tenured_shortest_lease_seconds") == shortest
        assert bench.value("tenured_longest_lease_seconds") == longest
        assert bench.value("tenured_renew_interval_seconds") == pytest.approx(shortest / 3, abs=0.001)


# --- counting ---------------------------------------------------------------------------------------------


def test_writes_are_counted_by_kind_and_outcome() -> None:
    bench = Bench(state())
    renew = Renew("s/0", ME, 8, 0, 0, 1, "n", 1, 1, None, "fence", None, 0)
    for write, outcome in ((renew, Unknown("x")), (renew, Applied()), (PutMember(member()), Applied())):
        bench.metrics.heard(model.Answered(write, outcome))
    counted = {
        (sample.labels["kind"], sample.labels["outcome"]): sample.value
        for sample in bench.page()["tenured_store_writes_total"].samples
        if sample.value
    }
    assert counted == {("renew", "unknown"): 1, ("renew", "applied"): 1, ("put_member", "applied"): 1}


def test_reads_are_counted_by_kind_and_outcome() -> None:
    bench = Bench(state())
    for event in (
        model.RowRead("s/0", None, 0),
        model.ReadFailed("s/0", "x"),
        model.Snapshotted(snapshot(), 0),
        model.SnapshotFailed("x"),
        model.Proved(member()),
        model.ProofFailed("x"),
    ):
        bench.metrics.heard(event)
    samples = bench.page()["tenured_store_reads_total"].samples
    assert {(sample.labels["kind"], sample.labels["outcome"]) for sample in samples if sample.value == 1} == {
        (kind, outcome) for kind in families.READS for outcome in families.ANSWERS
    }


def test_lost_fenced_and_conflicts_are_told_apart_and_what_concerns_no_lease_is_none() -> None:
    bench = Bench(state())
    bench.metrics.performed(model.Log("error", "lease.lost", "s/0", 8, f"{OTHER} owns epoch 9"))
    bench.metrics.performed(model.Log("error", "lease.fenced", "s/0", 8, "nothing was renewed for 9.0 s"))
    bench.metrics.performed(model.Log("error", "lease.conflict", reason="going on under another id"))
    counted = {s.labels["reason"]: s.value for s in bench.page()["tenured_lease_failures_total"].samples}
    assert counted == {"lost": 1, "fenced": 1, "conflict": 0}


def test_releases_are_counted_by_the_word_that_says_why() -> None:
    bench = Bench(state())
    for reason in ("moved", "moved; it was no longer ours", "crashed"):
        bench.metrics.performed(model.Log("info", "lease.released", "s/0", 8, reason))
    assert bench.value("tenured_releases_total", reason="moved") == 2
    assert bench.value("tenured_releases_total", reason="crashed") == 1


def test_kills_are_counted_by_reason_with_the_time_each_took() -> None:
    bench = Bench(state())
    bench.metrics.killed("lost", 1.5)
    bench.metrics.killed(f"{OTHER} owns epoch 9", 40)
    assert bench.value("tenured_kills_total", reason="lost") == 1
    assert bench.value("tenured_kills_total", reason=families.OTHER) == 1
    samples = {(s.name, s.labels.get("le", "")): s.value for s in bench.page()["tenured_kill_latency_seconds"].samples}
    assert samples["tenured_kill_latency_seconds_bucket", "0.001"] == 0
    assert samples["tenured_kill_latency_seconds_bucket", "0.0025"] == 1
    assert samples["tenured_kill_latency_seconds_bucket", "0.05"] == 2
    assert samples["tenured_kill_latency_seconds_count", ""] == 2
    assert samples["tenured_kill_latency_seconds_sum", ""] == pytest.approx(0.0415)


def test_an_observation_at_a_bound_is_within_it_and_one_beyond_all_is_counted() -> None:
    bench = Bench(state())
    for seconds in (0.001, 60, -1):
        bench.metrics.loop_lag(seconds)
    samples = {s.labels["le"]: s.value for s in bench.page()["tenured_loop_lag_seconds"].samples if "le" in s.labels}
    assert (samples["0.001"], samples["5.0"], samples["+Inf"]) == (2, 2, 3)


def test_reloads_are_counted_and_the_last_one_is_judged() -> None:
    bench = Bench(state())
    assert bench.value("tenured_config_last_reload_successful") == 1
    accepted_s = bench.value("tenured_config_last_reload_success_timestamp_seconds")
    bench.metrics.heard(model.ReloadRejected("no store"))
    assert bench.value("tenured_config_last_reload_successful") == 0
    assert bench.value("tenured_config_last_reload_success_timestamp_seconds") == accepted_s
    bench.metrics.heard(model.Reconfigured(RULES))
    assert bench.value("tenured_config_last_reload_successful") == 1
    assert bench.value("tenured_config_reloads_total", outcome="applied") == 1
    assert bench.value("tenured_config_reloads_total", outcome="rejected") == 1


def test_lines_of_the_log_that_were_lost_are_counted() -> None:
    bench = Bench(state())
    assert bench.value("tenured_log_lines_dropped_total") == 0
    bench.metrics.reported({}, lines_dropped=7)
    assert bench.value("tenured_log_lines_dropped_total") == 7


def test_starts_and_exits_are_counted_once_each() -> None:
    bench = Bench(state())
    bench.metrics.performed(model.Start("s/0", 8, 0, None))
    bench.metrics.heard(model.Exited("s/0", 8, None, "no start"))
    assert bench.value("tenured_children_started_total") == 1
    assert bench.value("tenured_children_exited_total") == 1


# --- lists that must keep up ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "listed"),
    [
        (r'\bKill\([^"\n]*"([a-z-]+)"', families.KILLS),
        (r'\b(?:lease\.)?kill\([^"\n]*"([a-z-]+)"', families.KILLS),
        (r'\b(?:lease\.)?release\([^"\n]*"([a-z-]+)"', families.RELEASES),
    ],
)
def test_the_reasons_that_the_core_gives_are_on_the_lists(pattern: str, listed: tuple[str, ...]) -> None:
    core = (ROOT / "supervisor" / "core").glob("*.py")
    found = {reason for path in core for reason in re.findall(pattern, path.read_text())}
    assert found
    assert found - set(listed) == set()
