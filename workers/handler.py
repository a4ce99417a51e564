"""What a user's handler is: a class with a few methods, all called in one thread (`target` excepted).

    from tenured import Handler

    class Trades(Handler):
        def message(self, connection, message):
            self.emit(message)

What holds: methods are called one at a time and in the order of what happened on a connection; an exception in one
is logged with the message's number and its own whole text (which should carry no secret), counted, and the next message
goes on; `handler_errors` in a row, counted for each kind of call by itself, end the child, which starts again from the
last checkpoint. What is emitted goes to the sink in order; `checkpoint` commits a token only after the sink has made
safe what was emitted before it.

A method that does not return holds up its whole shard and is killed after the hang timeout.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, Protocol, cast

from workers.websocket.frames import Message

_NOT_PLAIN = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR; `inspect` is large


@dataclass(frozen=True, slots=True)
class Shard:
    """What a handler is told at its start. `checkpoint` is where the last child of this shard got to."""

    name: str
    stream: str
    index: str
    epoch: int
    checkpoint: str | None
    connections: int


class Connection(Protocol):
    """A handler's view of one connection; `number` counts from 0 in the order of the `url` lines."""

    @property
    def number(self) -> int: ...

    def send(self, data: Message) -> bool:
        """Queue one message, text or binary as its type says. False: the connection is not open."""

    def close(self, code: int = 1000) -> None:
        """Begin the close handshake; the connection is opened anew after the usual wait."""


class Timer(Protocol):
    """What `every` has begun."""

    def cancel(self) -> None:
        """It is not called any more; once is enough, twice does no harm."""


class Outlet(Protocol):
    """What stands behind the methods that a handler calls on itself."""

    def emit(self, data: Message) -> None: ...

    def commit(self, token: str) -> None: ...

    def every(self, seconds: float, function: Callable[[], object]) -> Timer: ...

    def when_safe(self, function: Callable[[], object]) -> None: ...

    def address(self, connection: int) -> tuple[str, dict[str, str]]: ...


class _TooEarly:
    """Stands behind a handler while it is being made."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError("emit, checkpoint, every and the like may be called from start on, not in __init__")


class Handler:
    """Override what you need: start, target, opened, message (or messages), closed, stop.

    Call, from these or from a timer: self.emit, self.checkpoint, self.when_safe, self.every.

    The shard has name, stream, index, epoch, checkpoint (None before the first) and connections (how many).
    A connection has a number, from 0 in the order of the url lines, and two methods: send(data) queues a message,
    text for a str and binary for bytes, and is False if the connection is not open; close(code=1000) closes it, and
    it is opened anew after the usual wait.
    """

    _outlet: Outlet = cast(Outlet, _TooEarly())  # set before `start`; not in `__init__`, which is free for the user

    def start(self, shard: Shard) -> None:
        """Once, before the first connection. An exception ends the child."""

    def target(self, connection: Connection) -> tuple[str, Mapping[str, str]]:
        """Url and headers of the next attempt; by default those of the file. Called for each attempt in a thread of
        its own: it may block (ask for a ticket, say), and must not touch what the other methods use."""
        return self._outlet.address(connection.number)

    def opened(self, connection: Connection) -> None:
        """The connection is open and the subscriptions of the file are on their way."""

    def message(self, connection: Connection, message: Message) -> None:
        """One whole message; by default it is emitted as it is."""
        self.emit(message)

    def messages(self, connection: Connection, batch: list[Message]) -> None:
        """What arrived together, up to a thousand messages: override it instead of `message` where many at a time are
        cheaper. An exception is about the whole batch, and the next batch goes on."""
        for message in batch:
            self.message(connection, message)

    def closed(self, connection: Connection, code: int, reason: str) -> None:
        """A connection that was open is gone; 1006: without a close frame."""

    def stop(self) -> None:
        """The shard is about to stop: the last moment to send on its connections."""

    # --- to be called ---

    def emit(self, data: Message) -> None:
        """Hand an event to the sink; waits while the sink is full."""
        self._outlet.emit(data)

    def checkpoint(self, token: str) -> None:
        """Commit a resume token, at most 2 KiB, once all that was emitted before is safe."""
        self._outlet.commit(token)

    def when_safe(self, function: Callable[[], object]) -> None:
        """Call `function` once all that was emitted before is safe, in the thread of all other methods: for far ends
        that forget what is acknowledged. Connections may have been closed and opened again by then."""
        self._outlet.when_safe(function)

    def every(self, seconds: float, function: Callable[[], object]) -> Timer:
        """Call `function` again and again, in the thread of all other methods, until it is cancelled; from `start`
        on."""
        return self._outlet.every(seconds, function)


def address_of(handler: Handler, connection: Connection) -> tuple[str, dict[str, str]]:
    """What its `target` returns. Raises TypeError if that is none, or whatever `target` raises."""
    found: object = handler.target(connection)
    match found:
        case (str() as url, Mapping() as headers) if all(
            isinstance(text, str) for pair in headers.items() for text in pair
        ):
            return url, dict(headers)
        case tuple() | list():
            what = f"({', '.join(type(part).__name__ for part in found)})"
        case _:
            what = type(found).__name__
    raise TypeError(f"target returned {what}, expected a pair: the url as str, and a dict of headers, both str")


class BadHandler(ValueError):
    """A handler reference that leads to no handler; one sentence."""


def load(
    reference: str, base: str, python_path: tuple[str, ...] = (), kinds: tuple[type[Any], ...] = (Handler,)
) -> type[Any]:
    """The class that "file.py:Class" (relative to `base`) or "package.module:Class" names; imported only once. It is
    derived from one of `kinds`: a user's sink is found in the same way.

    Folders of `python_path` go to the end of the search path, so that they cannot hide what we import ourselves.
    Raises `BadHandler`, or whatever the module raises.
    """
    place, colon, name = reference.rpartition(":")
    what = " or ".join(kind.__name__.lower() for kind in kinds) + f" {reference!r}"
    if not colon or not place or not name.isidentifier():
        raise BadHandler(f"{what} is none, expected file.py:Class or package.module:Class")
    for folder in python_path:
        if folder not in sys.path:
            sys.path.append(folder)
    module = _from_file(Path(base) / place, what) if place.endswith(".py") else _from_name(place, what)
    found = getattr(module, name, None)
    if not isinstance(found, type) or not issubclass(found, kinds):
        raise BadHandler(f"{what}: {_lacking(module, name, kinds)}")
    if problem := unusable(found):
        raise BadHandler(f"{what}: {problem}")
    return found


def _lacking(module: ModuleType, name: str, kinds: tuple[type[Any], ...]) -> str:
    """That it has no such class, and which it has."""
    parents = " or ".join(f"tenured.{kind.__name__}" for kind in kinds)
    there = [
        other
        for other, found in vars(module).items()
        if isinstance(found, type) and issubclass(found, kinds) and found.__module__ == module.__name__
    ]
    lacks = f"{name} is no class derived from {parents}" if hasattr(module, name) else f"there is no class {name}"
    has = f"it has {', '.join(there)}" if there else f"nor any other that is derived from {parents}"
    return f"{lacks} in {module.__file__}, {has}"


def unusable(kind: type[Any]) -> str:
    """What is wrong with the methods of a handler or sink, as the rest of a sentence; empty: nothing. One that is
    `async` or a generator does nothing when it is called, so that all events would be lost as if they were safe."""
    for name in dir(kind):
        method = getattr(kind, name)
        if name.startswith("_") or not callable(method):
            continue
        if getattr(method, "__isabstractmethod__", False):
            return f"{kind.__name__} needs a method {name}"
        code = getattr(method, "__code__", None)
        if code is not None and code.co_flags & _NOT_PLAIN and _is_called(kind, name):
            return f"{kind.__name__}.{name} is async or a generator, expected a plain method"
    return ""


def _is_called(kind: type[Any], name: str) -> bool:
    """By us: a method that one of our own classes has."""
    return any(name in vars(parent) for parent in kind.__mro__[1:] if parent.__module__.startswith("workers."))


def _from_file(path: Path, what: str) -> ModuleType:
    path = path.resolve()
    name = f"tenured_handler_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    if not path.is_file():
        raise BadHandler(f"{what}: there is no file {path}")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadHandler(f"{what}: {path} cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs, as pickle and dataclasses expect
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _from_name(name: str, what: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise  # the module is there, and misses another one
        raise BadHandler(f"{what}: no module {name} on the search path; see python_path") from None
