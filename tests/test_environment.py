"""A child's environment: exactly what its task says, whatever the fork server's is."""

from __future__ import annotations

import os

import pytest

from workers.process import environment


def test_the_environment_becomes_what_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"KEPT": "same", "CHANGED": "old", "GONE": "x"}
    monkeypatch.setattr(os, "environ", ours)
    wanted = {"KEPT": "same", "CHANGED": "a=b\nc", "NEW": "\u00e9", "EMPTY": ""}
    environment.become(environment.packed(wanted), environment.packed(ours))
    assert ours == wanted


def test_the_same_variables_are_the_same_bytes_in_any_order() -> None:
    assert environment.packed({"A": "1", "B": "2"}) == environment.packed({"B": "2", "A": "1"})
    assert environment.packed({"A": "1", "B": "2"}) != environment.packed({"A": "1\n", "B": "2"})


def test_what_only_imports_needed_reaches_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"PYTHONPATH": "/x", "OMP_NUM_THREADS": "1", "LD_LIBRARY_PATH": "/l", "PATH": "/bin"}
    monkeypatch.setattr(os, "environ", ours)
    environment.forget_what_imports_needed()
    assert ours == {"PATH": "/bin"}
