"""The kinds of values that the configuration knows: text in, value out, or a ValueError that says what is expected.

Each parser takes the text and the folder that relative paths resolve against, and does no I/O. Its error completes
the sentence "KEY is 'TEXT', expected ...", so that it names what would be right and never repeats the text. What it
accepts stands beside it in words, for the reference.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.configuration import slips
from supervisor.names import SHARDS_MAX


@dataclass(frozen=True, slots=True)
class Parse:
    """`plain`: nobody keeps a secret there, so that a short text which is none of these may be repeated."""

    accepts: str
    read: Callable[[str, Path], Any]
    plain: bool = False

    def __call__(self, text: str, base: Path) -> Any:
        return self.read(text, base)


def accepting(words: str, plain: bool = False) -> Callable[[Callable[[str, Path], Any]], Parse]:
    return lambda read: Parse(words, read, plain)


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_BYTES = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_HOST = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?)*"
)
_MEANT_A_RANGE = re.compile(r"([0-9]{1,9})(?:\s*(?:\.{2,}|[-:–—…])\s*|\s+to\s+)([0-9]{1,9})")


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant, or an empty text."""
    folded = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), folded, 1, 0.6)
    return folded[near[0]] if near else ""


def duration_text(ms: int) -> str:
    """The shortest way to write a duration: 90000 -> 90s, 60000 -> 1m, 3333 -> 3333ms."""
    for unit in ("h", "m", "s"):
        if ms and ms % _MS[unit] == 0:
            return f"{ms // _MS[unit]}{unit}"
    return f"{ms}ms"


def size_text(size: int) -> str:
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return f"{size}B"


def duration(low_ms: int, high_ms: int, word: str = "") -> Parse:
    """Milliseconds; `word` (which becomes 0) may stand for none at all."""
    either = f"{word} or " if word else ""

    @accepting(f"{either}a duration from {duration_text(low_ms)} to {duration_text(high_ms)}", plain=True)
    def parse(text: str, base: Path) -> int:
        if word and text == word:
            return 0
        match = re.fullmatch(r"([0-9]{1,12})(ms|s|m|h)", text)
        if match is None:
            near_ms = slips.milliseconds_meant(text)
            if near_ms and not low_ms <= near_ms <= high_ms:  # what is suggested must be possible
                raise ValueError(f"{either}a duration from {duration_text(low_ms)} to {duration_text(high_ms)}")
            near = f" (did you mean {duration_text(near_ms)}?)" if near_ms else ""
            raise ValueError(f"{either}a duration such as 250ms, 10s, 5m or 1h{near}")
        value = int(match[1]) * _MS[match[2]]
        if not low_ms <= value <= high_ms:
            raise ValueError(f"{either}a duration from {duration_text(low_ms)} to {duration_text(high_ms)}")
        return value

    return parse


def size(low: int, high: int) -> Parse:
    """Bytes."""

    @accepting(f"a size from {size_text(low)} to {size_text(high)}", plain=True)
    def parse(text: str, base: Path) -> int:
        value = _bytes(text)
        if value is None:
            near = slips.size_meant(text)
            if (meant := _bytes(near)) is not None and not low <= meant <= high:  # what is suggested must be possible
                raise ValueError(f"a size from {size_text(low)} to {size_text(high)}")
            raise ValueError("a size such as 64KiB or 1MiB" + (f" (did you mean {near}?)" if near else ""))
        if not low <= value <= high:
            raise ValueError(f"a size from {size_text(low)} to {size_text(high)}")
        return value

    return parse


def _bytes(text: str) -> int | None:
    match = re.fullmatch(r"([0-9]{1,12})(B|KiB|MiB|GiB)", text)
    return int(match[1]) * _BYTES[match[2]] if match else None


def count(low: int, high: int, word: str = "") -> Parse:
    """A whole number; `word` (which becomes None) may stand for one that is found at run time."""

    @accepting(f"{word} or a number from {low} to {high}".removeprefix(" or "), plain=True)
    def parse(text: str, base: Path) -> int | None:
        if word and text == word:
            return None
        if not re.fullmatch(r"[0-9]{1,9}", text) or not low <= int(text) <= high:
            raise ValueError(f"{word} or a number from {low} to {high}".removeprefix(" or "))
        return int(text)

    return parse


def choice(*allowed: str) -> Parse:
    @accepting(f"one of {', '.join(allowed)}", plain=True)
    def parse(text: str, base: Path) -> str:
        if text not in allowed:
            near = nearest(text, allowed)
            raise ValueError(f"one of {', '.join(allowed)}" + (f" (did you mean {near}?)" if near else ""))
        return text

    return parse


@accepting("a URL, dynamodb://TABLE or sqlite:///PATH")
def store(text: str, base: Path) -> str:
    """As it is: `config` asks the stores what they make of it."""
    return text


@accepting("a name: at most 64 letters, digits, dots, dashes and underscores", plain=True)
def name(text: str, base: Path) -> str:
    if not NAME.fullmatch(text):
        raise ValueError("a name of at most 64 letters, digits, dots, dashes and underscores")
    return text


@accepting("a path, relative to the folder of the file or absolute")
def path(text: str, base: Path) -> Path:
    if "\0" in text:
        raise ValueError("a path")
    return (base / text).resolve() if ".." in Path(text).parts else base / text


@accepting("a path, in which `*`, `?` and `[...]` stand for other characters")
def pattern(text: str, base: Path) -> str:
    """A glob pattern: `ini` resolves it before any key is read."""
    return text


@accepting("off, or an address (or localhost) and a port from 1 to 65535, such as 127.0.0.1:9110 or [::1]:9110")
def address(text: str, base: Path) -> tuple[str, int] | None:
    """Where to listen: an address (no name that somebody else resolves) and a port; `off` is nowhere."""
    if text == "off":
        return None
    host, _, port = text.rpartition(":")
    inner = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 1 <= int(port) <= 65535 or not _is_address(inner, inner != host):
        raise ValueError("off, or an address and a port from 1 to 65535, such as 127.0.0.1:9110, [::1]:9110")
    return inner, int(port)


def _is_address(host: str, bracketed: bool) -> bool:
    if host == "localhost":
        return not bracketed
    try:
        return (ipaddress.ip_address(host).version == 6) == bracketed
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Of a host that `address` took."""
    return host == "localhost" or ipaddress.ip_address(host).is_loopback


@accepting("names or addresses without a port, separated by commas")
def host_names(text: str, base: Path) -> tuple[str, ...]:
    """Names or addresses as they stand in a Host header, in lower case and without a port."""
    names = text.replace(",", " ").lower().split()
    for each in names:
        inner = each[1:-1] if each.startswith("[") and each.endswith("]") else each
        if not _is_address(inner, inner != each) and not _HOST.fullmatch(each):
            raise ValueError("names or addresses without a port, such as tenured.example, 10.0.0.7, [fd00::7]")
    return tuple(dict.fromkeys(names))


@accepting("a code that may be sent: 1000 to 1003, 1007 to 1014, or 3000 to 4999", plain=True)
def close_code(text: str, base: Path) -> int:
    value = int(text) if re.fullmatch(r"[0-9]{4}", text) else 0
    if not ((1000 <= value <= 1014 and value not in (1004, 1005, 1006)) or 3000 <= value <= 4999):
        raise ValueError("a close code that may be sent: 1000, 1001, ... or 3000 to 4999")
    return value


@accepting("names of environment variables, separated by commas")
def variable_names(text: str, base: Path) -> tuple[str, ...]:
    names = text.replace(",", " ").split()
    if not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", each) for each in names):
        raise ValueError("names of environment variables, separated by commas")
    return tuple(dict.fromkeys(names))


@accepting("a range (0-15), names (eu, us, asia), or a mixture of both, each once and at most 10000", plain=True)
def indices(text: str, base: Path) -> tuple[str, ...]:
    """`0-15`, `eu, us, asia`, or a mixture: the indices of the shards in the order of the file."""
    if re.fullmatch(r"[1-9][0-9]{0,8}", text):
        one = f"for shard {text} alone it is {text}-{text}"
        raise ValueError(f"a range or names: 0-{int(text) - 1} for {text} shards; {one}")
    found: list[str] = []
    for item in (item.strip() for item in text.split(",")):
        span = re.fullmatch(r"([0-9]{1,9})-([0-9]{1,9})", item)
        if span:
            low, high = int(span[1]), int(span[2])
            if low > high:
                raise ValueError(f"a range that rises, {high}-{low}")
            if high - low >= SHARDS_MAX:
                raise ValueError(f"at most {SHARDS_MAX} shards")
            found.extend(str(number) for number in range(low, high + 1))
        elif near := _MEANT_A_RANGE.fullmatch(item):
            raise ValueError(f"a range (0-15) or names (eu, us, asia) (did you mean {near[1]}-{near[2]}?)")
        elif NAME.fullmatch(item):
            found.append(item)
        else:
            raise ValueError("a range (0-15) or names (eu, us, asia)")
    if len(found) > SHARDS_MAX:
        raise ValueError(f"at most {SHARDS_MAX} shards")
    for index, times in Counter(found).items():
        if times > 1:
            raise ValueError(f"each shard once, but {index} stands there twice")
    return tuple(found)
