"""The `[stream:NAME]` sections: which there are, what they say, and every mistake in them.

What holds for a stream that comes out: its values are parsed and fit together, its handler and its certificates are
there. What stands in a section with a wrong name is looked at as well, so that its mistakes are told in the same run.
"""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.configuration import certificates, combinations, relations, repeated
from supervisor.configuration.folders import absent_folder, sink_in_the_way
from supervisor.configuration.ini import Place, Section
from supervisor.configuration.keys import STREAM, SUPERVISOR, find, meant
from supervisor.configuration.reading import Reading, values_of
from supervisor.configuration.settings import Stream
from supervisor.configuration.stream_values import header_problem, rate_text
from supervisor.configuration.subscriptions import json_problem
from supervisor.configuration.values import NAME, nearest
from supervisor.names import SHARDS_MAX
from workers.spec import StreamSpec
from workers.template import parse as parse_template
from workers.websocket import tls

_TLS_FILES = ("tls_ca", "tls_cert", "tls_key")
_SPEC_FIELDS = frozenset(field.name for field in dataclasses.fields(StreamSpec))


def streams_of(reading: Reading, main: dict[str, Any]) -> tuple[Stream, ...]:
    found: list[Stream] = []
    paces: list[_Pace] = []
    for section in reading.document.sections.values():
        if section.name == SUPERVISOR:
            continue
        kind, name, problem = _meant(section.name)
        if problem:
            reading.complain(section.place, problem)
            if kind == STREAM:
                _values(reading, section, name, main)
            elif kind == SUPERVISOR:
                values_of(reading, SUPERVISOR, section, {})
        elif stream := _stream(reading, section, name, main, paces):
            found.append(stream)
    _check_rates(reading, paces)
    total = sum(len(stream.shards) for stream in found)
    if total > SHARDS_MAX:
        reading.complain(Place(reading.document.source, 1), f"{total} shards in all, at most {SHARDS_MAX} are possible")
    if not any(name.startswith(STREAM) for name in reading.document.sections):
        sentence = "there is no stream, expected a section such as [stream:trades] with a url"
        reading.complain(Place(reading.document.source, 1), sentence)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Pace:
    """Of a section whose rate and key are known, whatever else is wrong in it."""

    section: Section
    key: str
    rate: float


def _check_rates(reading: Reading, paces: list[_Pace]) -> None:
    """A server behind one key cannot be spared at two rates."""
    firsts: dict[str, _Pace] = {}
    for pace in paces:
        first = firsts.setdefault(pace.key, pace)
        if first.rate != pace.rate:
            names = [one.section.name for one in (first, pace)]
            rates = [rate_text(one.rate) for one in (first, pace)]
            sentence = combinations.rates(names[0], rates[0], names[1], rates[1], pace.key)
            reading.complain(pace.section.place_of(["connect_rate", "connect_key"]), sentence)


def _meant(section: str) -> tuple[str, str, str]:
    """The kind of section that is meant, or an empty text; the name in it; and what is wrong, if anything is."""
    kind, colon, name = section.partition(":")
    if kind != STREAM or not colon:
        near = nearest(kind, (SUPERVISOR, STREAM))
        named = repeated.section(f"{STREAM}:{name or 'NAME'}")
        right = {SUPERVISOR: "[supervisor]", STREAM: f"[{named}]", "": ""}[near]
        hint = f"did you mean {right}?" if right else "expected [supervisor] or [stream:NAME]"
        return near, name, f"unknown section [{repeated.section(section)}], {hint}"
    if not NAME.fullmatch(name):
        shown = repeated.section(section)
        return STREAM, name, f"[{shown}] needs a name of at most 64 letters, digits, dots, dashes and underscores"
    return STREAM, name, ""


def _stream(reading: Reading, section: Section, name: str, main: dict[str, Any], paces: list[_Pace]) -> Stream | None:
    """None only after a complaint. Its pace is added where it is known."""
    before = len(reading.problems)
    values = _values(reading, section, name, main)
    if "url" not in section.entries and "handler" not in section.entries:
        near = [other for other in section.entries if meant(STREAM, other) in ("url", "handler")]
        if not near:
            reading.complain(section.place, f"[{section.name}] needs a url, or a handler that names the targets")
    if values["url"] is not None and (values["connect_key"] or "connect_key" not in section.entries):
        values["connect_key"] = values["connect_key"] or combinations.connect_key(values["url"], name)
        if values["connect_rate"] is not None:
            paces.append(_Pace(section, values["connect_key"], values["connect_rate"]))
    if len(reading.problems) > before:
        return None
    values["on_idle"] = values["on_idle"] or ("reconnect" if "idle_timeout" in section.entries else "report")
    return _stream_from(name, values, main["outage_policy"])


def _values(reading: Reading, section: Section, name: str, main: dict[str, Any]) -> dict[str, Any]:
    """With a complaint about each that is wrong."""
    variables = {"fleet": main["fleet"] or "", "stream": name, "host": socket.gethostname()}
    values = values_of(reading, STREAM, section, variables)
    for prefix in ("header.", "sink_header."):
        _check_headers(reading, section, prefix, list(values[prefix]))
    _check_files(reading, section, values)
    _check_sink(reading, section, values["sink"] or "", main["state_dir"])
    _check_messages(reading, section, values, variables)
    for broken in relations.broken_in_stream(values):
        reading.complain(section.place_of(broken.keys), broken.sentence)
    written = {_in_table(name) for name in section.entries}
    for key, sentence in combinations.mistakes(values, written):
        reading.complain(_place_of(section, key), sentence)
    for key, sentence in combinations.doubts(values, written):
        reading.warn(_place_of(section, key), sentence)
    return values


def _place_of(section: Section, key: str) -> Place:
    return next(entry.place for written, entry in section.entries.items() if _in_table(written) == key)


def _in_table(name: str) -> str:
    key = find(STREAM, name)
    return key.name if key else ""


def _check_headers(reading: Reading, section: Section, prefix: str, headers: list[str]) -> None:
    for number, header in enumerate(headers):
        place = section.entries[prefix + header].place
        sentence = header_problem(prefix, header)
        if sentence:
            reading.complain(place, sentence)
        if header.lower() in (earlier.lower() for earlier in headers[:number]):
            shown = repeated.key(prefix + header)
            reading.complain(place, f"{shown} is there twice, upper and lower case are the same; remove one")


def _check_files(reading: Reading, section: Section, values: Mapping[str, Any]) -> None:
    for key in ("handler", "sink"):
        file = Path((values[key] or "").rpartition(":")[0])
        if file.suffix == ".py" and not file.is_file():
            reading.complain(
                section.place_of([key]), f"{key}: there is no file {file}", f"{key}: there is no such file"
            )
    absent = [key for key in _TLS_FILES if values[key] is not None and not values[key].is_file()]
    for key in absent:
        sentence = f"{key}: there is no file {values[key]}"
        reading.complain(section.place_of([key]), sentence, f"{key}: there is no such file")
    if not absent:
        _check_certificates(reading, section, *(str(values[key] or "") for key in _TLS_FILES))


def _check_certificates(reading: Reading, section: Section, ca: str, cert: str, key: str) -> None:
    profile = tls.Profile(ca, cert, key)
    try:
        if ca or cert:
            tls.context(profile)
        flaw = certificates.dated(profile)
    except tls.BadFile as error:
        reading.complain(section.place_of([error.key]), str(error), f"{error.key}: the file cannot be used")
    else:
        if flaw:
            reading.warn(section.place_of(["tls_cert"]), f"tls_cert: servers will say of {cert}: {flaw}")


def _check_sink(reading: Reading, section: Section, sink: str, state_dir: Path | None) -> None:
    kind, _, path = sink.partition(":")
    if kind != "jsonl":
        return
    place, obstacle, absent = section.place_of(["sink"]), sink_in_the_way(path), absent_folder(path)
    if obstacle:
        reading.complain(place, f"sink: {obstacle}, events could not be written", "sink: events could not be written")
    elif absent and absent != state_dir:  # which is made at the start; others may be there on the host that runs it
        reading.warn(place, f"sink: there is no folder {absent}, events cannot be written to it")


def _check_messages(
    reading: Reading, section: Section, values: Mapping[str, Any], variables: Mapping[str, str]
) -> None:
    name = variables["stream"]
    shards = [
        {**variables, "shard": f"{name}/{index}" if index else name, "index": index}
        for index in values["shards"] or ("",)
    ]
    for text in values["subscribe"] or ():
        problem = json_problem(parse_template(text), shards, reading.environ, reading.base, reading.credentials)
        if problem:
            reading.warn(section.place_of(["subscribe"]), f"subscribe {problem}")


def _stream_from(name: str, values: dict[str, Any], outage_policy: str) -> Stream:
    indices = values["shards"] or ("",)
    templates = [*values["url"], *values["subscribe"], *values["header."].values(), *values["sink_header."].values()]
    templates.append(values["proxy"])
    asked = [variable for text in templates for variable in parse_template(text).names("env")]
    spec: dict[str, Any] = {
        "headers": tuple(values["header."].items()),
        "sink_headers": tuple(values["sink_header."].items()),
    }
    for key, value in values.items():
        field = key if key in _SPEC_FIELDS else f"{key}_ms"
        if field in _SPEC_FIELDS and value is not None:
            spec[field] = str(value) if isinstance(value, Path) else value
    spec["tls_stamp"] = tls.stamp(*(spec.get(key, "") for key in _TLS_FILES))
    return Stream(
        name=name,
        shards=tuple(f"{name}/{index}" if index else name for index in indices),
        indices=indices,
        outage_policy=values["outage_policy"] or outage_policy,
        environment=tuple(dict.fromkeys([*(values["environment"] or ()), *asked])),
        spec=StreamSpec(stream=name, **spec),
    )
