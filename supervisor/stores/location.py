"""Where a store is: the URL of the `store` key as a value, and the store that it names.

`dynamodb://TABLE?region=..&endpoint_url=..&profile=..`, or `sqlite:///PATH` for the supervisors of one host. Every
error is a ValueError of one sentence that says what would be right. A location never contains a secret, so it may
be shown anywhere; of a text that is none only what cannot be one. `parse` does no I/O.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

from supervisor.stores.interface import Store

_SCHEMES = ("dynamodb", "sqlite")
_OPTIONS = ("region", "endpoint_url", "profile")
_EXAMPLES = "dynamodb://TABLE?region=eu-west-1 or sqlite:///PATH"


@dataclass(frozen=True, slots=True)
class SqliteLocation:
    path: Path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"


@dataclass(frozen=True, slots=True)
class DynamoLocation:
    """An empty `region` means: AWS_REGION, AWS_DEFAULT_REGION or the profile's."""

    table: str
    region: str = ""
    endpoint_url: str = ""
    profile: str = ""

    @property
    def url(self) -> str:
        options = [(name, getattr(self, name)) for name in _OPTIONS if getattr(self, name)]
        query = "&".join(f"{name}={quote(value, safe=':/.-_')}" for name, value in options)
        return f"dynamodb://{self.table}?{query}" if query else f"dynamodb://{self.table}"


Location = SqliteLocation | DynamoLocation


def parse(url: str, base: Path) -> Location:
    """Relative paths resolve against `base`. Raises ValueError."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise ValueError(f"store is no URL, expected {_EXAMPLES}")
    if scheme == "sqlite":
        return _parse_sqlite(rest, base)
    if scheme == "dynamodb":
        return _parse_dynamodb(rest)
    near = difflib.get_close_matches(scheme, _SCHEMES, 1, 0.5)
    meant = f"did you mean {near[0]}://?" if near else f"expected {_EXAMPLES}"
    raise ValueError(f"store has the unknown scheme {scheme}://, {meant}")


def _shown(rest: str) -> str:
    """Without what stands where other stores have a user, a password or a key."""
    _, at, place = rest.partition("?")[0].rpartition("@")
    return f"...{at}{place}" if at else place


def _parse_sqlite(rest: str, base: Path) -> SqliteLocation:
    shown = _shown(rest)
    if not rest.startswith("/"):
        raise ValueError(f"store sqlite://{shown} names a host, write sqlite:///{shown} for a path relative to {base}")
    path = rest[1:]
    if not path or path.endswith("/"):
        raise ValueError(f"store sqlite://{shown} names no file, expected for example sqlite:///leases.db")
    if path.startswith(":memory:"):
        raise ValueError("store sqlite:///:memory: is lost with its process, expected the path of a file")
    if "?" in path:
        raise ValueError(f"store sqlite://{shown} has options after '?', but sqlite:// takes none")
    return SqliteLocation(Path(base, path))


def _parse_dynamodb(rest: str) -> DynamoLocation:
    table, _, query = rest.partition("?")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{3,255}", table):
        raise ValueError(
            f"store names the DynamoDB table {_shown(table)!r}, expected 3 to 255 of the characters A-Z a-z 0-9 _ . -"
        )
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _OPTIONS:
            near = difflib.get_close_matches(name, _OPTIONS, 1, 0.5)
            meant = f"did you mean {near[0]}?" if near else f"expected {', '.join(_OPTIONS)}"
            named = f"the unknown option {name}" if re.fullmatch(r"[a-z_]{1,32}", name) else "an unknown option"
            raise ValueError(f"store dynamodb://{table} has {named}, {meant}")
        if name in options or not value:
            raise ValueError(f"store dynamodb://{table} needs exactly one value for the option {name}")
        options[name] = value
    if "endpoint_url" in options:
        _check_endpoint(table, options["endpoint_url"])
    if not re.fullmatch(r"[a-z0-9-]*", options.get("region", "")):
        raise ValueError(f"store dynamodb://{table} has the region {options['region']!r}, expected one like eu-west-1")
    return DynamoLocation(table, **options)


def _check_endpoint(table: str, endpoint: str) -> None:
    where = f"store dynamodb://{table}: endpoint_url"
    try:
        parts = urlsplit(endpoint)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(f"{where} is no URL, expected for example http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise ValueError(f"{where} carries a user or a password, which would be shown; remove them")
    if parts.query or parts.fragment:
        raise ValueError(f"{where} carries a query or a fragment, expected for example http://127.0.0.1:8000")


def open_store(url: str, base: Path, call_timeout_s: float) -> Store:
    """The store at `url`; makes no connection. Raises ValueError for what `parse` refuses, and for a DynamoDB without a
    region or with an unknown profile."""
    location = parse(url, base)
    if isinstance(location, SqliteLocation):
        from supervisor.stores.sqlite import SqliteStore

        return SqliteStore(location)
    # boto3 costs half a second and 38 MB: only those pay who use it.
    from supervisor.stores.dynamodb import DynamoStore

    return DynamoStore(location, call_timeout_s)
