"""Asking the supervisor of this host a question through its control socket.

One request and one reply, each a line of JSON: `{"command": "health"}`, then `{"ok": true, "reply": {...}}` or
`{"ok": false, "error": "sentence"}`. Whoever asks waits at most `timeout_s` for each step.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

SOCKET_NAME = "control.sock"
# What the kernel takes for the name of a socket (sun_path, less its final zero), less the suffix under which the
# listener makes a new socket before it replaces an old one.
SOCKET_PATH_MAX_BYTES = 107 - len(".new")
LINE_MAX_BYTES = 1024 * 1024


class NoAnswer(Exception):
    """Nobody answered, or the answer was an error. One sentence; `permission`: asking is not permitted."""

    def __init__(self, sentence: str, permission: bool = False) -> None:
        super().__init__(sentence)
        self.permission = permission


def socket_path(run_dir: Path) -> Path:
    """Raises ValueError where the kernel could not take the path."""
    path = run_dir / SOCKET_NAME
    excess = len(os.fsencode(path)) - SOCKET_PATH_MAX_BYTES
    if excess > 0:
        raise ValueError(
            f"{path} is {excess} bytes too long for a socket, at most {SOCKET_PATH_MAX_BYTES} are possible"
        )
    return path


def ask(path: Path, command: str, timeout_s: float, **arguments: Any) -> dict[str, Any]:
    """The reply to one command. Raises `NoAnswer`."""
    request = json.dumps({"command": command, **arguments}).encode() + b"\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(path))
            connection.sendall(request)
            with connection.makefile("rb") as file:
                line = file.readline(LINE_MAX_BYTES + 1)
    except TimeoutError:
        raise NoAnswer(f"the supervisor at {path} did not answer {command} within {timeout_s:g} s") from None
    except (FileNotFoundError, ConnectionRefusedError):
        raise NoAnswer(f"no supervisor is running at {path}") from None
    except OSError as error:
        raise NoAnswer(f"{path}: {(error.strerror or 'failed').lower()}", isinstance(error, PermissionError)) from None
    try:
        answer = json.loads(line)
        if answer["ok"]:
            return dict(answer["reply"])
        sentence = str(answer["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NoAnswer(f"the supervisor at {path} gave no complete answer to {command}") from None
    raise NoAnswer(f"the supervisor at {path} refused {command}: {sentence}")
