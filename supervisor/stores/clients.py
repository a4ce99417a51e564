"""The boto3 clients of one DynamoDB store: one for renewals, one for everything else, each with a pool of its own.

What holds: a call is sent at most once (botocore would send it ten times, and an applied write whose answer was lost
would come back as refused); a connection or an answer that does not come ends it, though a trickling body or a stalled
resolver can hold it longer, which is why callers keep a deadline of their own. Clients are built at first use; a
build that finds no credentials is tried again by the next call.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Any, Protocol, cast

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from supervisor.stores import answers
from supervisor.stores.credentials import AheadOfNeed
from supervisor.stores.location import DynamoLocation

_CONNECT_TIMEOUT_MAX_S = 1.0


class Client(Protocol):
    """The calls of the low-level DynamoDB client that we use."""

    def update_item(self, **parameters: Any) -> dict[str, Any]: ...
    def delete_item(self, **parameters: Any) -> dict[str, Any]: ...
    def get_item(self, **parameters: Any) -> dict[str, Any]: ...
    def scan(self, **parameters: Any) -> dict[str, Any]: ...
    def batch_execute_statement(self, **parameters: Any) -> dict[str, Any]: ...
    def describe_table(self, **parameters: Any) -> dict[str, Any]: ...
    def create_table(self, **parameters: Any) -> dict[str, Any]: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Built:
    credentials: AheadOfNeed
    renewals: Client
    others: Client


class Clients:
    """Raises ValueError for an unknown profile or a missing region."""

    def __init__(self, location: DynamoLocation, call_timeout_s: float, lanes: int) -> None:
        self._location = location
        self._config = _config(call_timeout_s, lanes)
        session = botocore.session.Session(profile=location.profile or None)
        self.region = _region(location, session)
        self._resolver = session.get_component("credential_provider")
        self._building = threading.Lock()
        self._built: _Built | None = None

    @property
    def renewals(self) -> Client:
        return self._get().renewals

    @property
    def others(self) -> Client:
        return self._get().others

    def doubt_credentials(self) -> None:
        """The service refused those that a call was signed with."""
        if (built := self._built) is not None:
            built.credentials.doubt()

    def close(self) -> None:
        built, self._built = self._built, None
        if built is not None:
            built.credentials.close()
            built.renewals.close()
            built.others.close()

    def _get(self) -> _Built:
        if (built := self._built) is not None:
            return built
        with self._building:
            if self._built is None:
                self._built = self._build()
            return self._built

    def _build(self) -> _Built:
        """In a session of their own: the other is that of the providers of credentials, which call services whose
        answers must be compared with their models."""
        credentials = AheadOfNeed(self._resolver.load_credentials)
        try:
            core = botocore.session.Session(profile=self._location.profile or None)
            core.register_component("credential_provider", _Fixed(credentials))
            core.register_component(answers.COMPONENT, answers.Factory())
            session = boto3.Session(botocore_session=core, region_name=self.region)
            return _Built(credentials, self._client(session), self._client(session))
        except BaseException:
            credentials.close()  # or each attempt would leave a thread behind
            raise

    def _client(self, session: boto3.Session) -> Client:
        endpoint_url = self._location.endpoint_url or None
        return cast(Client, session.client("dynamodb", endpoint_url=endpoint_url, config=self._config))


@dataclass(frozen=True, slots=True)
class _Fixed:
    """A credential provider that was asked already."""

    credentials: AheadOfNeed

    def load_credentials(self) -> AheadOfNeed:
        return self.credentials


def _config(call_timeout_s: float, lanes: int) -> Config:
    options: dict[str, Any] = {
        "connect_timeout": min(_CONNECT_TIMEOUT_MAX_S, call_timeout_s),
        "read_timeout": call_timeout_s,
        "retries": {"mode": "standard", "total_max_attempts": 1},
        "max_pool_connections": lanes + 2,
        "tcp_keepalive": True,
        "parameter_validation": False,
    }
    try:
        return Config(**options, account_id_endpoint_mode="disabled")
    except TypeError:  # an older botocore, which has no such mode
        return Config(**options)


def _region(location: DynamoLocation, core: botocore.session.Session) -> str:
    try:
        from_profile = core.get_config_variable("region")  # also reads AWS_DEFAULT_REGION
    except BotoCoreError as error:
        raise ValueError(f"store {location.url}: {error}") from None
    region = location.region or os.environ.get("AWS_REGION") or from_profile
    if not region:
        raise ValueError(f"store {location.url} has no region, add ?region=eu-west-1 or set AWS_REGION")
    return str(region)
