"""What the environment says instead of the file: `TENURED_<KEY>` for a key of `[supervisor]`. Pure.

A variable of no such name overrides nothing, and is no mistake: Kubernetes, for one, sets TENURED_SERVICE_HOST for a
service of that name. One that is nearly such a name was probably meant to be it, and every command says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from supervisor.configuration.ini import Entry, Place
from supervisor.configuration.keys import SUPERVISOR, keys_of
from supervisor.configuration.values import nearest

PREFIX = "TENURED_"


def overrides(environ: Mapping[str, str], source: str) -> dict[str, Entry]:
    """By key. A variable that is itself the `source` of the configuration is none."""
    return {
        name: Entry(environ[variable], Place(variable, 0))
        for variable, name in _names(environ, source).items()
        if name in _keys()
    }


def without_effect(environ: Mapping[str, str], source: str) -> dict[str, str]:
    """The variables that override nothing, each with the one that was probably meant, or an empty text."""
    found = {}
    for variable, name in _names(environ, source).items():
        if name not in _keys():
            near = nearest(name, _keys())
            found[variable] = f"{PREFIX}{near.upper()}" if near else ""
    return found


def sentence(near: str) -> str:
    """About a variable that overrides nothing, behind its name."""
    return f"overrides nothing, {f'did you mean {near}?' if near else 'no key of [supervisor] has that name'}"


def _names(environ: Mapping[str, str], source: str) -> dict[str, str]:
    mine = (variable for variable in sorted(environ) if variable.startswith(PREFIX))
    return {variable: variable.removeprefix(PREFIX).lower() for variable in mine if source != f"env:{variable}"}


def _keys() -> list[str]:
    return [name for name in keys_of(SUPERVISOR) if name != "include"]
