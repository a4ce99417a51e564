"""Nonces and jitter are made of everything that tells two attempts apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.model import Moment
from tests.core import moment

NOW = moment(0)


@pytest.mark.parametrize("other", [replace(NOW, boot_ns=1), replace(NOW, unix_ms=1), replace(NOW, entropy=b"x")])
def test_a_copy_of_a_machine_that_repeats_its_random_bytes_repeats_no_nonce(other: Moment) -> None:
    assert NOW.nonce("renew") != other.nonce("renew")


def test_the_attempts_of_one_step_have_nonces_of_their_own() -> None:
    assert len({NOW.nonce(f"s/{number} 8 1") for number in range(1000)}) == 1000
    assert NOW.nonce("same") == NOW.nonce("same")


@given(st.binary(max_size=8), st.integers(0, 2**62), st.text(max_size=5))
def test_jitter_is_a_fraction(entropy: bytes, boot_ns: int, salt: str) -> None:
    assert 0 <= Moment(boot_ns, 0, entropy).fraction(salt) <= 1
