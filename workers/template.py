"""The `${...}` of configuration values: parsed once, expanded at every connect.

    ${env:NAME}         a variable of the environment
    ${file:PATH}        the content of a file without its trailing newline; read again at every expansion
    ${credential:NAME}  the same, from systemd's credentials directory
    ${shard}            a plain name (see `NAMES`)
    ${...:-default}     what stands there instead when the value is absent or empty
    $$                  a dollar; `%` means nothing, and so does a dollar that is followed by anything else

What holds: a text without placeholders comes out as it went in; inserted text is never scanned again; with
`json=True` and a text that begins like a JSON object, array or string, inserted text is escaped so that it
cannot leave the JSON string in which it stands. No error carries an inserted value, a default, or a placeholder that is
none: those are often secrets.

Not promised: that the result is valid for its purpose. A file may hold a line break that no header may carry;
whoever sends the result checks it.
"""

from __future__ import annotations

import json as jsonlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workers.regular import open_regular

NAMES = ("fleet", "stream", "shard", "index", "connection", "epoch", "checkpoint", "host")
SOURCES = ("env", "file", "credential")
FILE_MAX_BYTES = 65_536

_DOUBLED = "a dollar itself is written $$"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_NOT_UTF_8 = re.compile("[\ud800-\udfff]")  # what Python makes of such bytes; to encode it would raise, and quote it
DOLLAR = re.compile(r"\$\$|\$\{([^}]*)(\}?)")


class TemplateError(ValueError):
    """A placeholder that means nothing, or that has no value here. One sentence, never a value."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """`source` is one of `SOURCES`, or empty for a plain name. `default` None: there is none."""

    source: str
    name: str
    default: str | None

    def __str__(self) -> str:
        """For messages: a piece of a secret with a dollar in it may look like one that asks for a variable."""
        shown = self.name if self.source != "env" or _VARIABLE.fullmatch(self.name) else "..."
        return "${" + (f"{self.source}:" if self.source else "") + shown + "}"


@dataclass(frozen=True, slots=True)
class Template:
    """Literal texts and placeholders, in order."""

    parts: tuple[str | Placeholder, ...]

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        return tuple(part for part in self.parts if isinstance(part, Placeholder))

    @property
    def is_json(self) -> bool:
        """The text itself begins like JSON; one that consists of a placeholder alone is inserted as it is."""
        return bool(self.parts) and isinstance(self.parts[0], str) and self.parts[0].lstrip()[:1] in ("{", "[", '"')

    def names(self, source: str = "") -> tuple[str, ...]:
        """The names asked of `source`: variables, files, credentials, or plain names."""
        return tuple(dict.fromkeys(part.name for part in self.placeholders if part.source == source))

    def expand(
        self,
        variables: Mapping[str, str],
        environment: Mapping[str, str],
        base: str | Path,
        credentials: str,
        json: bool = False,
    ) -> str:
        """The text with everything inserted. `base`: the folder of relative files; `credentials`: systemd's
        directory, empty without one. A shard without a checkpoint is an absent or empty variable. Raises
        `TemplateError`. It reads files: not for an event loop."""
        escaped = json and self.is_json
        texts: list[str] = []
        for part in self.parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            value = _value(part, variables, environment, base, credentials)
            texts.append(jsonlib.dumps(value)[1:-1] if escaped else value)
        return "".join(texts)

    def missing(
        self, environment: Mapping[str, str], base: str | Path, credentials: str
    ) -> tuple[tuple[str, str], ...]:
        """Each variable, file and credential that an expansion now would not find: its source, and a sentence."""
        found: list[tuple[str, str]] = []
        for part in self.placeholders:
            if part.source:
                try:
                    _value(part, {}, environment, base, credentials)
                except TemplateError as error:
                    found.append((part.source, str(error)))
        return tuple(dict.fromkeys(found))

    def outline(self, mark: str = "1") -> str:
        """The text with a mark for each placeholder: its shape, without any value."""
        return "".join(part if isinstance(part, str) else mark for part in self.parts)


def parse(text: str) -> Template:
    """Raises `TemplateError`."""
    parts: list[str | Placeholder] = []
    literal = ""
    position = 0
    for match in DOLLAR.finditer(text):
        literal += text[position : match.start()]
        position = match.end()
        if match[0] == "$$":
            literal += "$"
            continue
        if literal:
            parts.append(literal)
            literal = ""
        if not match[2]:
            raise TemplateError(f"a ${{ is never closed by }}; {_DOUBLED}")
        parts.append(_placeholder(match[1]))
    literal += text[position:]
    if literal:
        parts.append(literal)
    return Template(tuple(parts))


def _placeholder(inner: str) -> Placeholder:
    body, separator, default = inner.partition(":-")
    source, colon, name = body.partition(":")
    if not colon:
        source, name = "", body
    if source and source not in SOURCES:
        raise TemplateError(f"a ${{...:...}} asks an unknown source, expected {', '.join(SOURCES)}; {_DOUBLED}")
    if not source and name not in NAMES:
        raise TemplateError(f"a ${{...}} is no name, {_expected(name)}; {_DOUBLED}")
    if not name:
        raise TemplateError(f"${{{source}:}} lacks the name after the colon")
    if source == "credential" and "/" in name:
        raise TemplateError("a ${credential:...} is a path, expected the plain name of a credential")
    return Placeholder(source, name, default if separator else None)


def _expected(name: str) -> str:
    """What was meant, of which nothing is repeated that is not one of our names."""
    from difflib import get_close_matches  # here, since children that never see a mistake would pay for it

    if near := get_close_matches(name.lower(), NAMES, 1):
        return f"did you mean ${{{near[0]}}}?"
    variable = ", a variable of the environment is ${env:NAME}" if name.isupper() else ""
    return f"expected {', '.join(NAMES)}, or env:NAME, file:PATH, credential:NAME{variable}"


def _value(
    part: Placeholder, variables: Mapping[str, str], environment: Mapping[str, str], base: str | Path, credentials: str
) -> str:
    try:
        if part.source == "env":
            value = _variable(part, environment)
        elif part.source == "file":
            value = _content(part, Path(base) / part.name)
        elif part.source == "credential":
            value = _credential(part, credentials)
        else:
            value = variables.get(part.name, "") if part.name == "checkpoint" else _plain(part, variables)
    except TemplateError:
        if part.default is None:
            raise
        return part.default
    return value or part.default or ""


def _variable(part: Placeholder, environment: Mapping[str, str]) -> str:
    if part.name not in environment:
        raise TemplateError(f"{part} is not set in the environment; set it, or give a default: {str(part)[:-1]}:-...}}")
    value = environment[part.name]
    if _NOT_UTF_8.search(value):
        raise TemplateError(f"{part} holds bytes that are no UTF-8")
    return value


def _plain(part: Placeholder, variables: Mapping[str, str]) -> str:
    if part.name not in variables:
        raise TemplateError(f"{part} has no value here")
    return variables[part.name]


def _credential(part: Placeholder, credentials: str) -> str:
    if not credentials:
        raise TemplateError(f"{part} needs systemd's credentials; add LoadCredential={part.name}:PATH to the unit")
    return _content(part, Path(credentials) / part.name)


def _content(part: Placeholder, path: Path) -> str:
    try:
        with open_regular(path) as file:
            data = file.read(FILE_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "the path is none"
        raise TemplateError(f"{part} cannot be read at {path}: {reason}") from None
    if len(data) > FILE_MAX_BYTES:
        raise TemplateError(f"{part} is larger than {FILE_MAX_BYTES} bytes at {path}")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise TemplateError(f"{part} is not UTF-8 text at {path}") from None
    return text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")
