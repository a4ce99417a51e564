"""From the text of a configuration to checked `Settings`, or to every mistake in it at once.

What holds for settings that come out: every key is known, every value parsed, every relation that `relations` knows
holds, shards are named once, handlers and certificates are there, and every `${env:}`, `${file:}` and
`${credential:}` without a default had a value when this was read. What is a template stays one: no secret that a
placeholder stands for is part of the settings, and no message repeats a value that could be a secret.

Not promised: that a file or variable is still there at the next connect, or that the store can be reached.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.ask import socket_path
from supervisor.configuration import relations
from supervisor.configuration.capacity import capacity_of, memory_bytes
from supervisor.configuration.digest import digest_of
from supervisor.configuration.exposed import exposed
from supervisor.configuration.folders import in_the_way, open_to_others
from supervisor.configuration.ini import Document, Place, Problem, Section, Unreadable, read
from supervisor.configuration.keys import SUPERVISOR
from supervisor.configuration.overrides import overrides, sentence, without_effect
from supervisor.configuration.reading import Reading, values_of
from supervisor.configuration.settings import Settings, Stream
from supervisor.configuration.streams import streams_of
from supervisor.configuration.values import is_loopback
from supervisor.hidden import hidden_by
from supervisor.stores.location import SqliteLocation
from supervisor.stores.location import parse as parse_store

PROBLEMS_SHOWN_MAX = 50
SOURCES = ("env", "file", "credential")  # of placeholders, beside plain names


class ConfigError(Exception):
    """Everything that is wrong, one sentence each; `warnings` may say why. `outline`: the first of them, for everybody
    in the fleet; it repeats nothing of the file. `permission`: the file may not be read."""

    def __init__(
        self,
        problems: tuple[str, ...],
        permission: bool = False,
        warnings: tuple[str, ...] = (),
        outline: str = "",
    ) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        self.outline = outline or problems[0]
        self.permission = permission
        self.warnings = warnings


@dataclass(frozen=True, slots=True)
class Loaded:
    """`warnings`: what works but should be known, the gravest first."""

    settings: Settings
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Basics:
    """The part of a configuration that other commands than `run` and `check` live by. The rest may have `mistakes`,
    and the streams that have some are missing in `shards`: a reload refuses such a file, and this is how to see it.
    `misspelt`: a sentence for each variable of the environment that was probably meant to override a key."""

    fleet: str
    store: str
    base: Path
    run_dir: Path
    stop_timeout_ms: int
    shards: tuple[str, ...]
    mistakes: int
    misspelt: tuple[str, ...]


def load(source: str, environ: Mapping[str, str]) -> Settings:
    """The settings at a path or in a variable (`env:NAME`). Raises `ConfigError`."""
    return examine(source, environ).settings


def examine(source: str, environ: Mapping[str, str], needed: Collection[str] = SOURCES) -> Loaded:
    """As `load`, with the warnings. What only children need and `needed` does not name (see `Reading`) may be missing
    here: that is then a warning. Raises `ConfigError`."""
    reading, main, streams = _surveyed(source, environ, needed)
    if reading.problems:
        raise _error(reading)
    settings = _settings(reading.document, main, streams)
    warnings = (*_shown(exposed(reading.document)), *_shown(reading.warnings))
    return Loaded(dataclasses.replace(settings, digest=digest_of(settings)), warnings)


def basics(source: str, environ: Mapping[str, str]) -> Basics:
    """Enough to find the store and the supervisor of this host. Raises `ConfigError` if that itself is wrong."""
    reading, main, streams = _surveyed(source, environ, needed=())
    found = {name: main[name] for name in ("fleet", "store", "run_dir")} | {"stop_timeout_ms": main["stop_timeout"]}
    if None in found.values():
        raise _error(reading)
    shards = tuple(shard for stream in streams for shard in stream.shards)
    misspelt = tuple(f"{name}: {sentence(near)}" for name, near in without_effect(environ, source).items() if near)
    return Basics(base=reading.document.base, shards=shards, mistakes=len(reading.problems), misspelt=misspelt, **found)


def _surveyed(
    source: str, environ: Mapping[str, str], needed: Collection[str]
) -> tuple[Reading, dict[str, Any], tuple[Stream, ...]]:
    """Everything that the source says, right or wrong."""
    try:
        document = read(source, environ)
    except Unreadable as error:
        raise ConfigError((str(error),), error.permission) from None
    reading = Reading(document, environ, needed, list(document.problems), list(document.warnings))
    section = _overridden(reading)
    main = values_of(reading, SUPERVISOR, section, {})
    _check_supervisor(reading, section, main)
    return reading, main, streams_of(reading, main)


def _error(reading: Reading) -> ConfigError:
    """A misspelt override, which is but a warning, may be why something is missing."""
    outline = min(reading.problems).outline
    return ConfigError(_shown(reading.problems), warnings=_shown(reading.warnings), outline=outline)


def _shown(problems: Iterable[Problem]) -> tuple[str, ...]:
    ordered = [str(problem) for problem in sorted(set(problems))]
    more = len(ordered) - PROBLEMS_SHOWN_MAX
    return (*ordered[:PROBLEMS_SHOWN_MAX], f"and {more} more") if more > 0 else tuple(ordered)


# --- [supervisor] -----------------------------------------------------------------------------------------


def _overridden(reading: Reading) -> Section:
    """The section with what the environment says instead, and a warning for each override that means nothing."""
    document, environ = reading.document, reading.environ
    section = document.sections.get(SUPERVISOR) or Section(SUPERVISOR, Place(document.source, 1), {})
    for variable, near in without_effect(environ, document.source).items():
        reading.warn(Place(variable, 0), sentence(near))
    return Section(section.name, section.place, {**section.entries, **overrides(environ, document.source)})


def _check_supervisor(reading: Reading, section: Section, main: dict[str, Any]) -> None:
    """Derives what was left out and checks what a single value cannot tell."""
    if "store" not in section.entries:
        place = section.place if section.entries else Place(reading.document.source, 1)
        reading.complain(place, "store is missing in [supervisor], expected for example store = sqlite:///leases.db")
    elif main["store"] is not None:
        try:
            location = parse_store(main["store"], reading.base)
        except ValueError as error:
            reading.complain(section.place_of(["store"]), str(error), "store is no URL of a store")
        else:
            main["store"] = location.url
            if isinstance(location, SqliteLocation):
                _warn_of_strangers(reading, section, "store", location.path.parent)
    _check_durations(reading, section, main)
    for name in ("state_dir", "run_dir"):
        obstacle = in_the_way(main[name]) if main[name] is not None else ""
        if obstacle:
            sentence = f"{name}: {obstacle}, expected a folder or nothing"
            reading.complain(section.place_of([name]), sentence, f"{name} is no folder")
        elif main[name] is not None:
            _warn_of_strangers(reading, section, name, main[name])
    if main["http"] is not None and not is_loopback(main["http"][0]):
        sentence = (
            "HTTP OPEN: whoever can reach this host reads names, hosts and reasons, without a password or TLS; "
            "keep the port in an internal network, or listen on loopback behind a reverse proxy"
        )
        reading.warn(section.place_of(["http"]), sentence)
    if main["http_hosts"] and main["http"] is None:
        reading.warn(section.place_of(["http_hosts"]), "http_hosts means nothing while http is off")
    if main["run_dir"] is not None:
        try:
            socket_path(main["run_dir"])
        except ValueError as error:
            reading.complain(section.place_of(["run_dir"]), f"run_dir: {error}", "run_dir is too long for a socket")
    for folder in main["python_path"] or ():
        if not folder.is_dir():
            sentence = f"python_path: there is no folder {folder}"
            reading.complain(section.place_of(["python_path"]), sentence, "python_path: there is no such folder")
    hiding = hidden_by(main["python_path"] or ())
    if hiding:
        sentence = f"{hiding} hides a package of tenured; rename or remove it"
        reading.complain(section.place_of(["python_path"]), sentence, "python_path hides a package of tenured")


def _warn_of_strangers(reading: Reading, section: Section, name: str, folder: Path) -> None:
    if place := open_to_others(folder):
        sentence = f"FOLDER OPEN: {name}: every user of this host may replace what is in {place}; chmod o-w it"
        reading.warn(section.place_of([name]), sentence)


def _check_durations(reading: Reading, section: Section, main: dict[str, Any]) -> None:
    derived = {
        "renew_interval": (relations.renew_interval_ms, "lease_duration"),
        "call_timeout": (relations.call_timeout_ms, "renew_interval"),
        "margin": (relations.margin_ms, "lease_duration"),
    }
    for name, (derive, origin) in derived.items():
        if name not in section.entries and main[origin] is not None:
            main[name] = derive(main[origin])
    ms = {name: main[name] for name in ("lease_duration", *derived, "poll_interval")}
    for broken in relations.broken_in_supervisor(ms, derived.keys() - section.entries.keys()):
        reading.complain(section.place_of(broken.keys), broken.sentence)


# --- all of it --------------------------------------------------------------------------------------------


def _settings(document: Document, main: Mapping[str, Any], streams: tuple[Stream, ...]) -> Settings:
    durations = (
        *("lease_duration", "renew_interval", "poll_interval", "call_timeout", "margin"),
        *("stop_timeout", "start_timeout", "hang_timeout", "crash_window"),
    )
    as_written = ("fleet", "store", "state_dir", "run_dir", "crash_limit", "log_level", "http")
    capacity = main["capacity"]
    return Settings(
        source=document.source,
        base=document.base,
        digest="",
        capacity=capacity_of(memory_bytes()) if capacity is None else capacity,
        python_path=tuple(str(folder) for folder in main["python_path"]),
        http_hosts=tuple(dict.fromkeys(host for line in main["http_hosts"] for host in line)),
        streams=streams,
        **{f"{name}_ms": main[name] for name in durations},
        **{name: main[name] for name in as_written},
    )
