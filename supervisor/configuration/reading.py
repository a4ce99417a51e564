"""Entries become values: one section at a time, by the table of keys, collecting every mistake on the way.

A key that was wrong has the value None, so that what depends on it can be left out instead of adding a second
sentence about the same mistake. Placeholders of plain keys are replaced here; templates are only checked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisor.configuration import placeholders, repeated, slips, strangers
from supervisor.configuration.ini import Document, Entry, Place, Problem, Section
from supervisor.configuration.keys import STREAM, SUPERVISOR, Key, find, keys_of, meant
from workers.template import parse as parse_template


@dataclass(slots=True)
class Reading:
    """One source being read: where values are looked up, and what was found wrong so far. `needed`: the sources of
    placeholders (env, file, credential) that must have a value now, although only a connect asks for it."""

    document: Document
    environ: Mapping[str, str]
    needed: Collection[str]
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    listed: set[str] = field(default_factory=set)  # the kinds of sections whose keys a problem has named

    @property
    def base(self) -> Path:
        return self.document.base

    @property
    def credentials(self) -> str:
        return self.environ.get("CREDENTIALS_DIRECTORY", "")

    def complain(self, place: Place, sentence: str, brief: str = "") -> None:
        self.problems.append(Problem(place, sentence, brief))

    def warn(self, place: Place, sentence: str) -> None:
        """Of what works, but is probably not meant."""
        self.warnings.append(Problem(place, sentence))


def values_of(reading: Reading, kind: str, section: Section, variables: Mapping[str, str]) -> dict[str, Any]:
    """Every key of the section's kind with its value: as written, the default, or None. A prefix has a mapping."""
    found: dict[str, Any] = {}
    for key in keys_of(kind).values():
        if key.name.endswith("."):
            found[key.name] = {}
        else:
            found[key.name] = None if key.default is None else key.parse(key.default, reading.base)
            if key.lines:
                found[key.name] = ()
    for name, entry in section.entries.items():
        known = find(kind, name)
        if known is None:
            reading.complain(entry.place, _unknown(reading, kind, name, section.name))
        elif known.name.endswith("."):
            found[known.name][name.removeprefix(known.name)] = value_of(reading, known, name, entry, variables)
        else:
            found[name] = value_of(reading, known, name, entry, variables)
    return found


def _unknown(reading: Reading, kind: str, name: str, section: str) -> str:
    other, place = (STREAM, "a [stream:NAME]") if kind == SUPERVISOR else (SUPERVISOR, "[supervisor]")
    if find(other, name):
        return f"{repeated.key(name)} is a key of {place}, and stands in [{repeated.section(section)}]; move it there"
    hint = strangers.said(name) if kind == STREAM else ""
    if not hint and (near := meant(kind, name)):
        hint = f"did you mean {repeated.key(near)}?"
    return f"unknown key {repeated.key(name)} in [{repeated.section(section)}], {hint or _known(reading, kind)}"


def _known(reading: Reading, kind: str) -> str:
    """The keys that there are, once: a list of them beside each mistake would bury the mistakes."""
    if kind in reading.listed:
        return "`tenured example` shows all that there are"
    reading.listed.add(kind)
    return f"expected one of {', '.join(f'{key}NAME' if key.endswith('.') else key for key in keys_of(kind))}"


def value_of(reading: Reading, key: Key, name: str, entry: Entry, variables: Mapping[str, str]) -> Any:
    """None after a complaint; a tuple where several lines are several values."""
    name = repeated.key(name)
    texts = [line for line in (line.strip() for line in entry.value.split("\n")) if line]
    if not texts:
        instead = f"remove the line for the default {key.default}" if key.default else "give it one or remove the line"
        reading.complain(entry.place, f"{name} has no value, {instead}")
        return None
    if len(texts) > 1 and not key.lines:
        reading.complain(entry.place, f"{name} takes one value, but indented lines after it add to it")
        return None
    before = len(reading.problems)
    found = [_value(reading, key, name, text, entry.place, variables) for text in texts]
    if len(reading.problems) > before:
        return None
    return tuple(found) if key.lines else found[0]


def _value(reading: Reading, key: Key, name: str, text: str, place: Place, variables: Mapping[str, str]) -> Any:
    """One value; None after a complaint."""
    sentences, text = placeholders.mistakes(text)
    for sentence in sentences:
        reading.complain(place, f"{name}, {sentence}" if len(sentences) > 1 else f"{name}: {sentence}")
    template = parse_template(text)
    if key.template:
        for source, sentence in template.missing(reading.environ, reading.base, reading.credentials):
            if source in reading.needed:
                reading.complain(place, f"{name}: {sentence}", f"{name}: what a ${{{source}:...}} names cannot be had")
            else:
                reading.warn(place, f"{name}: {sentence}")
    else:
        early = [plain for plain in template.names() if plain not in variables]
        for plain in early:
            reading.complain(place, f"{name}: ${{{plain}}} has no value here, only in url, subscribe and header.NAME")
        absent = template.missing(reading.environ, reading.base, reading.credentials)
        for _, sentence in absent:
            reading.complain(place, f"{name}: {sentence}", f"{name}: what a placeholder names cannot be had")
        if sentences or early or absent:
            return None  # of a value that is not known nothing else can be said
        text_of_key = template.expand(variables, reading.environ, reading.base, reading.credentials)
    try:
        value = key.parse(text if key.template else text_of_key, reading.base)
    except ValueError as error:
        right = f"{error}{slips.hint(text)}"
        shown = repeated.value(text) if key.parse.plain else ""
        needs = f"{name} needs {right}"
        return reading.complain(place, f"{name} is {shown}, expected {right}" if shown else needs, needs)
    if not key.template and (doubt := slips.doubt(text)):
        reading.warn(place, f"{name}: {doubt}")
    return value
