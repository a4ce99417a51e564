"""The kinds of values that only streams have; see `values` for what holds of a parser."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from supervisor.configuration import slips
from supervisor.configuration.values import accepting, nearest, path
from workers.sinks.address import check as check_address
from workers.template import parse as parse_template

_SINKS_WITHOUT_PLACE = ("stdout", "discard")
_NETWORK_SINKS = ("http", "https", "kinesis", "sqs")
_SINKS = "stdout, jsonl:PATH, http(s)://HOST/PATH, kinesis:NAME, sqs:URL, discard, or a class of yours (FILE.py:CLASS)"
_RATE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)/(s|m|h)")
_PERIOD_S = {"s": 1, "m": 60, "h": 3600}
RATE_MAX = 100_000.0
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = (  # what the handshake itself sends; a second one would contradict it
    *("connection", "content-length", "host", "transfer-encoding", "upgrade"),
    *("sec-websocket-accept", "sec-websocket-key", "sec-websocket-version"),
)
_OURS_OF_SINKS = (*_OURS, "content-encoding", "idempotency-key")


@accepting("FILE.py:CLASS or MODULE:CLASS")
def handler(text: str, base: Path) -> str:
    """`path/file.py:Class` or `package.module:Class`; a path becomes absolute."""
    found = _class(text, base)
    if not found:
        raise ValueError("a file and a class (./trades.py:Trades) or a module and a class (package.module:Trades)")
    return found


def _class(text: str, base: Path) -> str:
    """Empty: it names none."""
    place, colon, attribute = text.rpartition(":")
    if colon and attribute.isidentifier():
        if place.endswith(".py"):
            return f"{path.read(place, base)}:{attribute}"
        if all(part.isidentifier() for part in place.split(".")):
            return text
    return ""


@accepting(_SINKS)
def sink(text: str, base: Path) -> str:
    """As written, but paths become absolute."""
    kind, colon, rest = text.partition(":")
    if text in _SINKS_WITHOUT_PLACE:
        return text
    if kind == "jsonl" and colon and rest:
        folder = "/" if rest.endswith("/") else ""  # which a path would lose: it says that a folder is meant
        return f"jsonl:{path(rest, base)}{folder}"
    if kind in _NETWORK_SINKS and colon and rest:
        check_address(text)
        return text
    if (text.find(".py:") >= 0 or not nearest(kind, ("jsonl", *_NETWORK_SINKS))) and (found := _class(text, base)):
        return found
    near = nearest(kind, (*_SINKS_WITHOUT_PLACE, "jsonl", *_NETWORK_SINKS))
    if text.startswith(("/", "./", "~")):
        raise ValueError(f"one of {_SINKS}; a file is jsonl:PATH")
    place = "" if near in ("", *_SINKS_WITHOUT_PLACE) else ":..."
    raise ValueError(f"one of {_SINKS}" + (f" (did you mean {near}{place}?)" if near else ""))


@accepting("a JSON pointer (RFC 6901) such as /seq or /data/0/id", plain=True)
def pointer(text: str, base: Path) -> str:
    if not re.fullmatch(r"(/([^~/]|~[01])*)+", text):
        near = slips.pointer_meant(text)
        hint = f" (did you mean {near}?)" if near else ", in which ~1 stands for / and ~0 for ~"
        raise ValueError(f"a JSON pointer such as /seq or /data/0/id{hint}")
    return text


@accepting("off, or a number for each second, minute or hour, such as 5/s, 0.5/s or 300/m", plain=True)
def rate(text: str, base: Path) -> float:
    """For each second; 0: no limit."""
    if text == "off":
        return 0.0
    match = _RATE.fullmatch(text)
    value = float(match[1]) / _PERIOD_S[match[2]] if match else 0.0
    if not 0 < value <= RATE_MAX:
        near = f" (did you mean {text}/s?)" if _RATE.fullmatch(f"{text}/s") else ""
        raise ValueError(f"off, or a rate such as 5/s, 0.5/s or 300/m{near}")
    return value


def rate_text(per_s: float) -> str:
    """The shortest way to write a rate."""
    return f"{per_s:g}/s" if per_s else "off"


@accepting("none, env, or http://[USER:PASSWORD@]HOST:PORT")
def proxy(text: str, base: Path) -> str:
    """A template; `env` means what the environment says, `none` that nobody asks it."""
    outline = parse_template(text).outline()
    if text not in ("none", "env") and not re.fullmatch(r"http://([^/?#@\s]*@)?[^/?#@\s]+:[0-9]{1,5}/?", outline):
        socks = "; SOCKS is not supported" if outline.lower().startswith("socks") else ""
        raise ValueError(f"none, env, or a proxy such as http://proxy.internal:3128{socks}")
    return text


@accepting("a ws:// or wss:// URL without a fragment")
def url(text: str, base: Path) -> str:
    """A template of a ws:// or wss:// URL. What a placeholder stands for is checked at the connect."""
    template = parse_template(text)
    outline = template.outline()
    if re.search(r"[\s\0]", outline):
        raise ValueError("a URL without spaces; several URLs stand on indented lines of their own")
    if template.parts and not isinstance(template.parts[0], str):
        return text
    if not re.match(r"wss?://", outline):
        near = re.match(r"http(s?)://", outline)
        meant = f" (did you mean ws{near[1]}://?)" if near else ""
        raise ValueError(f"a URL that begins with ws:// or wss://{meant}")
    try:
        parts = urlsplit(outline)
        whole = bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole:
        raise ValueError("a URL with a host and a valid port, such as wss://feed.example/ws")
    if parts.fragment or outline.endswith("#"):
        raise ValueError("a URL without a fragment (#...)")
    return text


@accepting("a text")
def message(text: str, base: Path) -> str:
    """A template of a text that is sent after the connect."""
    parse_template(text)
    return text


@accepting("a text")
def sink_header(text: str, base: Path) -> str:
    """A template of a header of a sink's requests, which are the shard's."""
    if {"connection", "checkpoint"} & set(parse_template(text).names()):
        raise ValueError("a text without ${connection} and ${checkpoint}: a request may hold events of several")
    return text


def header_problem(prefix: str, header: str) -> str:
    """What is wrong with a header's name, as a sentence; empty: nothing."""
    name = prefix + header
    if not _TOKEN.fullmatch(header):
        return f"the name of a header holds letters, digits and -, as in {prefix}Authorization"
    if header.lower() == "sec-websocket-extensions":
        return f"{name} asks for an extension; the one that there is has a key of its own: compression = deflate"
    if header.lower() in (_OURS_OF_SINKS if prefix == "sink_header." else _OURS):
        return f"{name} is set by the request itself; remove it"
    return ""
