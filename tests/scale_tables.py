"""The rows of the computed tables of docs/scale.md, as they must stand there. Pure."""

from __future__ import annotations

import math

from tests import costs


def one_table(lease_s: int, shards: int, supervisors: int) -> list[str]:
    writes = costs.writes_per_s(shards, supervisors, lease_s)
    reads = costs.reads_per_s(shards, supervisors, lease_s)
    whole = sum(costs.month_usd(shards, supervisors, lease_s))
    return [
        f"{lease_s} s",
        f"{shards:,}",
        f"{supervisors}",
        f"{costs.poll_s(supervisors, lease_s):.2f} s",
        f"{math.ceil(writes):,}",
        f"{math.ceil(reads):,}",
        f"{costs.partitions(shards, supervisors, lease_s)}",
        f"${whole / shards:.2f}",
    ]


def many_tables(tables: int, lease_s: int, shards: int, supervisors: int) -> list[str]:
    """`shards` and `supervisors` of each table."""
    whole = tables * sum(costs.month_usd(shards, supervisors, lease_s))
    return [
        f"{tables}",
        f"{shards:,}",
        f"{supervisors}",
        f"{lease_s} s",
        f"{lease_s + costs.poll_s(supervisors, lease_s) + costs.snapshot_s(shards + supervisors):.1f} s",
        f"{costs.partitions(shards, supervisors, lease_s)}",
        f"${whole / (tables * shards):.2f}",
        f"${round(whole, -2):,.0f}",
    ]
