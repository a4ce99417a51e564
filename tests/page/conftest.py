"""One Chromium for all tests of the page, and an endpoint with a tab for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from supervisor.serving import endpoint
from tests.page import fleet
from tests.page.browser import Browser, Tab, chromium


@dataclass(slots=True)
class Shown:
    """A page that polls `sources`."""

    sources: fleet.FakeSources
    tab: Tab
    url: str

    def open(self) -> None:
        """The page, once it has drawn what it was told."""
        self.tab.open(self.url)
        self.tab.until("link.data !== null || link.error !== ''")

    def poll(self) -> None:
        """Ask again at once, rather than at the next turn."""
        self.tab.until("!link.busy")
        self.tab.evaluate("poll()")

    def text(self, selector: str) -> str:
        return str(self.tab.evaluate(f"document.querySelector({selector!r}).innerText"))

    def texts(self, selector: str) -> list[str]:
        found = f"[...document.querySelectorAll({selector!r})].map((each) => each.innerText.trim())"
        return list(self.tab.evaluate(found))

    def row(self, shard: str) -> str:
        """An expression for the row of a shard."""
        return f"rows.get({shard!r}).node"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def shown(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shown]:
    """Nothing is opened yet. What the page complains about fails the test at its end."""
    monkeypatch.setattr("supervisor.serving.latest.FRESH_S", 0.0)
    sources = fleet.FakeSources()
    served = endpoint.serve(("127.0.0.1", 0), (), sources)
    try:
        with browser.tab() as tab:
            tab.resize(1280, 900)
            yield Shown(sources, tab, f"http://127.0.0.1:{served.port}/")
            tab.evaluate("1")  # so that what it said lately is heard
            assert tab.complaints == []
    finally:
        sources.gate.set()
        served.close()
