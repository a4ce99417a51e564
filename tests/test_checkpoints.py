"""Checkpoints, ids and numbers that the file points to, through the real loop of a child."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.child import Child, lines, task
from tests.feed import TEXT, Feed, Peer, frame
from tests.wait import until
from workers.board import CONNECTS, GAPS, MESSAGES, TOKENS_DROPPED
from workers.handler import Connection, Handler
from workers.sinks.envelope import Batch, Envelope

QUERY = "/?from=${checkpoint:-0}"


def event(number: int, **more: Any) -> str:
    return json.dumps({"seq": number, **more})


def together(peer: Peer, texts: Sequence[str]) -> None:
    """In one write, so that they arrive as one batch or in few."""
    peer.raw(b"".join(frame(TEXT, text.encode()) for text in texts))


def asked(feed: Feed) -> list[str]:
    return [connect.path.removeprefix("/?from=") for connect in list(feed.connects)]


def scripted(*turns: Callable[[Peer], object]) -> Callable[[Peer], None]:
    """What each connection does after it was accepted; the last one serves on."""

    def behave(peer: Peer) -> None:
        peer.accept()
        number = min(peer.number, len(turns) - 1)
        turns[number](peer)
        if number == len(turns) - 1:
            peer.serve()

    return behave


def sends(*numbers: int, then: Callable[[Peer], object] = lambda peer: None) -> Callable[[Peer], object]:
    def turn(peer: Peer) -> None:
        together(peer, [event(number) for number in numbers])
        then(peer)

    return turn


def numbers(path: Path) -> list[int]:
    return [json.loads(line["data"])["seq"] for line in lines(path)]


# --- tokens -------------------------------------------------------------------------------------------------


def test_a_token_is_committed_only_behind_the_events_up_to_it(tmp_path: Path) -> None:
    def behave(peer: Peer) -> None:
        peer.accept()
        for number in range(1, 301):
            peer.text(event(number))
            peer.feed.closing.wait(0.003)
        peer.serve()

    path = tmp_path / "events"
    with Feed(behave) as feed, Child(task(feed.url, pointer="/seq", sink=f"jsonl:{path}")) as child:
        seen: list[int] = []

        def all_committed() -> bool:
            token = int(child.slot.read_checkpoint() or 0)
            if token and (not seen or seen[-1] != token):
                seen.append(token)
                assert len(lines(path)) >= token
            return token == 300

        until(all_committed, 10)
    assert seen == sorted(seen)
    assert len(seen) >= 3


def test_a_reconnect_of_the_same_child_goes_on_from_the_newest_token_and_nothing_comes_twice(tmp_path: Path) -> None:
    def replay(peer: Peer) -> None:
        position = int(peer.path.rpartition("=")[2])
        together(peer, [event(number) for number in range(position + 1, position + 51)])

    path = tmp_path / "events"
    with (
        Feed(scripted(*[replay] * 20)) as feed,
        Child(task(feed.url + QUERY, pointer="/seq", sink=f"jsonl:{path}")) as child,
    ):
        child.word(MESSAGES, 20 * 50)
    assert numbers(path) == list(range(1, 20 * 50 + 1))
    assert asked(feed) == [str(number) for number in range(0, 20 * 50, 50)]


def test_what_stands_in_a_url_is_percent_encoded() -> None:
    turn = lambda peer: peer.text(json.dumps({"seq": "a+b&c=/ é"}))  # noqa: E731
    with Feed(scripted(turn, lambda peer: None)) as feed, Child(task(feed.url + QUERY, pointer="/seq")):
        until(lambda: len(feed.connects) == 2, 5)
    assert asked(feed) == ["0", "a%2Bb%26c%3D%2F%20%C3%A9"]


@pytest.mark.parametrize("together_", [False, True])
def test_with_a_handler_a_token_is_taken_of_the_messages_that_it_returned_from(together_: bool) -> None:
    class OneByOne(Handler):
        def message(self, connection: Connection, message: str | bytes) -> None:
            if json.loads(message)["seq"] >= 4:
                raise ValueError("not this one")

    class Together(Handler):
        def messages(self, connection: Connection, batch: list[str | bytes]) -> None:
            if json.loads(batch[-1])["seq"] >= 4:
                raise ValueError("not these")

    def turn(peer: Peer) -> None:
        together(peer, [event(1), event(2), event(3)])
        until(lambda: child.slot.read_checkpoint() == "3", 5)
        together(peer, [event(4), event(5)])

    kind = Together if together_ else OneByOne
    with Feed(scripted(turn)) as feed:
        child = Child(task(feed.url, pointer="/seq", handler="a.py:B"), kind)
        with child:
            child.word(MESSAGES, 5)
            assert child.stop() == 0
            assert child.slot.read_checkpoint() == "3"


def test_tokens_that_no_row_can_hold_are_told_once_and_end_nothing(tmp_path: Path) -> None:
    texts = [event(7), *[json.dumps({"seq": "x" * 3000}), json.dumps({"seq": "\ud800"})] * 10]
    path = tmp_path / "events"

    def turn(peer: Peer) -> None:
        for number, text in enumerate(texts, 1):
            peer.text(text)
            child.word(MESSAGES, number)  # of a batch only the last token counts

    with Feed(scripted(turn)) as feed:
        child = Child(task(feed.url, pointer="/seq", sink=f"jsonl:{path}"))
        with child:
            child.word(MESSAGES, len(texts))
            assert child.stop() == 0
            assert child.slot.read_checkpoint() == "7"
            reasons = [line["reason"] for line in child.log("checkpoint.dropped")]
    assert len(reasons) == 2
    assert "3000 bytes, at most 2048" in reasons[0]
    assert "surrogate" in reasons[1]


# --- refused tokens -----------------------------------------------------------------------------------------


def refusing(refuse: Callable[[Peer], object]) -> Callable[[Peer], None]:
    """A feed that has forgotten what came after 41, and goes on at 100."""

    def behave(peer: Peer) -> None:
        if peer.path.endswith("=41"):
            refuse(peer)
            return
        peer.accept()
        peer.text(event(100))
        peer.serve()

    return behave


def closes(code: int) -> Callable[[Peer], object]:
    def refuse(peer: Peer) -> None:
        peer.accept()
        peer.close(code)

    return refuse


@pytest.mark.parametrize(
    "refuse",
    [
        lambda peer: peer.refuse(410),
        lambda peer: peer.refuse(404),
        closes(4404),
        closes(1008),
        lambda peer: peer.accept(),
    ],
    ids=["410", "404", "4404", "1008", "end"],
)
def test_a_checkpoint_that_the_far_end_refuses_is_dropped_once_and_told(refuse: Callable[[Peer], object]) -> None:
    with Feed(refusing(refuse)) as feed, Child(task(feed.url + QUERY, checkpoint="41", pointer="/seq")) as child:
        child.word(MESSAGES, 1)
        assert asked(feed) == ["41", "41", "41", "0"]
        assert child.words[TOKENS_DROPPED] == 1
        (line,) = child.log("checkpoint.dropped")
        assert line["level"] == "ERROR"
        assert "refused it 3 times in a row" in line["reason"]
        assert child.stop() == 0
        assert child.slot.read_checkpoint() == "100"


@pytest.mark.parametrize("token", ["a\nX-Other: b", "a\0b", "a\r", "\x7f"], ids=["line", "null", "return", "delete"])
def test_a_checkpoint_that_no_header_can_carry_is_left_out_and_told_once(token: str) -> None:
    header = (("X-From", "${checkpoint:-the begin}"),)
    cut_twice = scripted(lambda peer: None, lambda peer: None, lambda peer: None)
    with Feed(cut_twice) as feed, Child(task(feed.url, headers=header, checkpoint=token)) as child:
        child.word(CONNECTS, 3)
        assert [connect.headers["x-from"] for connect in list(feed.connects)] == ["the begin"] * 3
        assert child.words[TOKENS_DROPPED] == 1
        (line,) = child.log("checkpoint.dropped")
        assert "cannot carry" in line["reason"]
        assert token not in child.log_text()


def test_a_checkpoint_of_any_characters_is_carried_where_it_can_be() -> None:
    token = 'a\n\0"é 東+&'
    subscribe = ('{"from": "${checkpoint}"}',)

    def behave(peer: Peer) -> None:
        peer.accept()
        peer.serve()

    with Feed(behave) as feed, Child(task(feed.url + QUERY, subscribe=subscribe, checkpoint=token)) as child:
        until(lambda: feed.texts, 20)
        assert child.log("checkpoint.dropped") == []
    assert [unquote(text) for text in asked(feed)] == [token]
    assert [json.loads(text)["from"] for _, text in feed.texts] == [token]


def test_a_checkpoint_in_a_header_is_sent_as_utf_8() -> None:
    header = (("X-From", "${checkpoint}"),)
    with Feed(scripted(lambda peer: None)) as feed, Child(task(feed.url, headers=header, checkpoint="é東")) as child:
        child.word(CONNECTS, 1)
    assert feed.connects[0].headers["x-from"] == "é東"


@pytest.mark.parametrize(
    "refuse",
    [
        lambda peer: peer.refuse(401),
        lambda peer: peer.refuse(429),
        lambda peer: peer.refuse(503),
        closes(1001),
        closes(1012),
        closes(1013),
    ],
    ids=["401", "429", "503", "1001", "1012", "1013"],
)
def test_what_says_nothing_about_the_checkpoint_drops_none(refuse: Callable[[Peer], object]) -> None:
    with Feed(refusing(refuse)) as feed, Child(task(feed.url + QUERY, checkpoint="41", pointer="/seq")) as child:
        until(lambda: len(feed.connects) >= 8, 10)
        assert set(asked(feed)) == {"41"}
        assert not child.log("checkpoint.dropped")


def test_a_feed_that_ends_each_connection_after_a_message_has_refused_nothing() -> None:
    with (
        Feed(scripted(*[sends(41)] * 8)) as feed,
        Child(task(feed.url + QUERY, checkpoint="41", pointer="/seq")) as child,
    ):
        until(lambda: len(feed.connects) >= 8, 5)
        assert not child.log("checkpoint.dropped")
    assert set(asked(feed)) == {"41"}


def test_a_checkpoint_that_was_not_the_cause_is_used_again() -> None:
    with Feed(lambda peer: peer.refuse(404)) as feed, Child(task(feed.url + QUERY, checkpoint="41")):
        until(lambda: len(feed.connects) >= 8, 5)
    assert asked(feed)[:8] == ["41", "41", "41", "0", "41", "41", "41", "0"]


def test_it_is_never_dropped_where_the_file_says_so_or_where_no_attempt_carries_it() -> None:
    refuse = lambda peer: peer.refuse(404)  # noqa: E731
    with Feed(refuse) as feed, Child(task(feed.url + QUERY, checkpoint="41", checkpoint_retries=0)) as child:
        until(lambda: len(feed.connects) >= 8, 5)
        assert not child.log("checkpoint.dropped")
    assert set(asked(feed)) == {"41"}
    with Feed(refuse) as feed, Child(task(feed.url, checkpoint="41")) as child:
        until(lambda: len(feed.connects) >= 8, 5)
        assert not child.log("checkpoint.dropped")


# --- gaps ---------------------------------------------------------------------------------------------------


def test_gaps_are_counted_told_in_one_line_and_everything_is_delivered(tmp_path: Path) -> None:
    path = tmp_path / "events"
    texts = [event(number) for number in range(0, 2000, 2)]
    with (
        Feed(scripted(lambda peer: together(peer, texts))) as feed,
        Child(task(feed.url, sequence="/seq", sink=f"jsonl:{path}")) as child,
    ):
        child.word(MESSAGES, 1000)
        assert child.words[GAPS] == 999
        assert [line["level"] for line in child.log("sequence.gap")] == ["WARNING"]
        assert child.log("sequence.gap")[0]["expected"] % 2 == 1
    assert len(lines(path)) == 1000
    assert feed.accepted == 1


def test_the_numbers_start_anew_with_each_connect() -> None:
    with Feed(scripted(sends(1, 2), sends(50, 51))) as feed, Child(task(feed.url, sequence="/seq")) as child:
        child.word(MESSAGES, 4)
        assert child.words[GAPS] == 0


def test_on_a_gap_the_connection_is_closed_and_what_is_missing_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "events"
    turns = (sends(1, 2, 5, 6, then=Peer.serve), sends(3, 4, 5, 6))
    keys = {"pointer": "/seq", "sequence": "/seq", "on_gap": "reconnect", "sink": f"jsonl:{path}"}
    with Feed(scripted(*turns)) as feed, Child(task(feed.url + QUERY, **keys)) as child:
        child.word(MESSAGES, 6)
        assert child.words[GAPS] == 1
        assert "3 to 4 are missing" in child.log("sequence.gap")[0]["reason"]
        assert "3 to 4 are missing" in child.log("connection.closed")[0]["reason"]
    assert feed.close_codes == [4000, 1001]
    assert asked(feed) == ["0", "2"]
    assert numbers(path) == [1, 2, 3, 4, 5, 6]


def test_a_gap_that_is_still_there_after_the_reconnect_is_lived_with(tmp_path: Path) -> None:
    """The far end sends again what the token names, and has nothing to fill the gap."""
    path = tmp_path / "events"
    turns = (sends(1, 2, 5, 6, then=Peer.serve), sends(2, 5, 6, 7))
    keys = {"pointer": "/seq", "sequence": "/seq", "on_gap": "reconnect", "sink": f"jsonl:{path}"}
    with Feed(scripted(*turns)) as feed, Child(task(feed.url + QUERY, **keys)) as child:
        child.word(MESSAGES, 6)
        assert child.words[GAPS] == 2
    assert asked(feed) == ["0", "2"]
    assert numbers(path) == [1, 2, 2, 5, 6, 7]


@pytest.mark.parametrize("kind", [None, Handler])
def test_without_a_checkpoint_that_the_far_end_is_told_everything_that_came_is_delivered(
    tmp_path: Path, kind: type[Handler] | None
) -> None:
    path = tmp_path / "events"
    turns = (sends(1, 2, 5, 6, then=Peer.serve), sends(9))
    keys = {"sequence": "/seq", "on_gap": "reconnect", "sink": f"jsonl:{path}", "handler": "a.py:B" if kind else ""}
    with Feed(scripted(*turns)) as feed, Child(task(feed.url, **keys), kind) as child:
        child.word(MESSAGES, 5)
    assert numbers(path) == [1, 2, 5, 6, 9]
    assert feed.close_codes == [4000, 1001]


# --- ids ----------------------------------------------------------------------------------------------------


def test_the_feeds_own_id_stands_in_the_line_of_its_event(tmp_path: Path) -> None:
    texts = ['{"id": 1.10}', '{"id": "a-17"}', '{"no": "id"}', "no json"]
    path = tmp_path / "events"
    with (
        Feed(scripted(lambda peer: together(peer, texts))) as feed,
        Child(task(feed.url, id="/id", sink=f"jsonl:{path}")) as child,
    ):
        child.word(MESSAGES, 4)
    assert [line.get("id") for line in lines(path)] == ["1.10", "a-17", None, None]


def test_with_a_handler_the_id_is_that_of_what_it_emits(tmp_path: Path) -> None:
    class Renaming(Handler):
        def message(self, connection: Connection, message: str | bytes) -> None:
            self.emit(json.dumps({"id": "mine-" + json.loads(message)["id"]}))

    path = tmp_path / "events"
    with (
        Feed(scripted(lambda peer: peer.text('{"id": "theirs"}'))) as feed,
        Child(task(feed.url, id="/id", handler="a.py:B", sink=f"jsonl:{path}"), Renaming) as child,
    ):
        child.word(MESSAGES, 1)
    assert [line["id"] for line in lines(path)] == ["mine-theirs"]


# --- what the page shows ------------------------------------------------------------------------------------


def test_the_consumer_on_the_page_yields_each_event_once_and_nothing_of_a_replaced_owner() -> None:
    page = (Path(__file__).parents[1] / "docs" / "checkpoints.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
    (example,) = re.findall(r"^```json\n(.*?)^```", page, re.S | re.M)
    names: dict[str, Any] = {"__name__": "page"}
    exec(code, names)

    def line(epoch: int, id: str) -> str:
        return json.dumps(json.loads(example) | {"epoch": epoch, "id": id})

    copies = [line(1, "a"), line(1, "b"), line(2, "b"), line(2, "c"), line(1, "c"), line(1, "z"), line(2, "d")]
    assert [event["id"] for event in names["fresh"](copies)] == ["a", "b", "c", "d"]
    assert len(list(names["fresh"]([line(1, "a"), line(1, "b"), line(1, "a")], remember=1))) == 3


def test_the_line_on_the_page_is_one_that_the_envelope_makes() -> None:
    page = (Path(__file__).parents[1] / "docs" / "checkpoints.md").read_text()
    (example,) = re.findall(r"^```json\n(.*?)^```", page, re.S | re.M)
    shown = json.loads(example)
    at_ns = int(datetime.fromisoformat(shown["received_at"]).timestamp()) * 10**9
    batch = Batch(shown["connection"], shown["seq"], at_ns, [shown["data"]], 1, [shown["id"]])
    assert Envelope(shown["shard"], shown["epoch"]).lines(batch).decode() == example
