"""Fixtures that several test packages share: the DynamoDB engines, started at first use, one of each per session."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import engines
from tests import wheel as wheels

# The first run on a machine builds hypothesis' tables of Unicode, which takes seconds; and machines are noisy.
settings.register_profile("tenured", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tenured")

# Whoever runs the tests in the background of a script has these ignored, and what they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

_AWS_FOR_TESTS = {
    "AWS_ACCESS_KEY_ID": "test-key-id",
    "AWS_SECRET_ACCESS_KEY": "test-secret-key",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


@pytest.fixture(scope="session", autouse=True)
def aws_environment() -> Iterator[None]:
    """No test, and no process that it starts, may find real credentials."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in _AWS_FOR_TESTS.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def ministack(aws_environment: None) -> Iterator[engines.Engine]:
    with engines.ministack() as engine:
        yield engine


@pytest.fixture(scope="session")
def dynalite(aws_environment: None) -> Iterator[engines.Engine]:
    with engines.dynalite() as engine:
        yield engine


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of our package, as it is in this folder."""
    return wheels.built(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def table() -> str:
    """A table name that no other test uses."""
    return f"leases-{secrets.token_hex(4)}"
