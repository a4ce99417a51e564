"""Deliberate breaks of the protocol's rules, each of which the simulation must notice.

A mutant replaces one text in one file of the core. `caught_by` is part of the name of the tests that must fail then: a
rule that no simulated fleet can break the code on is either not needed or not tested.
"""

from __future__ import annotations

from dataclasses import dataclass

RANDOM = "random_faults"


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    caught_by: str = RANDOM


MUTANTS = (
    Mutant(
        "the deadline counts from the answer",
        "lease.py",
        "deadline_ns = max(phase.deadline_ns, tenure.deadline_ns)",
        "deadline_ns = max(phase.deadline_ns, turn.ns + tenure.duration_ns - tenure.margin_ns)",
    ),
    Mutant(
        "the first deadline counts from the answer of the claim",
        "claim.py",
        "tenure = _tenure(turn, phase.claim, row, phase.sent_ns)",
        "tenure = _tenure(turn, phase.claim, row, turn.ns)",
    ),
    Mutant(
        "the deadline counts from the last attempt, applied or not",
        "tenure.py",
        "return self.attempts[0]",
        "return self.attempts[-1]",
    ),
    Mutant(
        "the deadline has no margin",
        "tenure.py",
        "return self.expires_ns - self.margin_ns",
        "return self.expires_ns",
    ),
    Mutant(
        "nothing is killed at the deadline",
        "lease.py",
        "elif turn.ns >= held.deadline_ns:",
        "elif turn.ns >= held.deadline_ns + SECOND:",
        "an_outage_fences_at_the_deadline",
    ),
    Mutant(
        "an unknown renewal is fenced at once",
        "lease.py",
        "elif turn.ns >= held.deadline_ns:",
        "elif held.cause or turn.ns >= held.deadline_ns:",
        "throttling_shorter_than_the_slack",
    ),
    Mutant(
        "hold does not move the deadline",
        "lease.py",
        'if held.tenure.policy == "hold" and is_in_doubt(held) and turn.ns >= nearly_ns:',
        "if False:",
        "outage_policy_hold",
    ),
    Mutant(
        "a release before the death",
        "lease.py",
        "        turn.out.append(Stop(shard.name, held.tenure.epoch, reason))\n",
        "        turn.out.append(Stop(shard.name, held.tenure.epoch, reason))\n"
        "        return release(shard, turn, held.tenure, reason)\n",
    ),
    Mutant(
        "a crash releases without a restart of its own",
        "lease.py",
        "    if len(crashes) >= turn.rules.crash_limit or start_ns >= deadline_of(tenure, turn):",
        "    if True:",
        "crashed_child_restarts_where_it_was",
    ),
    Mutant(
        "a hung child is renewed",
        "lease.py",
        'return held.stage != "killing" and report is not None and turn.ns < report.heartbeat_ns + turn.rules.hang_ns',
        "return True",
        "a_child_that_hangs_is_not_renewed",
    ),
    Mutant(
        "a claim without the beat",
        "claim.py",
        "        beat_low=tenure.applied.beat if tenure else row.beat,\n"
        "        beat_high=tenure.beat_tried if tenure else row.beat,\n",
        "        beat_low=0,\n        beat_high=2**60,\n",
        "beats_the_claim",
    ),
    Mutant(
        "an own claim without the range of beats",
        "claim.py",
        "beat_high=tenure.beat_tried if tenure else row.beat",
        "beat_high=tenure.applied.beat if tenure else row.beat",
        "restart_after_lost_answers",
    ),
    Mutant(
        "a renewal without the range of beats",
        "lease.py",
        "beat_low=tenure.applied.beat,",
        "beat_low=tenure.beat_tried,",
        "throttling_shorter_than_the_slack",
    ),
    Mutant(
        "a renewal whatever the beat",
        "lease.py",
        "        beat_high=tenure.beat_tried,\n",
        "        beat_high=2**60,\n",
        "writes_that_land_after_newer_ones",
    ),
    Mutant(
        "a beat that is not above the last one tried",
        "lease.py",
        "beat = tenure.beat_tried + 1",
        "beat = tenure.applied.beat + 1",
    ),
    Mutant(
        "an epoch above the highest seen, but not above the highest tried",
        "claim.py",
        "epoch = 1 + max(row.epoch, shard.seen, shard.tried)",
        "epoch = 1 + max(row.epoch, shard.seen)",
    ),
    Mutant(
        "an epoch above the row's alone",
        "claim.py",
        "epoch = 1 + max(row.epoch, shard.seen, shard.tried)",
        "epoch = 1 + row.epoch",
        "restored_to_an_older_free_state",
    ),
    Mutant(
        "an own claim without its checkpoint",
        "claim.py",
        "checkpoint=tenure.checkpoint if tenure else None,",
        "checkpoint=None,",
    ),
    Mutant(
        "a release without its checkpoint",
        "lease.py",
        "        checkpoint=tenure.checkpoint,\n        at=turn.now.unix_ms,\n    )\n    turn.out.append(Apply(write))",
        "        checkpoint=None,\n        at=turn.now.unix_ms,\n    )\n    turn.out.append(Apply(write))",
    ),
    Mutant(
        "the last words of a child are not heard",
        "lease.py",
        "tenure = replace(phase.tenure, checkpoint=checkpoint or phase.tenure.checkpoint)",
        "tenure = phase.tenure",
    ),
    Mutant(
        "any refusal of a renewal is a loss",
        "lease.py",
        'return lose(shard, turn, f"the row does not parse: {bad}") if bad else learn(shard, turn, row)',
        'return lose(shard, turn, "refused")',
        "a_proxy_sends_twice",
    ),
    Mutant(
        "the refusal of a superseded attempt is a loss",
        "tenure.py",
        "    if any(attempt.nonce == row.nonce for attempt in tenure.attempts):",
        "    if tenure.attempts[-1].nonce == row.nonce:",
        "writes_that_land_after_newer_ones",
    ),
    Mutant(
        "old news are taken for a second copy",
        "tenure.py",
        "if row.beat > tenure.beat_tried or any(attempt.beat == row.beat for attempt in tenure.attempts):",
        "if True:",
        "answers_that_come_late",
    ),
    Mutant(
        "a second copy is not noticed",
        "tenure.py",
        "if row.beat > tenure.beat_tried or any(attempt.beat == row.beat for attempt in tenure.attempts):",
        "if False:",
        "two_copies_of_one_machine",
    ),
    Mutant(
        "a second copy keeps the id",
        "lease.py",
        "            turn.copied = reason\n",
        "",
        "two_copies_of_one_machine",
    ),
    Mutant(
        "a change of id forgets the member row",
        "leaseset.py",
        "member = replace(state.member, id=me) if state.member else None",
        "member = None",
        "finds_out_while_it_drains",
    ),
    Mutant(
        "a snapshot older than the claim is taken as loss",
        "poll.py",
        "case Held(tenure) | Vacant(tenure) | Releasing(tenure) if asked_ns > tenure.answered_ns:",
        "case Held(tenure) | Vacant(tenure) | Releasing(tenure):",
    ),
    Mutant(
        "a snapshot never shows a loss",
        "poll.py",
        "case Held(tenure) | Vacant(tenure) | Releasing(tenure) if asked_ns > tenure.answered_ns:",
        "case Held(tenure) | Vacant(tenure) | Releasing(tenure) if False:",
        "row_deleted_is_noticed_by_the_next_snapshot",
    ),
    Mutant(
        "the child of a lost lease is not killed at once",
        "lease.py",
        '        turn.out.append(Kill(shard.name, epoch, "lost"))\n',
        "",
        "a_deleted_row_kills_its_child",
    ),
    Mutant(
        "a late answer starts a child for an older epoch",
        "claim.py",
        "if not isinstance(phase, Claiming) or phase.claim.nonce != claim.nonce:",
        "if not isinstance(phase, Claiming):",
        "late_answer_starts_no_child",
    ),
    Mutant(
        "a child is started however little validity is left",
        "claim.py",
        "if turn.draining or shard.rule is None or deadline_ns - turn.ns < turn.rules.renew_every_ns:",
        "if turn.draining:",
    ),
    Mutant(
        "a claim that was applied late is never recognised",
        "claim.py",
        "    return _stray(shard, me, row) is not None",
        "    return False",
        "applied_late_is_taken_at_the_next_snapshot",
    ),
    Mutant(
        "an unknown renewal is taken as refused",
        "lease.py",
        "        case Unknown(cause):\n            if",
        '        case Unknown(cause):\n            return lose(shard, turn, "unknown")\n            if',
        "answers_that_are_lost",
    ),
    Mutant(
        "an unknown renewal is taken as applied",
        "lease.py",
        "        case Unknown(cause):\n            if",
        "        case Unknown(cause):\n"
        "            return _advance(shard, turn, prove(phase.tenure, write.nonce))\n            if",
    ),
    Mutant(
        "an unknown claim is taken as applied",
        "claim.py",
        "            return _doubt(shard, turn, phase, cause)\n        case _:",
        "            return _win(shard, turn, phase, phase.tenure.row if phase.tenure else Lease(shard.name, turn.me, "
        'claim.epoch, 0, claim.nonce, claim.duration_ms, history=("1 x 1 x",)))\n        case _:',
    ),
    Mutant(
        "an unknown claim is taken as refused",
        "claim.py",
        "            return _doubt(shard, turn, phase, cause)\n        case _:",
        '            return _give_up(shard, turn, phase, "unknown")\n        case _:',
        "a_claim_whose_answer_is_lost_is_settled",
    ),
    Mutant(
        "an unknown release is not sent again",
        "lease.py",
        "    if isinstance(outcome, Unknown):\n        retry_ns",
        "    if False:\n        retry_ns",
        "a_release_that_got_lost_is_sent_again",
    ),
    Mutant(
        "a missing row is created at once",
        "watch.py",
        "return since_ns is not None and (at_once or watch.alone or now_ns >= since_ns + watch.longest_ns)",
        "return since_ns is not None",
        "deleted_while_its_owner_is_cut_off",
    ),
    Mutant(
        "the clock of a missing row bridges an outage",
        "watch.py",
        "bridged = watch.missing if blind_ns <= gap_max_ns else {}",
        "bridged = watch.missing",
        "missing_before_and_after_an_outage",
    ),
    Mutant(
        "a clock is kept across a missing row",
        "watch.py",
        "    return Watch(\n        leases=leases,",
        "    return Watch(\n        leases={**watch.leases, **leases},",
        "missing_in_between",
    ),
    Mutant(
        "a restored free row is claimed at once",
        "watch.py",
        "if (row.owner is None or row.owner in watch.dead) and row.epoch >= seen:",
        "if row.owner is None or row.owner in watch.dead:",
        "restored_to_an_older_free_state",
    ),
    Mutant(
        "a lease is taken before it has expired",
        "watch.py",
        "now_ns >= sighting.since_ns + duration_ns",
        "now_ns >= sighting.since_ns + duration_ns // 2",
    ),
    Mutant(
        "a lease is taken although it was renewed",
        "watch.py",
        "    if sighting is None or sighting.mark != row.triple:\n",
        "    if sighting is None:\n",
        "renewed_at_the_last_moment",
    ),
    Mutant(
        "a failed snapshot counts as one of no rows",
        "leaseset.py",
        "        case SnapshotFailed(cause) | ProofFailed(cause):\n",
        '        case SnapshotFailed(cause) if state.stage == "active":\n'
        "            state = poll.snapshotted(state, turn, Snapshot({}, {}, {}), turn.ns)\n"
        "        case SnapshotFailed(cause) | ProofFailed(cause):\n",
        "a_failed_snapshot",
    ),
    Mutant(
        "the drain does not wait for its mark",
        "drain.py",
        "if drain.marked_ns is None and not drain.stopping:",
        "if drain.marked_ns is None and not drain.stopping and state.stage == 'never':",
        "out_of_the_membership",
    ),
    Mutant(
        "peers of a draining supervisor wait for the next snapshot",
        "fleet.py",
        "leaving = frozenset(row.shard for row in others if row.owner in draining)",
        "leaving: frozenset[str] = frozenset()",
        "slow_to_stop",
    ),
    Mutant(
        "crash counts are forgotten",
        "restart.py",
        "return (*recent, now_ns)[-CRASHES_MAX:]",
        "return (now_ns,)",
        "at_most_sixteen_times",
    ),
    Mutant(
        "the proof of a death is ignored",
        "watch.py",
        "if (row.owner is None or row.owner in watch.dead) and row.epoch >= seen:",
        "if row.owner is None and row.epoch >= seen:",
        "restart_with_proof",
    ),
    Mutant(
        "a predecessor's shards are shared out like others",
        "fleet.py",
        "return me if row.owner in watch.dead else None",
        "return None",
        "takes_its_own_back",
    ),
    Mutant(
        "clocks that ran out in an outage count at its end",
        "watch.py",
        "    if spare_ns and not old.spared and old.expires_ns < now_ns + spare_ns:\n",
        "    if False:\n",
        "after_an_outage",
    ),
    Mutant(
        "a holder gets no time to come back after an outage",
        "watch.py",
        "row.duration_ms * MS if held else 2 * poll_ns",
        "2 * poll_ns",
        "whole_lease_to_come_back",
    ),
    Mutant(
        "nothing is woken at the end of an outage",
        "leaseset.py",
        "        shards = {name: _wake(shard, turn) for name, shard in state.shards.items()}\n",
        "        shards = state.shards\n",
        "after_an_outage",
    ),
    Mutant(
        "a difference of one is worth a move",
        "rebalance.py",
        "WORTH_MIN = 2",
        "WORTH_MIN = 1",
        "differ_by_one",
    ),
    Mutant(
        "the oldest lease moves first",
        "rebalance.py",
        "key=lambda row: (row.beat, row.epoch, rank(row.shard, state.me))",
        "key=lambda row: (-row.beat, row.epoch, rank(row.shard, state.me))",
        "rolling_restart",
    ),
    Mutant(
        "a peer asks for what an operator has put somewhere",
        "claim.py",
        "if is_pinned(row.history):",
        "if False:",
        "stays_though_the_loads_differ",
    ),
    Mutant(
        "a wish that cannot be granted is granted",
        "rebalance.py",
        "    if objection := _objection(move, shard.name, fleet, state):",
        "    if objection := ():",
        "cannot_be_granted",
    ),
    Mutant(
        "a wish that cannot be granted is left alone",
        "rebalance.py",
        "        turn.out.append(Apply(Wish(shard.name, row.owner, row.epoch, row.move, None)))\n",
        "",
        "cannot_be_granted",
    ),
    Mutant(
        "who gave a shard away takes it again",
        "rebalance.py",
        "    state = state.with_shard(replace(_give(shard, turn, move.reason), gave_up_ns=turn.ns))\n",
        "    state = state.with_shard(_give(shard, turn, move.reason))\n",
        "a_move_to_anybody",
    ),
    Mutant(
        "a shard is kept for a target that died",
        "fleet.py",
        "    if target is None or target not in able:",
        "    if target is None:",
        "not_kept_for_a_target",
    ),
    Mutant(
        "a shard on its way to a peer is anybody's",
        "fleet.py",
        "    return None if over else target\n",
        "    return None\n",
        "is_reserved_for_its_target",
    ),
    Mutant(
        "a paused shard runs on",
        "rebalance.py",
        "        if row.paused:\n",
        "        if False:\n",
        "a_paused_shard_stops",
    ),
    Mutant(
        "a fresh row is overdue while its taker paces itself",
        "poll.py",
        "and not (fresh and state.polls <= START_POLLS)",
        "",
        "waits_for_who_paces",
    ),
    Mutant(
        "nobody takes more than its share",
        "poll.py",
        "    return row.shard in fleet.free - fleet.reserved.keys() and _is_overdue(state, turn, row, fresh)\n",
        "    return False\n",
        "anyone_with_room",
    ),
    Mutant(
        "who sees seldom spares the dead for ever",
        "watch.py",
        "    if spare_ns and not old.spared and old.expires_ns < now_ns + spare_ns:\n",
        "    if spare_ns and old.expires_ns < now_ns + spare_ns:\n",
        "who_sees_seldom",
    ),
    Mutant(
        "a host on which all crashes asks for more",
        "rebalance.py",
        "    if asking or failing or turn.ns < state.ask_ns or mine",
        "    if asking or turn.ns < state.ask_ns or mine",
        "where_every_child_crashes",
    ),
    Mutant(
        "two that gave a shard up wait for each other",
        "poll.py",
        "    yield_ns = min(state.rules.duration_ns, state.rules.crash_window_ns)\n",
        "    yield_ns = state.rules.crash_window_ns\n",
        "crashed_everywhere_for_a_minute",
    ),
    Mutant(
        "a predecessor's shards are kept although there is no room",
        "fleet.py",
        "        if target and (row.owner is None or room >= 0):\n",
        "        if target:\n",
        "less_capacity",
    ),
)
