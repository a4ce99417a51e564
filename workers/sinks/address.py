"""The texts of network sinks as values: `http(s)://...`, `kinesis:NAME`, `sqs:QUEUE_URL`, and their options.

Pure, so that a configuration can be checked without any of their libraries. Every error is a ValueError that says what
would be right, as the end of a sentence ("sink needs ..."), and repeats nothing which could be a secret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, urlsplit

_AWS_OPTIONS = ("region", "endpoint_url", "profile")
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_STREAM = re.compile(r"[A-Za-z0-9_.-]{1,128}|arn:[a-z-]+:kinesis:[a-z0-9-]+:[0-9]{12}:stream/[A-Za-z0-9_.-]{1,128}")
_QUEUE = re.compile(r"(/[^/]+)*/[A-Za-z0-9_-]{1,80}(\.fifo)?")
_REGION_OF_HOST = re.compile(r"(?:.+\.)?sqs(?:-fips)?\.([a-z0-9-]+)\.|([a-z0-9-]+)\.queue\.amazonaws\.com")


@dataclass(frozen=True, slots=True)
class HttpAddress:
    secure: bool
    host: str
    port: int
    path: str  # with the query

    @property
    def where(self) -> str:
        """For people: no path, which may hold a token."""
        return place_of(self.host, self.port)


@dataclass(frozen=True, slots=True)
class AwsOptions:
    """Empty: as boto3 finds them."""

    region: str = ""
    endpoint_url: str = ""
    profile: str = ""


@dataclass(frozen=True, slots=True)
class StreamAddress:
    name: str  # or its ARN
    options: AwsOptions

    @property
    def where(self) -> str:
        return f"kinesis stream {self.name.rpartition('/')[2]}"


@dataclass(frozen=True, slots=True)
class QueueAddress:
    url: str
    options: AwsOptions

    @property
    def fifo(self) -> bool:
        """Such a queue keeps the order within a group and drops copies for five minutes."""
        return self.url.endswith(".fifo")

    @property
    def where(self) -> str:
        return f"sqs queue {self.url.rpartition('/')[2]}"


def check(text: str) -> None:
    """Raises ValueError unless it is one of these."""
    kinds = {"kinesis": stream_address, "sqs": queue_address}
    kinds.get(text.partition(":")[0], http_address)(text)


def place_of(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def http_address(text: str) -> HttpAddress:
    """Raises ValueError."""
    parts = _split(text, "a URL", "https://collector.example/events")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a URL without user and password, which would be shown; write sink_header.Authorization")
    if parts.fragment:
        raise ValueError("a URL without a fragment (#...), which no server is sent")
    query = f"?{parts.query}" if parts.query else ""
    secure = parts.scheme == "https"
    return HttpAddress(secure, parts.hostname or "", parts.port or (443 if secure else 80), (parts.path or "/") + query)


def stream_address(text: str) -> StreamAddress:
    """Raises ValueError."""
    name, _, query = text.removeprefix("kinesis:").partition("?")
    if not _STREAM.fullmatch(name):
        raise ValueError("the name of a stream (A-Z a-z 0-9 _ . -) or its ARN behind kinesis:")
    options = _options(query)
    if name.startswith("arn:") and not options.region:
        options = AwsOptions(name.split(":")[3], options.endpoint_url, options.profile)
    return StreamAddress(name, options)


def queue_address(text: str) -> QueueAddress:
    """The region is that of the host where it tells one. Raises ValueError."""
    url, _, query = text.removeprefix("sqs:").partition("?")
    example = "https://sqs.eu-west-1.amazonaws.com/123456789012/events"
    parts = _split(url, "the URL of a queue behind sqs:", example)
    if not _QUEUE.fullmatch(parts.path) or parts.username is not None:
        raise ValueError(f"the URL of a queue behind sqs:, such as {example}")
    options = _options(query)
    told = _REGION_OF_HOST.match(parts.hostname or "")
    region = options.region or (told and (told[1] or told[2])) or ""
    return QueueAddress(
        url, AwsOptions(region, options.endpoint_url or f"{parts.scheme}://{parts.netloc}", options.profile)
    )


def _split(text: str, what: str, example: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole or re.search(r"[\0-\x20\x7f-\U0010ffff]", text):
        raise ValueError(f"{what}, such as {example}")
    return parts


def _options(query: str) -> AwsOptions:
    values: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _AWS_OPTIONS:
            raise ValueError(f"no options but {', '.join(_AWS_OPTIONS)}")
        if name in values or not value:
            raise ValueError(f"exactly one value for the option {name}")
        values[name] = value
    if not _REGION.fullmatch(values.get("region", "x")):
        raise ValueError("a region such as eu-west-1")
    if "endpoint_url" in values:
        parts = _split(values["endpoint_url"], "an endpoint_url", "http://127.0.0.1:4566")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("an endpoint_url of scheme, host, port and path alone")
    return AwsOptions(**values)
