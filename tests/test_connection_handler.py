"""A user's handler between the connections and the sink: order, errors, sending, timers, checkpoints, slowness."""

from __future__ import annotations

import dataclasses
import pydoc
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenured import Connection, Handler, Shard
from tests.child import Child, lines, task
from tests.feed import TEXT, Feed, Peer, frame
from tests.wait import until
from workers.board import CONNECTS, HEARTBEAT, MESSAGES, OPEN, SINK_WAITING
from workers.handler import BadHandler, load
from workers.spec import StreamSpec

ERRORS_MAX = StreamSpec("").handler_errors


def sends(count: int) -> Callable[[Peer], None]:
    def behave(peer: Peer) -> None:
        peer.accept()
        for number in range(count):
            peer.text(str(number))
        peer.serve()

    return behave


def with_handler(handler: type[Handler], *urls: str, **spec: Any) -> Child:
    return Child(task(*urls, handler="test:Handler", **spec), handler)


def test_what_happens_on_a_connection_reaches_the_handler_in_order() -> None:
    calls: list[Any] = []

    class Recorder(Handler):
        def start(self, shard: Shard) -> None:
            calls.append(("start", shard.name, shard.epoch, shard.checkpoint, shard.connections))

        def opened(self, connection: Connection) -> None:
            calls.append(("opened", connection.number))

        def message(self, connection: Connection, message: str | bytes) -> None:
            calls.append((message, connection.number))

        def closed(self, connection: Connection, code: int, reason: str) -> None:
            calls.append(("closed", code))

        def stop(self) -> None:
            calls.append("stop")

    with Feed(sends(3)) as feed, with_handler(Recorder, feed.url, epoch=5, checkpoint="c") as child:
        child.word(MESSAGES, 3)
        assert child.stop() == 0
    assert calls == [
        ("start", "trades/7", 5, "c", 1),
        ("opened", 0),
        *((str(number), 0) for number in range(3)),
        "stop",
        ("closed", 1001),
    ]


def test_a_handler_that_overrides_nothing_emits_every_message(tmp_path: Path) -> None:
    path = tmp_path / "events"
    with Feed(sends(50)) as feed, with_handler(Handler, feed.url, sink=f"jsonl:{path}") as child:
        child.word(MESSAGES, 50)
    assert [(event["seq"], event["data"]) for event in lines(path)] == [(n + 1, str(n)) for n in range(50)]


def test_all_methods_but_target_are_called_in_one_thread() -> None:
    threads: dict[str, set[int]] = {"target": set(), "others": set()}

    class Recorder(Handler):
        def start(self, shard: Shard) -> None:
            self.every(0.01, self.note)

        def note(self) -> None:
            threads["others"].add(threading.get_ident())

        def target(self, connection: Connection) -> Any:
            threads["target"].add(threading.get_ident())
            return super().target(connection)

        def message(self, connection: Connection, message: str | bytes) -> None:
            self.note()

    with Feed(sends(3)) as feed, with_handler(Recorder, feed.url) as child:
        child.word(MESSAGES, 3)
        until(lambda: threads["others"], 5)
    assert len(threads["others"]) == 1
    assert not threads["others"] & threads["target"]


def test_target_is_computed_for_each_attempt_and_its_errors_are_told() -> None:
    attempts: list[int] = []

    class Ticketed(Handler):
        def target(self, connection: Connection) -> tuple[str, dict[str, str]]:
            attempts.append(connection.number)
            if len(attempts) == 1:
                raise RuntimeError("no ticket")
            return f"{feed.url}/?ticket={len(attempts)}", {"X-Ticket": str(len(attempts))}

    def behave(peer: Peer) -> None:
        peer.accept()
        if len(peer.feed.connects) > 2:
            peer.serve()

    with Feed(behave) as feed, with_handler(Ticketed) as child:
        child.word(CONNECTS, 3)
        assert "no ticket" in child.log("connection.closed")[0]["reason"]
    assert [connect.path for connect in feed.connects] == ["/?ticket=2", "/?ticket=3", "/?ticket=4"]
    assert [connect.headers["x-ticket"] for connect in feed.connects] == ["2", "3", "4"]


def test_a_handler_sends_and_closes() -> None:
    sent: list[bool] = []

    class Talker(Handler):
        def opened(self, connection: Connection) -> None:
            sent.append(connection.send("hello"))

        def message(self, connection: Connection, message: str | bytes) -> None:
            connection.close(4000)
            sent.append(connection.send("too late"))

    with Feed(sends(1)) as feed, with_handler(Talker, feed.url, subscribe=("subscription",)) as child:
        child.word(CONNECTS, 2)
        until(lambda: feed.close_codes, 5)
    assert [text for number, text in feed.texts if number == 0] == ["subscription", "hello"]
    assert feed.close_codes[0] == 4000
    assert sent[:2] == [True, False]


def test_a_close_code_that_may_not_be_sent_is_an_error_of_the_handler() -> None:
    class Wrong(Handler):
        def opened(self, connection: Connection) -> None:
            connection.close(1006)

    with Feed(sends(0)) as feed, with_handler(Wrong, feed.url) as child:
        assert "1006" in until(lambda: child.log("handler.failed"), 5)[0]["reason"]
        assert child.words[OPEN] == 1


def test_the_help_on_a_handler_says_what_to_override_and_what_to_call_and_what_its_arguments_offer() -> None:
    text = pydoc.render_doc(Handler, renderer=pydoc.plaintext)
    told = text[: text.index("Methods defined here")]
    offered = [name for kind in (Handler, Connection) for name in vars(kind) if not name.startswith("_")]
    fields = [field.name for field in dataclasses.fields(Shard)]
    assert [name for name in (*offered, *fields) if not re.search(rf"\b{name}\b", told)] == []


# --- errors -------------------------------------------------------------------------------------------------


def test_an_exception_is_logged_with_the_messages_identity_and_the_next_message_goes_on(tmp_path: Path) -> None:
    class Picky(Handler):
        def message(self, connection: Connection, message: str | bytes) -> None:
            if message == "3":
                raise KeyError("three")
            self.emit(message)

    path = tmp_path / "events"
    with Feed(sends(6)) as feed, with_handler(Picky, feed.url, epoch=9, sink=f"jsonl:{path}") as child:
        child.word(MESSAGES, 6)
        assert child.stop() == 0
    assert [event["data"] for event in lines(path)] == ["0", "1", "2", "4", "5"]
    failed = child.log("handler.failed")
    assert len(failed) == 1
    assert (failed[0]["shard"], failed[0]["epoch"], failed[0]["connection"]) == ("trades/7", 9, 0)
    assert failed[0]["message_number"] == 4
    assert failed[0]["reason"] == "KeyError: 'three'"
    assert Path(__file__).name in failed[0]["where"]


def test_each_message_that_fails_has_a_number_of_its_own_also_if_nothing_is_ever_emitted() -> None:
    class Flaky(Handler):
        def message(self, connection: Connection, message: str | bytes) -> None:
            if message in ("1", "3"):
                raise ValueError("flaky")

    def behave(peer: Peer) -> None:
        peer.accept()
        for number in range(4):
            before = child.words[MESSAGES]
            peer.text(str(number))
            child.word(MESSAGES, before + 1)  # so that each is read by itself
        if len(peer.feed.connects) > 1:
            peer.serve()

    with Feed(behave) as feed:
        child = with_handler(Flaky, feed.url)
        with child:
            child.word(MESSAGES, 8)
    assert [record["message_number"] for record in child.log("handler.failed")] == [2, 4, 6, 8]


def test_an_exception_without_a_message_names_none() -> None:
    class Wrong(Handler):
        def opened(self, connection: Connection) -> None:
            raise ValueError("wrong")

    with Feed(sends(0)) as feed, with_handler(Wrong, feed.url) as child:
        assert "message_number" not in until(lambda: child.log("handler.failed"), 5)[0]


def test_what_the_handler_never_saw_is_told_at_the_end_only_if_there_are_messages_of_it() -> None:
    class Broken(Handler):
        def message(self, connection: Connection, message: str | bytes) -> None:
            raise ValueError("broken")

    with Feed(sends(ERRORS_MAX)) as feed, with_handler(Broken, feed.url) as child:
        assert child.wait() == 1
    assert len(child.log("child.failed")) == 1

    def behave(peer: Peer) -> None:
        peer.accept()
        peer.raw(b"".join(frame(TEXT, b"x") for _ in range(ERRORS_MAX + 3)))
        peer.serve()

    with Feed(behave) as feed, with_handler(Broken, feed.url) as child:
        assert child.wait() == 1
    assert "before the end, though received: 3 messages" in child.log("child.failed")[-1]["reason"]


def test_ten_exceptions_in_a_row_end_the_child_and_what_was_emitted_before_is_kept(tmp_path: Path) -> None:
    class Broken(Handler):
        def message(self, connection: Connection, message: str | bytes) -> None:
            if int(message) >= 20:
                raise ValueError("broken")
            self.emit(message)
            self.checkpoint(str(message))

    path = tmp_path / "events"
    with Feed(sends(100)) as feed, with_handler(Broken, feed.url, sink=f"jsonl:{path}") as child:
        assert child.wait() == 1
        assert len(child.log("handler.failed")) == 10
        assert "in a row" in child.log("child.failed")[0]["reason"]
        assert child.slot.read_checkpoint() == "19"
    assert len(lines(path)) == 20
    assert feed.close_codes == [1001]


def test_nine_exceptions_in_a_row_do_not() -> None:
    class Flaky(Handler):
        def message(self, connection: Connection, message: str | bytes) -> None:
            if int(message) % 10:
                raise ValueError("flaky")

    with Feed(sends(100)) as feed, with_handler(Flaky, feed.url) as child:
        child.word(MESSAGES, 100)
        assert child.stop() == 0


@pytest.mark.parametrize("ending", [SystemExit(0), KeyboardInterrupt()])
def test_a_handler_that_ends_the_process_is_named_as_what_did(ending: BaseException) -> None:
    class Leaving(Handler):
        def message(self, connection: Connection, message: str | bytes) -> None:
            raise ending

    with Feed(sends(1)) as feed, with_handler(Leaving, feed.url) as child:
        assert child.wait() == 1
        (failed,) = child.log("child.failed")
        assert failed["reason"].startswith(f"the handler ended the process: {type(ending).__name__}")


def test_a_sink_that_fails_while_a_handler_waits_for_room_in_it_ends_the_child(tmp_path: Path) -> None:
    class Eager(Handler):
        def message(self, connection: Connection, message: str | bytes) -> None:
            for _ in range(8):
                self.emit("x" * 65_536)

    (tmp_path / "sink.py").write_text(
        "import pathlib, time\nfrom tenured import Sink\nclass Full(Sink):\n  def write(self, events):\n"
        f"    while not pathlib.Path('{tmp_path}/go').exists(): time.sleep(0.01)\n    raise OSError('gone')\n"
    )
    spec = {"sink": f"{tmp_path}/sink.py:Full", "sink_buffer": 65_536}
    with Feed(sends(1)) as feed, with_handler(Eager, feed.url, **spec) as child:
        child.word(SINK_WAITING, 65_536)
        beat = child.words[HEARTBEAT]
        child.word(HEARTBEAT, beat + 1)  # it waits in emit, and keeps the child alive
        (tmp_path / "go").touch()
        assert child.wait() == 1
        assert "OSError: gone" in child.log("child.failed")[0]["reason"]


def test_what_a_timer_emits_into_a_full_sink_waits_for_room(tmp_path: Path) -> None:
    class Timed(Handler):
        def start(self, shard: Shard) -> None:
            self.every(0.005, lambda: self.emit("x" * 20_000))

    (tmp_path / "sink.py").write_text(
        "import pathlib, time\nfrom tenured import Sink\nclass Slow(Sink):\n  def write(self, events):\n"
        f"    while not pathlib.Path('{tmp_path}/go').exists(): time.sleep(0.01)\n"
    )
    spec = {"sink": f"{tmp_path}/sink.py:Slow", "sink_buffer": 65_536}
    with Feed(sends(0)) as feed, with_handler(Timed, feed.url, **spec) as child:
        child.word(SINK_WAITING, 65_536)
        begun = time.monotonic()
        until(lambda: time.monotonic() > begun + 1, 5)  # two hundred of them would be due
        assert child.words[SINK_WAITING] < 200_000
        (tmp_path / "go").touch()
        assert child.stop() == 0


def test_a_start_that_raises_ends_the_child() -> None:
    class Unready(Handler):
        def start(self, shard: Shard) -> None:
            raise RuntimeError("not today")

    with with_handler(Unready, "ws://127.0.0.1:1") as child:
        assert child.wait() == 1
    assert "not today" in child.log("handler.failed")[0]["reason"]


# --- timers, checkpoints, slowness --------------------------------------------------------------------------


def test_every_calls_again_and_again_also_without_messages(tmp_path: Path) -> None:
    class Ticking(Handler):
        def start(self, shard: Shard) -> None:
            self.every(0.02, lambda: self.emit("tick"))

    path = tmp_path / "events"
    with Feed(sends(0)) as feed, with_handler(Ticking, feed.url, sink=f"jsonl:{path}"):
        until(lambda: len(lines(path)) >= 5, 5)
    assert lines(path)[0]["connection"] is None


def test_a_checkpoint_reaches_the_board_only_after_the_events_before_it_are_in_the_sink(tmp_path: Path) -> None:
    class Committing(Handler):
        def message(self, connection: Connection, message: str | bytes) -> None:
            self.emit(message)
            self.checkpoint(str(message))

    def behave(peer: Peer) -> None:
        peer.accept()
        for number in range(300):
            peer.text(str(number))
            peer.feed.closing.wait(0.003)
        peer.serve()

    path = tmp_path / "events"
    with Feed(behave) as feed, with_handler(Committing, feed.url, sink=f"jsonl:{path}") as child:
        seen: list[int] = []

        def committed() -> bool:
            token = child.slot.read_checkpoint()
            if token is not None and (not seen or seen[-1] != int(token)):
                seen.append(int(token))
                assert len(lines(path)) > int(token)
            return seen != [] and seen[-1] == 299

        until(committed, 10)
        assert seen == sorted(seen)
        assert len(seen) >= 3


def test_the_last_checkpoint_is_on_the_board_after_a_stop() -> None:
    class AtTheEnd(Handler):
        def stop(self) -> None:
            self.checkpoint("last")

    with Feed(sends(0)) as feed, with_handler(AtTheEnd, feed.url) as child:
        child.word(OPEN, 1)
        assert child.stop() == 0
        assert child.slot.read_checkpoint() == "last"


def test_an_empty_checkpoint_is_an_error_of_the_handler() -> None:
    class Empty(Handler):
        def start(self, shard: Shard) -> None:
            with pytest.raises(ValueError, match="a checkpoint is empty"):
                self.checkpoint("")

    with Feed(sends(0)) as feed, with_handler(Empty, feed.url) as child:
        assert child.stop() == 0


def test_a_checkpoint_of_more_than_two_kib_is_an_error_of_the_handler() -> None:
    class Large(Handler):
        def opened(self, connection: Connection) -> None:
            self.checkpoint("x" * 2049)

    with Feed(sends(0)) as feed, with_handler(Large, feed.url) as child:
        assert "2049" in until(lambda: child.log("handler.failed"), 5)[0]["reason"]


def test_the_committed_checkpoint_is_inserted_at_the_next_connect() -> None:
    class Resuming(Handler):
        def message(self, connection: Connection, message: str | bytes) -> None:
            self.checkpoint(str(message))

    def behave(peer: Peer) -> None:
        peer.accept()
        peer.serve(messages=1)
        if len(peer.feed.connects) == 1:
            peer.text("17")
            until(lambda: child.slot.read_checkpoint() == "17", 5)
        else:
            peer.serve()

    with Feed(behave) as feed:
        child = with_handler(Resuming, feed.url, subscribe=("from ${checkpoint:-0}",))
        with child:
            child.word(CONNECTS, 2)
            until(lambda: len(feed.texts) >= 2, 5)
    assert [text for _, text in feed.texts] == ["from 0", "from 17"]


def test_a_slow_handler_delays_neither_heartbeat_nor_pings_by_more_than_a_message() -> None:
    class Slow(Handler):
        def message(self, connection: Connection, message: str | bytes) -> None:
            time.sleep(0.01)

    with (
        Feed(sends(120)) as feed,
        with_handler(Slow, feed.url, ping_interval_ms=100, ping_timeout_ms=100) as child,
    ):
        child.word(MESSAGES, 1)
        oldest = 0

        def done() -> bool:
            nonlocal oldest
            now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            oldest = max(oldest, now_ns - child.words[HEARTBEAT])
            return bool(child.words[MESSAGES] >= 120)

        until(done, 10)
        assert oldest < 600_000_000
        assert child.words[CONNECTS] == 1


def test_emitting_without_end_waits_for_the_sink_and_keeps_the_heartbeat(tmp_path: Path) -> None:
    class Gushing(Handler):
        def opened(self, connection: Connection) -> None:
            for _ in range(2000):
                self.emit("x" * 10_000)

    path = tmp_path / "events"
    with Feed(sends(0)) as feed, with_handler(Gushing, feed.url, sink=f"jsonl:{path}") as child:
        child.word(OPEN, 1)
        until(lambda: path.exists() and path.stat().st_size > 20_000_000, 10)
    assert len(lines(path)) == 2000


# --- loading ------------------------------------------------------------------------------------------------

SOURCE = "from tenured import Handler\nclass Trades(Handler):\n    pass\nimported = Handler\nother = 5\n"


def test_a_handler_is_loaded_from_a_file_relative_to_the_configuration_and_only_once(tmp_path: Path) -> None:
    (tmp_path / "trades.py").write_text(SOURCE)
    first = load("./trades.py:Trades", str(tmp_path))
    assert issubclass(first, Handler)
    assert load(f"{tmp_path}/trades.py:Trades", "/") is first


def test_a_handler_is_loaded_by_its_module_from_the_python_path(tmp_path: Path) -> None:
    (tmp_path / "tenured_test_trades.py").write_text(SOURCE)
    assert load("tenured_test_trades:Trades", "/", (str(tmp_path),)).__name__ == "Trades"


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("trades.py", "expected file.py:Class"),
        ("trades.py:", "expected file.py:Class"),
        (":Trades", "expected file.py:Class"),
        ("missing.py:Trades", "there is no file"),
        ("trades.py:Missing", "there is no class Missing in"),
        ("trades.py:other", "no class derived from tenured.Handler"),
        ("no_such_module_here:Trades", "no module no_such_module_here"),
    ],
)
def test_a_reference_that_leads_to_no_handler_is_refused_with_a_sentence(
    tmp_path: Path, reference: str, sentence: str
) -> None:
    (tmp_path / "trades.py").write_text(SOURCE)
    with pytest.raises(BadHandler, match=sentence):
        load(reference, str(tmp_path))


def test_a_module_that_misses_another_one_raises_its_own_error(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import no_such_dependency\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        load("broken.py:Trades", str(tmp_path))
