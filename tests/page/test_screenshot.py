"""The picture in docs/ can be taken anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.page import screenshot

PICTURE_MAX_BYTES = 200 * 1024


def test_the_picture_of_the_docs_can_be_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screenshot, "DOCS", tmp_path / "page.png")
    assert screenshot.main([]) == 0
    picture = (tmp_path / "page.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert (int.from_bytes(picture[16:20]), int.from_bytes(picture[20:24])) == screenshot.DESK


def test_the_picture_in_the_docs_is_small() -> None:
    assert screenshot.DOCS.stat().st_size < PICTURE_MAX_BYTES
