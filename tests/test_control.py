"""The control socket: who is answered, what replaces what, and that nobody can hold it up."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from supervisor import control
from supervisor.ask import SOCKET_PATH_MAX_BYTES, NoAnswer, ask, socket_path
from supervisor.control import Control, Occupied, serve

HANDLERS: dict[str, control.Handler] = {"health": lambda request: {"ready": True, "asked": request}}


def served(
    run_dir: Path, use: Callable[[Control], Awaitable[Any]], handlers: Mapping[str, control.Handler] = HANDLERS
) -> Any:
    """The result of `use` while the socket is served."""

    async def all_of_it() -> Any:
        listening = await serve(run_dir, handlers)
        try:
            return await use(listening)
        finally:
            await listening.close()

    return asyncio.run(all_of_it())


def asking(path: Path, command: str, **arguments: Any) -> Awaitable[dict[str, Any]]:
    return asyncio.to_thread(ask, path, command, 5.0, **arguments)


def test_a_command_reaches_its_handler_with_its_arguments(tmp_path: Path) -> None:
    reply = served(tmp_path, lambda listening: asking(listening.path, "health", shard="trades/7"))
    assert reply == {"ready": True, "asked": {"command": "health", "shard": "trades/7"}}


def test_a_handler_may_be_asynchronous(tmp_path: Path) -> None:
    async def drain(request: Mapping[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"draining": True}

    assert served(tmp_path, lambda listening: asking(listening.path, "drain"), {"drain": drain}) == {"draining": True}


def test_a_handler_that_raises_costs_its_caller_an_error_and_nothing_else(tmp_path: Path) -> None:
    def broken(request: Mapping[str, Any]) -> dict[str, Any]:
        raise RuntimeError("no")

    async def both(listening: Control) -> dict[str, Any]:
        with pytest.raises(NoAnswer, match="refused broken: RuntimeError: no"):
            await asking(listening.path, "broken")
        return await asking(listening.path, "health")

    assert served(tmp_path, both, {**HANDLERS, "broken": broken})["ready"]


@pytest.mark.parametrize(
    "line",
    [b"\n", b"{}\n", b"[]\n", b'{"command": []}\n', b"\xff\n", b"x" * 100_000 + b"\n", b"[" * 60_000 + b"\n", b""],
)
def test_a_request_that_is_none_is_answered_with_what_is_expected(tmp_path: Path, line: bytes) -> None:
    def raw(path: Path) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(path))
            try:
                connection.sendall(line)
                connection.shutdown(socket.SHUT_WR)
            except BrokenPipeError:
                pass
            answer: dict[str, Any] = json.loads(connection.makefile("rb").readline())
            return answer

    answer = served(tmp_path, lambda listening: asyncio.to_thread(raw, listening.path))
    assert not answer["ok"]
    assert "with one of health" in answer["error"]


def test_the_folder_and_the_socket_are_for_our_user_only(tmp_path: Path) -> None:
    assert served(tmp_path / "made" / "run", modes_of) == [0o600, 0o700]


async def modes_of(listening: Control) -> list[int]:
    return [stat.S_IMODE(os.stat(path).st_mode) for path in (listening.path, listening.path.parent)]


def test_links_in_the_place_of_our_files_are_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.touch(0o644)
    run = tmp_path / "run"
    run.mkdir()
    (run / "control.lock").symlink_to(victim)
    with pytest.raises(Occupied, match=rf"run_dir {run} cannot be used: too many levels of symbolic links"):
        served(run, modes_of)
    (run / "control.lock").unlink()
    for name in ("control.sock", "control.sock.new"):
        (run / name).symlink_to(victim)
    assert served(run, modes_of)[0] == 0o600
    assert stat.S_IMODE(victim.stat().st_mode) == 0o644


def test_another_user_is_refused_even_where_the_folder_lets_him_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "_permitted", lambda connection: False)

    async def refused(listening: Control) -> None:
        with pytest.raises(NoAnswer, match="only root and the supervisor's own user"):
            await asking(listening.path, "health")

    served(tmp_path, refused)


def test_the_peers_user_is_taken_from_the_kernel() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert control._permitted(ours)


def test_a_second_supervisor_with_the_same_folder_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    async def second(listening: Control) -> dict[str, Any]:
        with pytest.raises(Occupied, match=f"another supervisor uses run_dir {tmp_path}"):
            await serve(tmp_path, {})
        return await asking(listening.path, "health")

    assert served(tmp_path, second)["ready"]


def test_a_socket_that_a_dead_supervisor_left_is_replaced(tmp_path: Path) -> None:
    for name in ("control.sock", "control.sock.new"):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(tmp_path / name))
    assert served(tmp_path, lambda listening: asking(listening.path, "health"))["ready"]


def test_nothing_is_left_but_the_lock_and_the_folder_can_be_used_again(tmp_path: Path) -> None:
    for _ in range(2):
        served(tmp_path, lambda listening: asking(listening.path, "health"))
        assert os.listdir(tmp_path) == ["control.lock"]


def test_a_socket_that_another_made_in_a_new_folder_of_that_name_is_left_alone(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"

    async def both(first: Control) -> dict[str, Any]:
        shutil.rmtree(run_dir)
        second = await serve(run_dir, HANDLERS)
        try:
            await first.close()
            return await asking(second.path, "health")
        finally:
            await second.close()

    async def all_of_it() -> dict[str, Any]:
        return await both(await serve(run_dir, {}))

    assert asyncio.run(all_of_it())["ready"]


@pytest.mark.parametrize("instead", ["nothing", "a file", "a folder in place of the socket"])
def test_the_end_does_not_fail_where_the_folder_is_gone(tmp_path: Path, instead: str) -> None:
    run_dir = tmp_path / "run"

    async def gone(listening: Control) -> None:
        shutil.rmtree(run_dir)
        if instead == "a file":
            run_dir.touch()
        elif instead != "nothing":
            listening.path.mkdir(parents=True)

    served(run_dir, gone)
    assert run_dir.exists() == (instead != "nothing")


def test_a_caller_that_says_nothing_holds_nobody_up(tmp_path: Path) -> None:
    async def beside(listening: Control) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(str(listening.path))
            return await asking(listening.path, "health")

    assert served(tmp_path, beside)["ready"]


def test_a_path_that_the_kernel_cannot_take_is_a_sentence(tmp_path: Path) -> None:
    room = SOCKET_PATH_MAX_BYTES - len("/control.sock")
    longest = Path("/" + "x" * (room - 1))
    assert len(str(socket_path(longest))) == SOCKET_PATH_MAX_BYTES
    with pytest.raises(Occupied, match="is 1 bytes too long for a socket"):
        asyncio.run(serve(Path(f"{longest}x"), {}))


def test_the_longest_path_that_is_allowed_works(tmp_path: Path) -> None:
    room = SOCKET_PATH_MAX_BYTES - len("/control.sock") - len(str(tmp_path)) - 1
    assert room > 0, "the temporary folder of this run is too deep for this test"
    assert served(tmp_path / ("x" * room), lambda listening: asking(listening.path, "health"))["ready"]


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Occupied, match=f"run_dir {tmp_path}/file cannot be used: file exists"):
        asyncio.run(serve(tmp_path / "file", {}))


def test_nobody_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(NoAnswer, match="no supervisor is running at"):
        ask(tmp_path / "control.sock", "health", 1.0)


def test_an_answer_that_is_none_is_a_sentence(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as strange:
        strange.bind(str(tmp_path / "control.sock"))
        strange.listen()
        for answer in (b"", b"{}\n", b"[" * 60_000 + b"\n"):
            with ThreadPoolExecutor(1) as pool:
                asked = pool.submit(ask, tmp_path / "control.sock", "health", 5.0)
                connection, _ = strange.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(answer)
            assert "gave no complete answer to health" in str(asked.exception())


def test_a_supervisor_whose_loop_stands_still_does_not_hold_up_who_asks(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "control.sock"))
        deaf.listen()
        with pytest.raises(NoAnswer, match=r"did not answer health within 0\.05 s"):
            ask(tmp_path / "control.sock", "health", 0.05)
