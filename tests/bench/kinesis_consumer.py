"""A consumer of async-kinesis whose checkpoints are in DynamoDB: what `failover` kills, in an environment of its own.

    python kinesis_consumer.py ENDPOINT_URL STREAM LEASE_S

Prints `SHARD NANOSECONDS` (CLOCK_BOOTTIME) for each shard of the stream that it allocates. Nothing of this repository
is imported: the library pins versions of boto3 that are not ours.
"""

import asyncio
import os
import sys
import time
from typing import Any

from kinesis import Consumer
from kinesis.dynamodb import DynamoDBCheckPointer

endpoint_url, stream, lease_s = sys.argv[1], sys.argv[2], int(sys.argv[3])


async def main() -> None:
    checkpoints = DynamoDBCheckPointer(
        stream,
        id=os.getpid(),
        session_timeout=lease_s,
        heartbeat_frequency=lease_s / 3,
        endpoint_url=endpoint_url,
        region_name="us-east-1",
    )
    allocate = checkpoints.allocate

    async def told(shard: str) -> Any:
        allocated = await allocate(shard)
        if allocated[0]:
            print(shard, time.clock_gettime_ns(time.CLOCK_BOOTTIME), flush=True)
        return allocated

    checkpoints.allocate = told
    async with Consumer(
        stream, endpoint_url=endpoint_url, region_name="us-east-1", checkpointer=checkpoints
    ) as consumer:
        while True:  # the iteration ends whenever nothing is there to be read
            async for _ in consumer:
                pass


asyncio.run(main())
