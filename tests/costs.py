"""What a fleet costs on DynamoDB, and what its table has to bear: the arithmetic behind the docs. Pure."""

from __future__ import annotations

import math

from supervisor.configuration import relations
from supervisor.core.state import POLL_COST_RATIO

# On-demand prices of DynamoDB in us-east-1, November 2026, in dollars for each million units.
WRITES_USD = 0.625
READS_USD = 0.125
MONTH_S = 30 * 24 * 3600
ROW_BYTES = 1024  # at most: a larger row would cost two write units, which a test of the store keeps out
READ_UNIT_BYTES = 4096
POLL_S = 1.0

# Of one partition, in units each second; a table splits into more of them when it is hot. November 2026.
PARTITION_WRITES = 1000
PARTITION_READS = 3000
TABLE_READS = 40_000  # of an on-demand table, unless the account's quota was raised

ROW_CPU_S = 0.000106  # of a client, for each row of a snapshot
SNAPSHOT_ATTEMPTS = 2  # a snapshot may take so many times as long as another call


def renew_s(lease_s: float) -> float:
    return relations.renew_interval_ms(round(lease_s * 1000)) / 1000


def poll_s(supervisors: int, lease_s: float) -> float:
    """The interval in force."""
    return max(POLL_S, min(supervisors * renew_s(lease_s) / POLL_COST_RATIO, lease_s / 2))


def snapshot_units(rows: int) -> int:
    return math.ceil(rows * ROW_BYTES / READ_UNIT_BYTES)


def writes_per_s(shards: int, supervisors: int, lease_s: float) -> float:
    """Write units of a fleet in which nothing happens."""
    return (shards + supervisors) / renew_s(lease_s)


def reads_per_s(shards: int, supervisors: int, lease_s: float) -> float:
    """Read units, at most."""
    return supervisors / poll_s(supervisors, lease_s) * snapshot_units(shards + supervisors)


def units_usd(writes: float, reads: float) -> float:
    return (writes * WRITES_USD + reads * READS_USD) / 1e6


def month_usd(shards: int, supervisors: int, lease_s: float) -> tuple[float, float]:
    """What the writes and the reads of a fleet cost at most, each month that nothing happens in."""
    writes = writes_per_s(shards, supervisors, lease_s) * MONTH_S
    reads = reads_per_s(shards, supervisors, lease_s) * MONTH_S
    return units_usd(writes, 0), units_usd(0, reads)


def snapshot_s(rows: int) -> float:
    """How long a snapshot takes at least."""
    return rows * ROW_CPU_S


def rows_max(lease_s: float) -> int:
    """Beyond which no snapshot would be back in time."""
    attempt_s = relations.call_timeout_ms(round(renew_s(lease_s) * 1000)) / 1000
    return int(SNAPSHOT_ATTEMPTS * attempt_s / ROW_CPU_S)


def partitions(shards: int, supervisors: int, lease_s: float) -> int:
    """How many partitions the steady load of one table fills."""
    writes = writes_per_s(shards, supervisors, lease_s) / PARTITION_WRITES
    reads = reads_per_s(shards, supervisors, lease_s) / PARTITION_READS
    return math.ceil(writes + reads)
