"""async-kinesis against ministack: a stream, and the command of a consumer.

It gets a virtual environment of its own under `.engines/`, as ministack does: what it depends on pins versions of boto3
and botocore that are older than ours.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import boto3

from tests.engines import FOLDER, Engine
from tests.wait import until

REQUIREMENT = "async-kinesis[dynamodb]==3.0.1"
PLACE = FOLDER / "async-kinesis"
PYTHON = PLACE / "bin" / "python"
PROGRAM = Path(__file__).with_name("kinesis_consumer.py")


def install() -> None:
    """What is there at this version stays."""
    stamp = PLACE / "installed"
    if stamp.exists() and stamp.read_text() == REQUIREMENT:
        return
    print(f"installing {REQUIREMENT} in {PLACE}", file=sys.stderr, flush=True)
    shutil.rmtree(PLACE, ignore_errors=True)
    venv.create(PLACE, with_pip=True)
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, REQUIREMENT], check=True)
    stamp.write_text(REQUIREMENT)


def make_stream(engine: Engine, stream: str, shards: int) -> None:
    client: Any = boto3.client("kinesis", region_name="us-east-1", endpoint_url=engine.endpoint_url)
    client.create_stream(StreamName=stream, ShardCount=shards)

    def active() -> bool:
        described = client.describe_stream(StreamName=stream)["StreamDescription"]
        return bool(described["StreamStatus"] == "ACTIVE")

    until(active, 10)


def consuming(engine: Engine, stream: str, lease_s: float) -> list[str | Path]:
    return [PYTHON, PROGRAM, engine.endpoint_url, stream, f"{lease_s:.0f}"]
