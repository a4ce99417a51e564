"""A fleet of ten supervisors and five hundred shards keeps what `python -m tests.bench.scale` shows at full scale."""

from __future__ import annotations

import pytest

from tests.sim.scale_runs import Size, calm, cold_start, deploy, lose

SIZE = Size(supervisors=10, shards=500)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_cold_start_creates_and_claims_each_row_about_once(seed: int) -> None:
    fleet, passed = cold_start(SIZE, seed)
    assert passed.seconds <= 10
    assert passed.starts <= 1.05 * SIZE.shards
    assert passed.calls["creations"] <= 2 * SIZE.shards, "each row is one supervisor's to create, not everybody's"
    assert passed.refused_share <= 10
    assert fleet.all_owned()


@pytest.mark.parametrize("hosts", [1, 3])
def test_what_lost_hosts_owned_is_owned_again_within_a_lease_and_three_seconds(hosts: int) -> None:
    fleet, _ = cold_start(SIZE)
    calm(fleet, 30)
    passed = lose(fleet, hosts)
    assert passed.seconds <= SIZE.lease_s + 3
    assert passed.refused_share <= 10


def test_a_rolling_deploy_moves_no_shard_more_than_twice_on_average() -> None:
    fleet, _ = cold_start(SIZE)
    calm(fleet, 60)
    passed = deploy(fleet, 1)
    assert passed.starts <= 2 * SIZE.shards
    assert max(passed.gaps_s) <= 3, "a planned stop waits for no lease to run out"


def test_a_fleet_in_which_nothing_happens_writes_its_renewals_and_nothing_else() -> None:
    fleet, _ = cold_start(SIZE)
    calm(fleet, 60)
    passed = calm(fleet, 30)
    rounds = 30 / (SIZE.lease_s / 3)
    assert passed.calls["writes"] == pytest.approx(rounds * (SIZE.shards + SIZE.supervisors), rel=0.05)
    assert passed.calls["claims"] == passed.calls["reads"] == passed.starts == 0


def test_a_large_fleet_looks_often_enough_to_tell_death_from_an_outage() -> None:
    """Sixty supervisors would look once a lease duration, and take each look for the end of an outage."""
    fleet, _ = cold_start(Size(supervisors=60, shards=60))
    calm(fleet, 30)
    assert lose(fleet, 6).seconds <= SIZE.lease_s * 1.5 + 3
