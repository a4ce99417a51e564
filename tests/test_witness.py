"""What is told of the code of users that cannot be imported: which it is, and whose."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from supervisor.configuration.config import load
from supervisor.processes.child_events import Complaint
from supervisor.rules import code_of
from supervisor.witness import Witness

FILE = """[supervisor]
store = sqlite:///x.db
[stream:trades]
handler = own.feeds:Trade
[stream:news]
url = ws://h/
handler = own.feeds:Trades
sink = own.feeds:Table
[stream:chat]
url = ws://h/
handler = own.feeds:Trades
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("own.feeds:Trade: there is no", "handler of [stream:trades]: own.feeds:Trade: there is no"),
        ("own.feeds:Trades raised", "handler of [stream:news] and handler of [stream:chat]: own.feeds:Trades raised"),
        ("own.feeds:Table: there is no", "sink of [stream:news]: own.feeds:Table: there is no"),
        ("tls_ca /nowhere.pem", "tls_ca /nowhere.pem"),
    ],
)
def test_a_complaint_about_code_says_which_stream_it_is_of(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "tenured.ini").write_text(FILE)
    code, journal = code_of(load(str(tmp_path / "tenured.ini"), {})), Mock()
    witness = Witness(journal, Mock(), lambda: code)
    assert witness.heard(Complaint(text, of_configuration=True)) is None
    said: dict[str, Any] = journal.write.call_args.kwargs
    assert said["reason"] == told
    assert journal.write.call_args.args == ("warning", "config.warning")
