"""The picture of the status page in docs/: python -m tests.page.screenshot [FOLDER]

Without a folder it writes docs/status-page.png. Into a folder go the page in light and dark, on a desk and on a phone,
troubled and well, to be looked at.
"""

from __future__ import annotations

import sys
from pathlib import Path

from supervisor.serving import endpoint
from tests.page import fleet
from tests.page.browser import Browser, Tab, chromium

DOCS = Path(__file__).resolve().parent.parent.parent / "docs" / "status-page.png"
DESK = (1280, 1160)
PHONE = (360, 780)


def picture(
    browser: Browser, path: Path, scheme: str, size: tuple[int, int], well: bool = False, down: int = 0, count: int = 10
) -> None:
    """One picture of a fleet of `count` supervisors, of which `well` says how it is."""
    at = fleet.now_ms()
    rows = (fleet.healthy if well else fleet.troubled)(count, count * 100, at)
    served = endpoint.serve(("127.0.0.1", 0), (), fleet.FakeSources(fleet.json_of(rows, at)))
    try:
        with browser.tab() as tab:
            tab.resize(*size, scale=2 if size == PHONE else 1, mobile=size == PHONE)
            tab.prefer(scheme)
            tab.open(f"http://127.0.0.1:{served.port}/")
            tab.until("document.querySelectorAll('.shard').length > 0")
            if not well:
                unfold(tab)
            tab.evaluate(f"scrollTo(0, {down})")
            tab.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
            tab.screenshot(path)
    finally:
        served.close()


def unfold(tab: Tab) -> None:
    """The shard with the longest history."""
    tab.evaluate("[...document.querySelectorAll('.open-row')].find((each) => each.textContent === 'trades/7').click()")
    tab.until("document.querySelector('.timeline') !== null")


def main(arguments: list[str]) -> int:
    with chromium() as browser:
        if not arguments:
            picture(browser, DOCS, "light", DESK, count=5)
            return 0
        folder = Path(arguments[0])
        for scheme in ("light", "dark"):
            for name, size in (("desk", DESK), ("phone", PHONE)):
                picture(browser, folder / f"{name}-{scheme}.png", scheme, size)
        picture(browser, folder / "desk-down.png", "light", DESK, down=700)
        picture(browser, folder / "phone-down.png", "dark", PHONE, down=3100)
        picture(browser, folder / "desk-well.png", "dark", DESK, well=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
