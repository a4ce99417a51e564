"""How quickly the status page shows a large fleet.

    python -m tests.bench.page [--shards N] [--supervisors N] [--runs N] [--json FILE]

A real Chromium opens the page of a real endpoint behind which a fleet stands still: the time from navigation until each
shard has its row and the frame with them was drawn, and what one poll costs afterwards, when every age has changed.
The exit code is 1 if the goal is missed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from supervisor.serving import endpoint
from tests import engines
from tests.bench.figures import Figure, asked, median, report
from tests.page import fleet
from tests.page.browser import Tab, chromium

GOAL_S = 1.0
DRAWN = """new Promise((drawn) => {
  const look = () => document.querySelectorAll('.shard').length >= %d
    ? requestAnimationFrame(() => setTimeout(() => drawn(performance.now()), 0)) : setTimeout(look, 1);
  look();
})"""
UPDATE = """new Promise((drawn) => {
  const later = structuredClone(link.data);
  later.at += 60000;
  for (const shard of later.shards) { shard.quiet_ms += 1234; shard.renewed_ago_ms += 777; }
  const began = performance.now();
  link.data = later;
  draw(later);
  requestAnimationFrame(() => setTimeout(() => drawn(performance.now() - began), 0));
})"""


def measure(tab: Tab, url: str, shards: int) -> tuple[float, float]:
    """Seconds from the navigation to all rows, and of one update."""
    tab.call("Page.navigate", url="about:blank")
    tab.until("location.href === 'about:blank'")
    tab.call("Page.navigate", url=url)
    tab.until("location.href.startsWith('http') && document.readyState === 'complete'")
    drawn_ms = tab.evaluate(DRAWN % shards)
    return drawn_ms / 1000, tab.evaluate(UPDATE) / 1000


def figures(shards: int, supervisors: int, runs: int) -> Iterator[Figure]:
    at = fleet.now_ms()
    snapshot = fleet.healthy(supervisors, shards, at)
    began_s = time.perf_counter()
    body = fleet.json_of(snapshot, at)
    made_s = time.perf_counter() - began_s
    served = endpoint.serve(("127.0.0.1", 0), (), fleet.FakeSources(body))
    try:
        with chromium() as browser, browser.tab() as tab:
            tab.resize(1280, 900)
            url = f"http://127.0.0.1:{served.port}/"
            measure(tab, url, shards)  # the browser's own first time
            found = [measure(tab, url, shards) for _ in range(runs)]
    finally:
        served.close()
    of = f"{shards} shards, {supervisors} supervisors"
    shown, updated = zip(*found, strict=True)
    yield median(f"page with all rows of {of}", shown, "s", GOAL_S)
    yield median(f"update of {of}", updated, "s")
    yield Figure(f"status JSON of {of}", made_s, "s", None, f"{len(body) / 1024:.0f} KiB, made once a second at most")


if __name__ == "__main__":
    options = asked("page", shards=1000, supervisors=10, runs=5)
    engines.install("chromium")
    sys.exit(report(figures(options.shards, options.supervisors, options.runs), options.json))
