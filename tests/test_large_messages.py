"""What a large message takes of a real child: memory in sizes of the message, time in proportion to its size."""

from __future__ import annotations

import pytest

from tests.bench.large import MEMORY_MAX, MIB, child_cost, encoded
from tests.feed import BINARY, TEXT


@pytest.mark.parametrize("fragmented", [True, False], ids=["fragments of 16 KiB", "one frame"])
@pytest.mark.parametrize("opcode", [TEXT, BINARY], ids=["text", "binary"])
def test_a_message_of_64_mib_takes_at_most_two_and_a_half_times_its_size(opcode: int, fragmented: bool) -> None:
    assert child_cost(encoded(opcode, 64 * MIB, fragmented), 64 * MIB).memory <= MEMORY_MAX


def test_time_grows_no_faster_than_the_message() -> None:
    """Quadratic work would make eight times the size cost sixty-four times as much."""
    small, large = (min(child_cost(encoded(TEXT, n * MIB, True), n * MIB).cpu_ms for _ in range(3)) for n in (8, 64))
    assert large < 8 * 3 * small
