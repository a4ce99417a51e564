"""JSON pointers against a plain reference: documents are made as values, written in many ways, and looked up again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.resuming.pointer import NOTHING, Reader, compiled, find, text

# --- documents that remember how their numbers are written ---------------------------------------------------


@dataclass(frozen=True)
class Number:
    written: str


NAMES = st.one_of(
    st.sampled_from(["seq", "a", "b", "0", "1", "01", "-", "", "/", "~", "~1", 'q"', "ä", "x y"]), st.text(max_size=3)
)
NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
SCALARS = st.one_of(st.none(), st.booleans(), st.text(max_size=5), NUMBERS.map(Number))
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)


def written(value: Any, ascii_only: bool, gap: str) -> str:
    """JSON text, with its numbers as they are."""
    if isinstance(value, Number):
        return value.written
    if isinstance(value, list):
        return f"[{gap}" + f"{gap},".join(written(each, ascii_only, gap) for each in value) + f"{gap}]"
    if isinstance(value, dict):
        pairs = (
            f"{json.dumps(name, ensure_ascii=ascii_only)}{gap}:{gap}{written(each, ascii_only, gap)}"
            for name, each in value.items()
        )
        return f"{{{gap}" + f"{gap},{gap}".join(pairs) + f"{gap}}}"
    return json.dumps(value, ensure_ascii=ascii_only)


def every_place(value: Any, steps: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Each value in a document, and the way to it."""
    found = [(steps, value)] if steps else []
    children: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = [(str(index), each) for index, each in enumerate(value)]
    return found + [place for name, each in children for place in every_place(each, (*steps, name))]


def pointer_text(steps: tuple[str, ...]) -> str:
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def expected(value: Any) -> str | None:
    told = value.written if isinstance(value, Number) else value
    return told if isinstance(told, str) and told else None


@given(DOCUMENTS, st.booleans(), st.sampled_from(["", " ", "\r\n\t"]), st.booleans())
def test_every_place_of_a_document_is_found_with_its_text_exactly_as_written(
    document: Any, ascii_only: bool, gap: str, binary: bool
) -> None:
    whole = gap + written(document, ascii_only, gap) + gap
    try:
        encoded = whole.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can say
        encoded = whole.encode(errors="replace") if ascii_only else b""
    message: str | bytes = encoded if binary and encoded else whole
    for steps, value in every_place(document):
        pointer = compiled(pointer_text(steps))
        assert text(pointer, Reader(pointer).read(message)) == expected(value)


@given(DOCUMENTS, st.lists(NAMES, min_size=1, max_size=3), st.booleans())
def test_a_pointer_finds_what_the_rfc_says_or_nothing(document: Any, steps: list[str], ascii_only: bool) -> None:
    places = dict(every_place(document))
    pointer = compiled(pointer_text(tuple(steps)))
    found = find(pointer, Reader(pointer).read(written(document, ascii_only, "")))
    if tuple(steps) in places and expected(places[tuple(steps)]) is not None:
        assert found == expected(places[tuple(steps)])
    elif tuple(steps) not in places:
        assert found is NOTHING


@given(st.one_of(st.text(), st.binary()))
def test_whatever_a_feed_sends_is_read_or_means_nothing(message: str | bytes) -> None:
    pointer = compiled("/seq")
    assert find(pointer, Reader(pointer).read(message)) is NOTHING


# --- single rules -------------------------------------------------------------------------------------------


def lookup(pointer: str, message: str | bytes) -> str | None:
    where = compiled(pointer)
    return text(where, Reader(where).read(message))


@pytest.mark.parametrize(
    ("pointer", "message", "token"),
    [
        ("/seq", '{"seq": 12345678901234567890123}', "12345678901234567890123"),
        ("/seq", '{"seq": 1.10}', "1.10"),
        ("/seq", '{"seq": -0.0e+5}', "-0.0e+5"),
        ("/seq", '{"seq": "007"}', "007"),
        ("/seq", '{"s\\u0065q": 7}', "7"),
        ("/data/1/id", '{"data": [{"id": 1}, {"id": 2}]}', "2"),
        ("/a~1b", '{"a/b": 1}', "1"),
        ("/a~01", '{"a~1": 1}', "1"),
        ("/", '{"": 1}', "1"),
        ("/0", "[7]", "7"),
        ("/0", '{"0": 7}', "7"),
        ("/seq", b'{"seq": 7}', "7"),
        ("/ä", '{"ä": 1}'.encode(), "1"),
        ("/seq", '{"seq": 1, "seq": 2}', "2"),
        ("/00", "[7]", None),
        ("/-", "[7]", None),
        ("/1", "[7]", None),
        ("/99999999999999999999999999", "[7]", None),
        ("/seq", '{"seq": null}', None),
        ("/seq", '{"seq": true}', None),
        ("/seq", '{"seq": {"seq": 1}}', None),
        ("/seq", '{"seq": ""}', None),
        ("/seq", '{"data": {"seq": 1}}', None),
        ("/seq", '{"text": "\\"seq\\": 1"}', None),
        ("/seq", '{"seq": 1} {"seq": 2}', None),
        ("/seq", '{"seq": 1', None),
        ("/seq", b'{"seq": 1, "text": "\xff"}', None),
        ("/seq", '{"seq": 1, "deep": ' + "[" * 100_000 + "]" * 100_000 + "}", None),
    ],
)
def test_a_token_is_the_text_of_a_string_or_number_and_nothing_else(
    pointer: str, message: str | bytes, token: str | None
) -> None:
    assert lookup(pointer, message) == token


@pytest.mark.parametrize("wrong", ["", "seq", "#/seq"])
def test_what_is_no_pointer_is_refused_with_what_would_be_one(wrong: str) -> None:
    with pytest.raises(ValueError, match="expected one such as /seq"):
        compiled(wrong)
