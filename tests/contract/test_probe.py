"""Which tables are fit, by their description alone."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.stores.interface import Unavailable, Unfit
from supervisor.stores.probe import check_table

FIT = {
    "TableName": "leases",
    "KeySchema": [{"AttributeName": "lease", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "lease", "AttributeType": "S"}],
    "TableStatus": "ACTIVE",
}
REPLICAS = [{"RegionName": "eu-west-1", "ReplicaStatus": "ACTIVE"}]
SORTED = [*FIT["KeySchema"], {"AttributeName": "at", "KeyType": "RANGE"}]


@pytest.mark.parametrize(
    "difference",
    [
        {},
        {"TableStatus": "UPDATING"},
        {"Replicas": []},
        {"GlobalTableVersion": "2019.11.21"},
        {"Replicas": REPLICAS, "MultiRegionConsistency": "STRONG"},
    ],
    ids=str,
)
def test_a_table_with_our_key_and_one_truth_is_fit(difference: dict[str, Any]) -> None:
    check_table("leases", FIT | difference)


@pytest.mark.parametrize(
    "difference",
    [
        {"Replicas": REPLICAS},
        {"Replicas": REPLICAS, "MultiRegionConsistency": "EVENTUAL"},
        {"GlobalTableVersion": "2017.11.29"},
    ],
    ids=str,
)
def test_a_table_in_which_the_last_writer_wins_is_unfit(difference: dict[str, Any]) -> None:
    with pytest.raises(Unfit, match="table leases is a global table in which the last writer wins, expected one"):
        check_table("leases", FIT | difference)


@pytest.mark.parametrize(
    ("difference", "found"),
    [
        ({"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}, r"id \(None, HASH\)"),
        ({"KeySchema": SORTED}, r"lease \(S, HASH\), at \(None, RANGE\)"),
        ({"AttributeDefinitions": [{"AttributeName": "lease", "AttributeType": "N"}]}, r"lease \(N, HASH\)"),
    ],
)
def test_a_table_with_another_key_is_unfit_and_the_key_is_shown(difference: dict[str, Any], found: str) -> None:
    with pytest.raises(Unfit, match=rf"has the key {found}, expected lease \(S, HASH\)"):
        check_table("leases", FIT | difference)


@pytest.mark.parametrize("status", ["CREATING", "DELETING", "INACCESSIBLE_ENCRYPTION_CREDENTIALS", None])
def test_a_table_that_is_not_active_is_unavailable(status: str | None) -> None:
    with pytest.raises(Unavailable, match=f"in status {status}, expected ACTIVE"):
        check_table("leases", FIT | {"TableStatus": status})


@pytest.mark.parametrize("description", [None, {}, [], "table", {"KeySchema": []}], ids=str)
def test_a_description_that_is_none_is_unavailable(description: object) -> None:
    with pytest.raises(Unavailable, match="describes no table"):
        check_table("leases", description)
