"""A feed that is far faster than what consumes it: bounded memory, and each message accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flood import flood

SECONDS = 2.0
GROWN_MAX_MIB = 20.0


@pytest.mark.parametrize("consumer", ["sink", "handler"])
def test_a_child_behind_a_slow_consumer_stops_reading_stays_small_and_loses_nothing(
    tmp_path: Path, consumer: str
) -> None:
    found = flood(tmp_path, consumer, SECONDS)
    assert found.grown_mib < GROWN_MAX_MIB
    assert found.before_hurry < found.offered / 4, "the consumer was not slow"
    assert found.waiting_at_server > 0, "the child read on"
    assert found.delivered + found.waiting_at_server == found.offered
    assert found.in_order
    assert found.dropped == 0
    assert found.exit_code == 0


def test_a_child_that_may_drop_reads_on_stays_small_and_counts_each_event_that_it_lost(tmp_path: Path) -> None:
    found = flood(tmp_path, "sink", SECONDS, overflow="drop_oldest", sink_buffer=256 * 1024)
    assert found.grown_mib < GROWN_MAX_MIB
    assert found.dropped > 0
    assert found.delivered + found.dropped + found.waiting_at_server == found.offered
    assert found.in_order
    assert found.exit_code == 0
