"""What ends the steps: anything that goes wrong in one, or in the question what is due next."""

from __future__ import annotations

import asyncio

import pytest

from supervisor.core import leaseset
from supervisor.core.model import Ticked
from supervisor.stepping import Stepping
from tests.core import state


def break_it(*_: object) -> None:
    raise AssertionError("an invariant")


@pytest.mark.parametrize("part", ["step", "due_ns"])
def test_what_goes_wrong_is_told_once_and_is_the_last_thing_that_happens(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken: list[Exception] = []
    lost: list[object] = []
    ticks: list[int] = []

    async def go() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: lost.append(context))

        def tick() -> None:
            ticks.append(len(ticks))
            steps.feed(Ticked(), 0)

        def broke(error: Exception) -> None:
            broken.append(error)
            steps.end()

        steps = Stepping(state(), loop, lambda *_: None, lambda *_: None, tick, broke)
        steps.begin()
        while len(ticks) < 3:
            await asyncio.sleep(0)
        monkeypatch.setattr(leaseset, part, break_it)
        while not (broken or lost):
            await asyncio.sleep(0)
        steps.feed(Ticked(), 0)
        await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(go(), 10))
    assert [str(error) for error in broken] == ["an invariant"]
    assert lost == []
