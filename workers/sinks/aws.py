"""Calls of an AWS service, for the sinks that need one: the only place of a child that knows botocore.

What holds:

- botocore is imported, and a client made, at the first call and in this child alone: 27 MB that no other child pays;
- a call is sent once, and ends within its limit: botocore would send it again by itself, and its timeouts bound
  neither a stalled resolver, nor credentials that do not come, nor an answer that trickles;
- credentials are what botocore finds in the child's environment (`AWS_...`, a profile, the role of a task or host).
  Those that the service does not recognise are looked for anew by the next call.

Reasons name codes and never repeat the service's messages, which may quote what was sent.
"""

from __future__ import annotations

import os
import re
from typing import Any

from workers.sinks.address import AwsOptions
from workers.sinks.limited import STUCK_MAX, Limited, Overdue
from workers.sinks.outcome import Again, Refused, Unfit

_CONNECT_MAX_S = 5.0
_TRANSIENT = re.compile(
    r"Throttl|Throughput|LimitExceeded|SlowDown|TooManyRequests|RequestTimeout|Expired|Internal|Unavailable", re.I
)
_STALE = re.compile(r"Expired|UnrecognizedClient|InvalidClientTokenId")
_CONTENT = re.compile(r"Validation|InvalidArgument|InvalidParameter|InvalidMessageContents|Serialization")
_TOO_LARGE = re.compile(r"TooLong|TooLarge")

Failure = Again | Refused | Unfit


class Failed(Exception):
    """A call that did not succeed."""

    def __init__(self, outcome: Failure) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


class Service:
    """`name` is botocore's. For one caller at a time."""

    def __init__(self, name: str, options: AwsOptions, timeout_s: float) -> None:
        self._name, self._options, self._timeout_s = name, options, timeout_s
        self._limited = Limited()
        self._client: Any = None

    def call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """`operation` is the method of botocore's client. Raises `Failed`."""
        try:
            return self._limited.call(lambda: self._called(operation, parameters), self._timeout_s)
        except Overdue as error:
            raise Failed(Again(str(error))) from None
        except Exception as error:
            code = code_of(error)
            if not code or _STALE.search(code):
                self._client = None  # whatever it knew may be old by the next time
            raise Failed(failure_of(error)) from None

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _called(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if self._client is None:
            self._client = self._made()
        answer: dict[str, Any] = getattr(self._client, operation)(**parameters)
        return answer

    def _made(self) -> Any:
        import botocore.session
        from botocore.config import Config

        session = botocore.session.Session(profile=self._options.profile or None)
        return session.create_client(
            self._name,
            region_name=self._options.region or os.environ.get("AWS_REGION") or None,  # None: as the profile says
            endpoint_url=self._options.endpoint_url or None,
            config=Config(
                connect_timeout=min(self._timeout_s, _CONNECT_MAX_S),
                read_timeout=self._timeout_s,
                retries={"mode": "standard", "total_max_attempts": 1},
                max_pool_connections=STUCK_MAX + 1,
                tcp_keepalive=True,
                parameter_validation=False,
            ),
        )


def code_of(error: Exception) -> str:
    """What the service called it; empty: the service did not speak."""
    from botocore.exceptions import ClientError

    if not isinstance(error, ClientError):
        return ""
    code = str(error.response.get("Error", {}).get("Code", "")).rpartition(".")[2]
    return code if re.fullmatch(r"\w{1,80}", code, re.ASCII) else "error"


def transient(code: str) -> bool:
    """It may pass by itself."""
    return bool(_TRANSIENT.search(code))


def failure_of(error: Exception) -> Failure:
    from botocore import exceptions

    if code := code_of(error):
        assert isinstance(error, exceptions.ClientError)
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if status >= 500 or transient(code) or _STALE.search(code):
            return Again(code)
        if status == 413 or _TOO_LARGE.search(code):
            return Unfit(code, too_large=True)
        return Unfit(code) if _CONTENT.search(code) else Refused(code)
    match error:
        case exceptions.NoRegionError():
            return Refused("no region (add ?region=eu-west-1 to the sink, or set AWS_REGION)")
        case exceptions.ProfileNotFound():
            return Refused("no such profile")
        case exceptions.NoCredentialsError() | exceptions.PartialCredentialsError():
            return Again("no AWS credentials")
        case exceptions.CredentialRetrievalError():
            return Again("no AWS credentials (they could not be fetched)")
        case exceptions.EndpointConnectionError() | exceptions.ConnectTimeoutError():
            return Again("no connection")
        case exceptions.ReadTimeoutError() | exceptions.ConnectionClosedError():
            return Again("no answer")
    return Again(f"no proper answer ({type(error).__name__})")
