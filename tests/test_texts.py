"""What others write is shown so that nothing of it is hidden, moves a cursor or fills the screen."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from workers.texts import printable, printable_json, shortened

TEXTS = st.text(st.characters(exclude_categories=()), max_size=200)


def test_control_characters_of_both_sets_and_marks_of_direction_are_shown_by_their_codes() -> None:
    assert printable("a\x1b[2J \x9b2J \x85 \x7f \n \u202e \u2028 \ud800 ä ☃") == (
        "a\\x1b[2J \\x9b2J \\x85 \\x7f \\n \\u202e \\u2028 \\ud800 ä ☃"
    )


@given(TEXTS)
def test_whatever_is_shown_can_be_printed(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert shown == text or not text.isprintable()


@given(TEXTS)
def test_json_can_be_printed_and_means_what_it_meant(text: str) -> None:
    shown = printable_json(json.dumps(text, ensure_ascii=False))
    assert shown.isprintable()
    assert json.loads(shown) == json.loads(json.dumps(text))


@given(TEXTS, st.integers(10, 100))
def test_a_text_that_is_too_long_keeps_its_beginning_and_its_end(text: str, max_bytes: int) -> None:
    whole = text.encode(errors="replace").decode()
    shown = shortened(text, max_bytes)
    assert len(shown.encode()) <= max_bytes
    if len(whole.encode()) <= max_bytes:
        assert shown == whole
    else:
        begin, end = (shown[:3], shown[-3:])
        assert "..." in shown
        assert whole.startswith(begin.rstrip("."))
        assert whole.endswith(end.lstrip("."))
