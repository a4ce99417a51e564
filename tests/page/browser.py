"""A real Chromium without a window, driven by its DevTools protocol.

It runs with a profile folder of its own, dies with the thread that started it, and reaches nothing but loopback. Each
`Tab` keeps what the page complained about: exceptions, console errors, and violations of its policy.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import websocket

from tests import chromium as installed
from tests.wait import until

START_TIMEOUT_S = 60.0
ANSWER_TIMEOUT_S = 30.0
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--remote-debugging-address=127.0.0.1",
    "--remote-debugging-port=0",
)


class Tab:
    """One page. `complaints` is what it logged as an error since it was opened."""

    def __init__(self, socket_url: str) -> None:
        self._socket = websocket.create_connection(socket_url, timeout=ANSWER_TIMEOUT_S, suppress_origin=True)
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of one command. What the page says meanwhile is noted."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return dict(message["result"])
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        told = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                detail = told["exceptionDetails"]
                self.complaints.append(detail.get("exception", {}).get("description", detail["text"]))
            case "Runtime.consoleAPICalled" if told["type"] in ("error", "assert"):
                self.complaints.append(" ".join(str(each.get("value")) for each in told["args"]))
            case "Log.entryAdded" if told["entry"]["level"] == "error":
                self.complaints.append(f"{told['entry']['source']}: {told['entry']['text']}")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, a promise's once it is settled."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href.startsWith('http')")

    def until(self, expression: str, timeout_s: float = 20.0) -> Any:
        """Wait until the expression is true."""
        return until(lambda: self.evaluate(expression), timeout_s, 0.05)

    def resize(self, width: int, height: int, scale: float = 1.0, mobile: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile
        )

    def prefer(self, scheme: str) -> None:
        """`light` or `dark`."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path: Path) -> None:
        picture = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(picture["data"]))

    def close(self) -> None:
        self._socket.close()


class Browser:
    """A running Chromium, made by `chromium`."""

    def __init__(self, port: int) -> None:
        self._port = port

    @contextmanager
    def tab(self) -> Iterator[Tab]:
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S) as answer:
            target = json.load(answer)
        tab = Tab(target["webSocketDebuggerUrl"])
        try:
            yield tab
        finally:
            tab.call("Page.close")
            tab.close()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Raises RuntimeError when it is not installed."""
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder:
        profile = Path(folder)
        # setpriv ties it to this thread, so that a killed test run leaves nothing behind.
        command = ["setpriv", "--pdeathsig", "KILL", installed.path(), *OPTIONS, f"--user-data-dir={profile}"]
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8", "TZ": "UTC"}
        with (profile / "stderr").open("wb") as stderr:
            process = subprocess.Popen(
                [*command, "about:blank"], env=environment, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr
            )
        try:
            yield Browser(_port(process, profile))
        finally:
            process.kill()
            process.wait()


def _port(process: subprocess.Popen[bytes], profile: Path) -> int:
    """As it writes it down once it listens."""
    file = profile / "DevToolsActivePort"
    deadline_s = time.monotonic() + START_TIMEOUT_S
    until(lambda: process.poll() is not None or (file.exists() and file.read_text().count("\n")), START_TIMEOUT_S, 0.05)
    if process.poll() is not None:
        raise RuntimeError(f"chromium ended at its start: {(profile / 'stderr').read_text(errors='replace')[-2000:]}")
    port = int(file.read_text().split("\n")[0])
    until(lambda: _answers(port), max(1.0, deadline_s - time.monotonic()), 0.05)
    return port


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/json/version", timeout=5).close()
    except OSError:
        return False
    return True
