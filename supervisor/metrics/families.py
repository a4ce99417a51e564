"""Every metric that a supervisor exposes: its name, type, labels and meaning. The one list, and no code.

What holds: a label other than the name of a shard takes one of the values that stand here, so that the number of series
is bounded by the configuration; a reason that is not on its list counts as `other`. Names, base units and suffixes are
those that Prometheus expects. The documentation's table is compared with this list by a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from supervisor.changes import AGAIN
from supervisor.writes import Claim, Create, DeleteMember, PutMember, Release, Renew, Wish

Labels = Mapping[str, tuple[str, ...]]
"""The values that each label can take; none are listed for one that is bounded by the configuration."""

OTHER = "other"

STAGES = ("looking", "proving", "active", "draining", "over")
PHASES = (
    *("idle", "wanted", "claiming", "starting", "running", "stopping", "killing"),
    *("dying", "vacant", "releasing"),
)
WRITES = {
    Create: "create",
    Claim: "claim",
    Renew: "renew",
    Release: "release",
    PutMember: "put_member",
    DeleteMember: "delete_member",
    Wish: "wish",
}
OUTCOMES = ("applied", "refused", "unknown")
READS = ("row", "snapshot", "probe")
ANSWERS = ("answered", "failed")
CLAIMS = ("claimed", "expired", "reclaimed", *AGAIN, OTHER)
FAILURES = ("lost", "fenced", "conflict")
RELEASES = ("stopped", "crashed", "paused", "moved", "balanced", "crowded", "unconfigured", OTHER)
KILLS = ("lost", "fenced", "hung", "start-timeout", "stop-timeout", "hurried", OTHER)
RELOADS = ("applied", "rejected")


@dataclass(frozen=True, slots=True)
class Family:
    """`kind`: gauge, counter or histogram. `meaning` is one phrase, and becomes the help text."""

    name: str
    kind: str
    meaning: str
    labels: Labels = field(default_factory=dict)


def _gauge(name: str, meaning: str, **labels: tuple[str, ...]) -> Family:
    return Family(name, "gauge", meaning, labels)


def _counter(name: str, meaning: str, **labels: tuple[str, ...]) -> Family:
    return Family(name, "counter", meaning, labels)


INFO = _gauge(
    "tenured_supervisor_info",
    "Always 1; says in its labels which supervisor this is, and of which version and configuration.",
    supervisor=(),
    fleet=(),
    host=(),
    version=(),
    config=(),
)

# Computed when they are asked for, one value for each value of the label, if there is one.
GAUGES = (
    _gauge("tenured_stage", "1 for the stage in which the supervisor is, 0 for the others.", stage=STAGES),
    _gauge("tenured_step_age_seconds", "Time since the loop last took a step."),
    _gauge("tenured_lease_duration_seconds", "Configured duration of a lease."),
    _gauge(
        "tenured_shortest_lease_seconds",
        "Shortest duration in force here: the configured one, or that of a lease that was claimed before a reload.",
    ),
    _gauge("tenured_longest_lease_seconds", "Longest duration in force here, in the same way."),
    _gauge("tenured_renew_interval_seconds", "Time between two rounds of renewals, as the leases in force need it."),
    _gauge("tenured_poll_interval_seconds", "Poll interval in force, which grows with the fleet."),
    _gauge("tenured_store_reachable", "1 if the last call to the store was answered, else 0."),
    _gauge("tenured_store_answer_age_seconds", "Time since the store last answered anything."),
    _gauge("tenured_snapshot_age_seconds", "Age of the last complete snapshot of the store; absent before the first."),
    _gauge("tenured_live_members", "Live supervisors of the fleet in the last snapshot, this one included."),
    _gauge("tenured_capacity_shards", "How many shards this supervisor may own."),
    _gauge("tenured_configured_shards", "How many shards are configured here."),
    _gauge("tenured_shards", "Shards by where they stand at this supervisor.", phase=PHASES),
    _gauge("tenured_homeless_shards", "Shards without an owner for which nobody had room in the last snapshot."),
    _gauge("tenured_paused_shards", "Configured shards that were paused in the last snapshot."),
    _gauge("tenured_bad_rows", "Rows of the store that did not parse in the last snapshot."),
    _gauge("tenured_stuck_calls", "Calls to the store that are past their deadline and still hold a thread."),
    _gauge("tenured_fork_servers", "Fork servers that run: one, two during a reload, none while one is replaced."),
    _gauge(
        "tenured_config_last_reload_successful", "1 if the configuration was accepted when it was last read, else 0."
    ),
    _gauge("tenured_config_last_reload_success_timestamp_seconds", "When a configuration was last accepted."),
)

COUNTERS = (
    _counter(
        "tenured_store_writes_total",
        "Writes to the store by kind and outcome; one that is answered late counts as unknown and once more.",
        kind=(*WRITES.values(), OTHER),
        outcome=OUTCOMES,
    ),
    _counter("tenured_store_reads_total", "Reads of the store by kind and outcome.", kind=READS, outcome=ANSWERS),
    _counter("tenured_claims_won_total", "Claims won, by why the shard could be claimed.", reason=CLAIMS),
    _counter(
        "tenured_lease_failures_total",
        "Leases that failed us: lost to somebody else, fenced at the deadline, or in conflict with a copy.",
        reason=FAILURES,
    ),
    _counter("tenured_releases_total", "Leases given up, by reason.", reason=RELEASES),
    _counter("tenured_kills_total", "Children that were killed and seen dead, by reason.", reason=KILLS),
    _counter("tenured_children_started_total", "Children asked for."),
    _counter("tenured_children_exited_total", "Children seen dead, those included that never came to be."),
    _counter("tenured_log_lines_dropped_total", "Lines of the log that were lost since stderr was not read in time."),
    _counter("tenured_config_reloads_total", "Reloads of the configuration, by what became of them.", outcome=RELOADS),
)

KILL_LATENCY = Family(
    "tenured_kill_latency_seconds",
    "histogram",
    "Time from the answer or deadline that made a kill necessary to the death that was seen.",
)
LOOP_LAG = Family("tenured_loop_lag_seconds", "histogram", "How much later than planned the loop turned.")

UNOWNED = _gauge(
    "tenured_shard_unowned_seconds",
    "For how long, at the last snapshot, a shard configured here had no live owner; absent if it has one or is paused.",
    shard=(),
)

CRASHES = _counter(
    "tenured_shard_crashes_total",
    "Children that ended by themselves, hung, or did not start in time; stays while the shard is not ours.",
    shard=(),
)

# One value for each shard that is ours, in this order.
PER_SHARD = (
    _gauge("tenured_shard_up", "1 if the lease is held and its child runs, else 0.", shard=()),
    _gauge("tenured_shard_epoch", "Epoch of the lease.", shard=()),
    _gauge("tenured_shard_connections_open", "Connections that are open.", shard=()),
    _gauge("tenured_shard_connections_wanted", "Connections that are configured.", shard=()),
    _gauge(
        "tenured_shard_quiet_seconds",
        "Time since the last message, or since the lease was won if none came.",
        shard=(),
    ),
    _gauge(
        "tenured_shard_renewal_age_seconds",
        "Time since the sending of the last claim or renewal that is known to be applied.",
        shard=(),
    ),
    _gauge(
        "tenured_shard_deadline_left_seconds",
        "Time until the fence deadline; absent while there is no child.",
        shard=(),
    ),
    _gauge("tenured_shard_sink_waiting_bytes", "Events that wait for the sink, by their size in memory.", shard=()),
    _gauge(
        "tenured_shard_sink_stalled_seconds",
        "For how long the sink has taken nothing although events wait for it; 0 while it takes them.",
        shard=(),
    ),
    _counter("tenured_shard_messages_total", "Messages received.", shard=()),
    _counter("tenured_shard_message_bytes_total", "Payload of the messages received.", shard=()),
    _counter("tenured_shard_connects_total", "Connections that were opened.", shard=()),
    _counter("tenured_shard_handler_errors_total", "Exceptions of the handler.", shard=()),
    _counter(
        "tenured_shard_sequence_gaps_total", "Jumps ahead in the numbers that the key sequence points to.", shard=()
    ),
    _counter(
        "tenured_shard_protocol_violations_total",
        "Connections that were closed since the peer broke the WebSocket protocol or sent too large a message.",
        shard=(),
    ),
    _counter(
        "tenured_shard_silences_total",
        "Connections found silent: no answer to a ping, or no data within the idle timeout.",
        shard=(),
    ),
    _counter(
        "tenured_shard_checkpoints_dropped_total",
        "Checkpoints that were not used any more: the far end refused them too often, or no header can carry them.",
        shard=(),
    ),
    _counter(
        "tenured_shard_events_dropped_total", "Events lost to a slow sink under overflow = drop_oldest.", shard=()
    ),
    _counter("tenured_shard_sink_retries_total", "Requests of the sink that had to be sent again.", shard=()),
    _counter("tenured_shard_restarts_total", "Children started again after their predecessor ended.", shard=()),
)

FAMILIES = (INFO, *GAUGES, *COUNTERS, KILL_LATENCY, LOOP_LAG, UNOWNED, CRASHES, *PER_SHARD)
