"""The INI text as sections and entries that know their file and line; what the keys mean is not decided here.

What holds: `ConfigParser` does the parsing (no interpolation, case kept, comments on lines of their own), and two
of its public hooks tell where it stands, so that there is no second grammar that could disagree. Nothing stops at
the first mistake: every duplicate, stray line and unreadable include becomes a problem `FILE:LINE: sentence`.
No problem repeats a value, because a value may be a secret; of names see `repeated`.

`include = conf.d/*.ini` in `[supervisor]` of the main file adds the files in sorted order; they may not include
further ones. Relative paths, also those in included files, resolve against the folder of the main file.
"""

from __future__ import annotations

import configparser
import glob
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from supervisor.configuration import repeated
from workers.regular import open_regular

FILE_MAX_BYTES = 4 * 1024 * 1024
_BEFORE = "before the first section"


class Unreadable(Exception):
    """The source cannot be read at all. One sentence; `permission` says that reading it is not permitted."""

    def __init__(self, sentence: str, permission: bool = False) -> None:
        super().__init__(sentence)
        self.permission = permission


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line of a file, or a variable of the environment (line 0)."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """`brief` stands for the sentence where that repeats something of the file: the fleet reads no more than that."""

    place: Place
    sentence: str
    brief: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.sentence}"

    @property
    def outline(self) -> str:
        return f"{self.place}: {self.brief or self.sentence}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One key: its text and where it stands."""

    value: str
    place: Place


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    place: Place
    entries: Mapping[str, Entry]

    def place_of(self, keys: Iterable[str]) -> Place:
        """Where the first of these keys stands; that of the section if all are defaults."""
        return next((self.entries[key].place for key in keys if key in self.entries), self.place)


@dataclass(frozen=True, slots=True)
class Document:
    """All sections of the source and its includes, in order. `warnings`: what is no mistake, but probably not meant;
    `public`: files that every user may read."""

    source: str
    base: Path
    sections: Mapping[str, Section]
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    public: frozenset[str]


@dataclass(slots=True)
class _Gathering:
    """What was found so far, over all files."""

    sections: dict[str, Section] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    public: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Marks:
    """Where the parser stands: it pulls lines through `lines`, and asks `match` and `key` about what it found."""

    file: str
    problems: list[Problem]
    line: int = 0
    section: str = ""
    headers: dict[str, int] = field(default_factory=dict)
    keys: dict[tuple[str, str], int] = field(default_factory=dict)

    def lines(self, text: str) -> Iterator[str]:
        """Begins with a section of no file, so that text before the first real one is an entry like any other
        and does not end the parsing. The parser therefore counts one line more than `line` says."""
        yield f"[{_BEFORE}]\n"
        for number, line in enumerate(io.StringIO(text, newline=None), start=1):
            self.line = number
            yield line

    def match(self, text: str) -> re.Match[str] | None:
        """Stands in for the parser's regular expression of section headers."""
        match = re.match(r"\[(?P<header>[^]]+)\]", text)
        if match is None:
            return None
        self.section = match["header"]
        if match.end() != len(text):
            self._complain(f"text after [{repeated.section(self.section)}]; comments stand on lines of their own")
        if self.section in self.headers:
            shown = repeated.section(self.section)
            self._complain(f"[{shown}] stands already in line {self.headers[self.section]}; join the two")
        self.headers.setdefault(self.section, self.line)
        return match

    def key(self, name: str) -> str:
        """Stands in for the parser's `optionxform`: the name as it is, noted with its line."""
        place = (self.section, name)
        if place in self.keys:
            shown = repeated.key(name)
            self._complain(
                f"{shown} stands already in line {self.keys[place]}; several values are indented lines of one key"
            )
        self.keys.setdefault(place, self.line)
        return name

    def _complain(self, sentence: str) -> None:
        self.problems.append(Problem(Place(self.file, self.line), sentence))


def read(source: str, environ: Mapping[str, str]) -> Document:
    """The document at a path, or in a variable as `env:NAME`. Raises `Unreadable` if there is none."""
    found = _Gathering()
    if source.startswith("env:"):
        name = source.removeprefix("env:")
        if name not in environ:
            raise Unreadable(
                f"{source}: the environment has no variable {name}, expected the configuration's text there"
            )
        base = Path.cwd()
        text = environ[name]
        if not text.isascii() and re.search("[\ud800-\udfff]", text):  # what Python makes of other bytes
            raise Unreadable(f"{source}: not UTF-8 text")
        _add(found, source, text)
    else:
        base = Path(source).absolute().parent
        _add(found, source, _text(Path(source), source, found))
    _include(found, base, str(base / Path(source).name))
    return Document(source, base, found.sections, tuple(found.problems), tuple(found.warnings), frozenset(found.public))


def _text(path: Path, shown: str, found: _Gathering) -> str:
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_mode & 0o004:
                found.public.add(shown)
            data = file.read(FILE_MAX_BYTES + 1)
    except FileNotFoundError:
        raise Unreadable(f"{shown}: no such file; `tenured example` prints one to start from") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "the path is none"
        raise Unreadable(f"{shown}: cannot be read, {reason}", isinstance(error, PermissionError)) from None
    if len(data) > FILE_MAX_BYTES:
        raise Unreadable(f"{shown}: larger than {FILE_MAX_BYTES} bytes, expected a configuration file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"{shown}:{line}: not UTF-8 text") from None


def _add(found: _Gathering, file: str, text: str) -> None:
    marks = _Marks(file, found.problems)
    # A default section would spread its keys over all others; no header can have an empty name.
    parser = configparser.ConfigParser(
        interpolation=None, strict=False, inline_comment_prefixes=None, default_section=""
    )
    parser.SECTCRE = cast(Any, marks)
    parser.optionxform = marks.key  # type: ignore[assignment, method-assign]
    try:
        # strict=False: strict would stop at the first duplicate; `marks` reports every one.
        parser.read_file(marks.lines(text), file)
    except configparser.ParsingError as error:
        stray = "neither a [section], a `key = value` nor an indented further value"
        found.problems.extend(Problem(Place(file, line - 1), stray) for line, _ in error.errors)
    for name, line in marks.headers.items():
        place = Place(file, line)
        entries = {key: Entry(value, Place(file, marks.keys[name, key])) for key, value in parser.items(name, raw=True)}
        first = found.sections.get(name)
        if name == _BEFORE:
            found.problems.extend(
                Problem(entry.place, "a key before the first [section]") for entry in entries.values()
            )
        elif first is not None:
            shown = repeated.section(name)
            found.problems.append(Problem(place, f"[{shown}] stands already in {first.place}; join the two"))
        else:
            found.sections[name] = Section(name, place, entries)


def _include(found: _Gathering, base: Path, main_file: str) -> None:
    main = found.sections.get("supervisor")
    entry = main.entries.get("include") if main else None
    if entry is None:
        return
    for pattern in filter(None, (line.strip() for line in entry.value.split("\n"))):
        paths = sorted(glob.glob(pattern, root_dir=base))
        if not paths and not glob.has_magic(pattern):
            sentence = f"include names {pattern}, but {base} has no such file"
            found.problems.append(Problem(entry.place, sentence, "include names a file that is not there"))
        elif not paths:
            found.warnings.append(Problem(entry.place, f"include: no file in {base} matches {pattern}"))
        for path in paths:
            shown = str(base / path)
            if shown == main_file:
                continue
            try:
                _add(found, shown, _text(base / path, shown, found))
            except Unreadable as error:
                found.problems.append(Problem(entry.place, f"include: {error}", "include: a file cannot be read"))
