"""Of the handler alone, without a supervisor and a network."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gateway import Gateway

from workers.testing import Rig

HELLO = '{"op": 10, "d": {"heartbeat_interval": 40000}}'
READY = '{"op": 0, "t": "READY", "s": 1, "d": {"session_id": "abc"}}'
IDENTIFY = {"op": 2, "d": {"token": "secret", "shard": 3}}


def event(number: int) -> str:
    return json.dumps({"op": 0, "t": "MESSAGE", "s": number, "d": {"text": "hi"}})


def resume(session: str, seq: int) -> Any:
    return {"op": 6, "d": {"token": "secret", "session_id": session, "seq": seq}}


def beat(seq: int | None) -> Any:
    return {"op": 1, "d": seq}


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_TOKEN", "secret")


def begun(checkpoint: str | None = None) -> Rig[Gateway]:
    rig = Rig(Gateway, shard="chat/3", checkpoint=checkpoint)
    rig.opened()
    rig.receive(HELLO)
    return rig


def reopened(rig: Rig[Gateway], code: int | None = None) -> Any:
    """What is sent on the next connection."""
    rig.closed(code)
    rig.opened()
    rig.receive(HELLO)
    return sent(rig)[-1]


def sent(rig: Rig[Gateway]) -> list[Any]:
    return [json.loads(message) for message in rig.sent()]


def test_the_first_child_identifies_itself_and_commits_session_and_number() -> None:
    rig = begun()
    assert sent(rig) == [IDENTIFY]
    rig.receive(READY, event(2))
    assert rig.events == [event(2)]
    assert rig.checkpoints[-1] == '["abc", 2]'


def test_another_child_and_another_connection_resume() -> None:
    rig = begun('["abc", 2]')
    assert sent(rig) == [resume("abc", 2)]
    rig.receive(event(3), '{"op": 0, "t": "RESUMED", "s": 4, "d": null}')
    assert rig.events == [event(3)]
    assert reopened(rig) == resume("abc", 4)


def test_it_beats_while_each_beat_is_answered_and_gives_up_a_gateway_that_does_not() -> None:
    rig = begun()
    rig.receive(READY)
    rig.advance(40)
    rig.receive('{"op": 11}')
    rig.advance(40)
    assert sent(rig)[1:] == [beat(1), beat(1)]
    rig.advance(40)
    assert rig.close_codes() == [4000]
    assert reopened(rig) == resume("abc", 1)
    rig.advance(40)
    assert sent(rig)[-1] == beat(1)


def test_a_beat_that_is_asked_for_is_sent_at_once() -> None:
    rig = begun()
    rig.receive('{"op": 1}')
    assert sent(rig)[-1] == beat(None)


def test_nothing_beats_while_no_connection_is_open() -> None:
    rig = begun()
    rig.closed()
    rig.advance(200)
    rig.opened()
    assert sent(rig) == [IDENTIFY]


def test_a_reconnect_that_is_asked_for_keeps_the_session() -> None:
    rig = begun('["abc", 2]')
    rig.receive('{"op": 7}')
    assert rig.close_codes() == [4000]
    assert reopened(rig) == resume("abc", 2)


@pytest.mark.parametrize(("resumable", "then"), [("true", resume("abc", 2)), ("false", IDENTIFY)])
def test_an_invalid_session_is_tried_again_only_if_the_gateway_says_so(resumable: str, then: Any) -> None:
    rig = begun('["abc", 2]')
    rig.receive(f'{{"op": 9, "d": {resumable}}}')
    assert rig.close_codes() == [4000]
    assert reopened(rig) == then


@pytest.mark.parametrize(("code", "then"), [(4000, resume("abc", 2)), (4009, IDENTIFY)])
def test_a_close_code_may_end_the_session(code: int, then: Any) -> None:
    assert reopened(begun('["abc", 2]'), code) == then
