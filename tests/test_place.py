"""Where we run, asked of real servers that answer well, badly, too much, too slowly, or not at all."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from supervisor.place import ANSWER_MAX_BYTES, VARIABLE, Place, find

HOST = socket.gethostname()
TASK = "158d1c8083dd49d6b527399fd6414f5c"
KNOWN = {"TaskARN": f"arn:aws:ecs:eu-west-1:111122223333:task/default/{TASK}", "AvailabilityZone": "eu-west-1b"}
BOUND_S = 1.0
AT_MOST_S = 3.0  # on a busy machine

Serve = Callable[[socket.socket], None]


@contextmanager
def served(serve: Serve) -> Iterator[tuple[str, list[bytes]]]:
    """The value of ECS' variable, and the requests that came."""
    requests: list[bytes] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                requests.append(connection.recv(4096))
                try:
                    serve(connection)
                except OSError:
                    continue  # whoever asked has seen enough

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v4/0123-45", requests
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def answer(body: bytes, status: str = "200 OK", headers: str = "") -> Serve:
    return lambda connection: connection.sendall(f"HTTP/1.1 {status}\r\n{headers}\r\n".encode() + body)


def chunked(body: bytes) -> Serve:
    return answer(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body), headers="Transfer-Encoding: chunked\r\n")


def trickle(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for _ in range(200):
        connection.sendall(b"x")
        time.sleep(0.05)


def hang(connection: socket.socket) -> None:
    connection.settimeout(10)
    assert connection.recv(1) == b""  # until whoever asked gives up


def found(address: str) -> tuple[Place, str]:
    return find({VARIABLE: address}, BOUND_S)


@pytest.mark.parametrize("serve", [answer, chunked])
def test_the_task_and_the_zone_are_what_ecs_tells(serve: Callable[[bytes], Serve]) -> None:
    with served(serve(json.dumps(KNOWN).encode())) as (address, requests):
        assert found(address) == (Place(HOST, TASK, "eu-west-1b"), "")
    assert len(requests) == 1
    assert requests[0].startswith(b"GET /v4/0123-45/task HTTP/1.0\r\n")


def test_an_agent_that_tells_no_zone_is_no_failure() -> None:
    with served(answer(json.dumps({"TaskARN": KNOWN["TaskARN"]}).encode())) as (address, _):
        assert found(address) == (Place(HOST, TASK), "")


def test_no_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(answer(b"a proxy")) as (proxy, asked), served(answer(json.dumps(KNOWN).encode())) as (address, _):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy)
        assert find({**os.environ, VARIABLE: address}, BOUND_S)[0].task == TASK
    assert asked == []


def test_outside_of_ecs_nothing_is_contacted(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("something was contacted")

    monkeypatch.setattr(socket, "create_connection", forbidden)
    assert find({"AWS_EXECUTION_ENV": "AWS_ECS_FARGATE"}) == (Place(HOST), "")


@pytest.mark.parametrize(
    ("serve", "words"),
    [
        (answer(b"<html>"), "does not tell"),
        (answer(b"[" * 50_000), "does not tell"),
        (answer(b"\xff"), "does not tell"),
        (answer(b"[]"), "does not tell"),
        (answer(json.dumps({"TaskARN": 7}).encode()), "does not tell"),
        (answer(json.dumps({"TaskARN": "arn:aws:ecs:x:1:task/" + "a" * 1000}).encode()), "does not tell"),
        (answer(json.dumps(KNOWN | {"AvailabilityZone": "x\n{}"}).encode()), "does not tell"),
        (answer(json.dumps(KNOWN).encode(), "404 Not Found"), "HTTP 404"),
        (answer(b"", "302 Found", "Location: http://127.0.0.1:9/\r\n"), "HTTP 302"),
        (answer(b"{}", headers="Content-Length: 900\r\n"), "not answer in HTTP"),
        (lambda connection: connection.sendall(b"SSH-2.0-x\r\n"), "not answer in HTTP"),
        (lambda connection: None, "not answer in HTTP"),
        (answer(b" " * (ANSWER_MAX_BYTES + 1)), "more than 65536 bytes"),
        (lambda connection: [connection.sendall(b"x" * 65536) for _ in range(99)] and None, "more than 65536 bytes"),
        (trickle, "in time"),
        (hang, "in time"),
    ],
)
def test_a_bad_answer_costs_the_task_and_the_zone_and_is_one_sentence(serve: Serve, words: str) -> None:
    with served(serve) as (address, _):
        began = time.monotonic()
        place, sentence = found(address)
        assert time.monotonic() - began < AT_MOST_S
    assert place == Place(HOST)
    assert words in sentence
    assert "\n" not in sentence


def test_where_nobody_listens_that_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    place, sentence = found(f"http://127.0.0.1:{port}/v4/x")
    assert (place, "connection refused" in sentence) == (Place(HOST), True)


@pytest.mark.parametrize(
    "address",
    [
        "https://127.0.0.1/v4/x",
        "file:///etc/passwd",
        "127.0.0.1/v4/x",
        "http://metadata.example/v4/x",
        "http://8.8.8.8/v4/x",
        "http://user:s3cret@127.0.0.1/v4/x",
        "http://127.0.0.1:99999/v4/x",
        "http://[::1/v4/x",
        "http://127.0.0.1/v4/\r\nX: y",
        "http://127.0.0.1/v4/s3cret x",
        "s3cret",
    ],
)
def test_an_address_that_is_not_local_http_is_neither_contacted_nor_shown(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("something was contacted")

    monkeypatch.setattr(socket, "create_connection", forbidden)
    place, sentence = found(address)
    assert place == Place(HOST)
    assert VARIABLE in sentence
    assert "s3cret" not in sentence
