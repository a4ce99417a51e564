"""What a batch yields for the file's pointers: against a plain reference, and with as little reading as possible."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.resuming.marks import Found, Marks
from workers.sinks.envelope import Batch, Envelope
from workers.spec import StreamSpec
from workers.websocket.frames import Message

VALUES: st.SearchStrategy[Any] = st.one_of(
    st.integers(-(10**20), 10**20), st.integers(0, 50).map(str), st.sampled_from([None, True, "", "x", [], {}, 1.5])
)
OBJECTS = st.dictionaries(st.sampled_from(["seq", "id", "other"]), VALUES)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    OBJECTS.map(json.dumps), OBJECTS.map(lambda value: json.dumps(value).encode()), st.just("no json"), st.just(b"\xff")
)


def marks(**pointers: str) -> Marks:
    return Marks(StreamSpec("s", **pointers))


def told(message: Message, name: str) -> str | None:
    """The plain reference."""
    try:
        value = json.loads(message).get(name)
    except ValueError:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        return None
    return value if isinstance(value, str) else json.dumps(value)


def number(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdigit() else None


@given(st.lists(MESSAGES, max_size=8), st.booleans(), st.booleans(), st.booleans())
def test_a_batch_yields_what_a_plain_reading_of_each_message_does(
    messages: list[Message], checkpoint: bool, id: bool, sequence: bool
) -> None:
    found = marks(checkpoint="/seq" * checkpoint, id="/id" * id, sequence="/seq" * sequence).all(messages)
    tokens = [token for message in messages if (token := told(message, "seq")) is not None]
    assert found.token == (tokens[-1] if checkpoint and tokens else None)
    assert found.ids == ([told(message, "id") for message in messages] if id else None)
    assert list(found.numbers) == ([number(told(message, "seq")) for message in messages] if sequence else [])


class Counted(str):
    """A message that knows how often it was looked at."""

    looks = 0

    def strip(self, *characters: str) -> str:  # type: ignore[override]
        Counted.looks += 1
        return str(self).strip(*characters)


@pytest.mark.parametrize(
    ("pointers", "looks"),
    [
        ({}, 0),
        ({"checkpoint": "/seq"}, 2),
        ({"id": "/id"}, 4),
        ({"checkpoint": "/seq", "id": "/id", "sequence": "/seq"}, 4),
    ],
)
def test_each_message_is_read_once_at_most_and_for_a_checkpoint_alone_only_from_the_end(
    pointers: dict[str, str], looks: int
) -> None:
    Counted.looks = 0
    messages: list[Message] = [Counted('{"seq": 1}'), Counted('{"seq": 2}'), Counted('{"seq": 3}'), Counted("bye")]
    found = marks(**pointers).all(messages)
    assert Counted.looks == looks
    assert found.token == ("3" if "checkpoint" in pointers else None)


def test_without_pointers_nothing_is_wanted() -> None:
    assert not marks().wanted
    assert marks().all(["{}"]) == Found()


def test_an_id_stands_in_the_line_behind_its_number_where_there_is_one() -> None:
    batch = Batch(0, 7, 0, ['{"id": 1.10}', "no json", b"\x00"], 20, ["1.10", None, 'q"ä'])
    lines = Envelope("trades/7", 3).lines(batch).splitlines()
    assert [list(json.loads(line))[2:4] for line in lines] == [["seq", "id"], ["seq", "connection"], ["seq", "id"]]
    assert [json.loads(line).get("id") for line in lines] == ["1.10", None, 'q"ä']
    assert [json.loads(line)["seq"] for line in lines] == [7, 8, 9]


def test_half_a_surrogate_pair_in_an_id_is_escaped_and_ends_nothing() -> None:
    batch = Batch(0, 1, 0, ["x"], 1, ["\ud800"])
    assert json.loads(Envelope("s", 1).lines(batch))["id"] == "\ud800"
