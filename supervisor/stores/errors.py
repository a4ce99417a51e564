"""What an exception of botocore, or an answer that is none, means: refused, or failed and why. Pure.

A cause is one short phrase made of codes, of names that we chose, and of the host that was called. The provider's
messages are left out, but for the action that an AccessDenied names: they may quote what was sent.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from botocore import exceptions

from supervisor.stores.interface import Denied, Unavailable
from supervisor.writes import Unknown

REFUSED = ("ConditionalCheckFailedException", "ConditionalCheckFailed")  # of a call, of a statement in a batch
MISSING_TABLE = "ResourceNotFoundException"
_MISSING_TABLE_OF_STATEMENT = "ResourceNotFound"  # in a batch each statement has a shorter code of its own
EXISTING_TABLE = "ResourceInUseException"
# The engine, or its permissions, do not know the operation or one of its parameters: trying again is useless.
UNSUPPORTED = (
    "UnknownOperationException",
    "UnrecognizedOperationException",
    "NotImplementedException",
    "ValidationException",
    "ValidationError",
    "SerializationException",
    "AccessDeniedException",
    "AccessDenied",
)

_EXPIRED = ("ExpiredTokenException", "ExpiredToken", "RequestExpired")
_UNRECOGNIZED = ("UnrecognizedClientException", "InvalidClientTokenId")
STALE_CREDENTIALS = (*_EXPIRED, *_UNRECOGNIZED)  # others may have been issued meanwhile
_DENIED = ("AccessDeniedException", "AccessDenied")
_THROTTLED = (
    "ProvisionedThroughputExceededException",
    "ProvisionedThroughputExceeded",
    "RequestLimitExceeded",
    "ThrottlingException",
    "ThrottlingError",
    "Throttling",
)


class NoCredentials(Exception):
    """There are none, now; a later attempt looks again."""


class Failed(Exception):
    """A call was refused or failed. `code` is the service's, empty where it did not speak; `row` is what a refusal
    carried. `unsent`: it certainly reached nobody. A read tells the remedy, too."""

    def __init__(self, cause: str, code: str = "", unsent: bool = False, row: Any = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.code = code
        self.unsent = unsent
        self.row = row

    @property
    def refused(self) -> bool:
        return self.code in REFUSED

    @property
    def denied(self) -> bool:
        return self.code in _DENIED

    @property
    def unknown(self) -> Unknown:
        return Unknown(self.cause, self.unsent, self.denied)

    @property
    def unavailable(self) -> Unavailable:
        """The same, of a read."""
        missing = self.code in (MISSING_TABLE, _MISSING_TABLE_OF_STATEMENT)
        return (Denied if self.denied else Unavailable)(self.cause + ("; `tenured init` creates it" if missing else ""))


def failed(error: Exception, operation: str) -> Failed:
    """`operation` is DynamoDB's name of the call, for example UpdateItem."""
    if isinstance(error, Failed):
        return error
    if isinstance(error, exceptions.ClientError):
        code = _identifier(error.response.get("Error", {}).get("Code"))
        message = str(error.response.get("Error", {}).get("Message", ""))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return Failed(_cause(operation, code, message, f"HTTP {status}"), code, row=error.response.get("Item"))
    reason, unsent = _silence(error)
    return Failed(f"{operation}: {reason}", unsent=unsent)


def failed_statement(response: Any) -> Failed | None:
    """One response of a batch; None: its statement was applied."""
    if isinstance(response, dict) and "Error" not in response:
        return None
    error = response.get("Error") if isinstance(response, dict) else None
    code = _identifier(error.get("Code")) if isinstance(error, dict) else "error"
    message = str(error.get("Message", "")) if isinstance(error, dict) else ""
    row = error.get("Item") if isinstance(error, dict) else None
    return Failed(_cause("BatchExecuteStatement", code, message, "of one statement"), code, row=row)


def no_answer(operation: str) -> Failed:
    """An HTTP success whose body proves nothing, for example the page of a captive portal."""
    return Failed(f"{operation}: the answer proves nothing")


def _identifier(code: Any) -> str:
    return code if isinstance(code, str) and re.fullmatch(r"\w{1,80}", code, re.ASCII) else "error"


def _cause(operation: str, code: str, message: str, where: str) -> str:
    if code in _EXPIRED:
        return f"{operation}: the AWS credentials have expired ({code})"
    if code in _UNRECOGNIZED:
        return f"{operation}: the AWS credentials are not recognized ({code})"
    late = "Signature expired" in message or "Signature not yet current" in message
    if code == "RequestTimeTooSkewed" or (code == "InvalidSignatureException" and late):
        return f"{operation}: the clock of this host is wrong ({code})"
    if code in _DENIED:
        action = re.search(r"not authorized to perform: (dynamodb:\w{1,40})", message)
        return f"{operation}: {action[1] if action else f'dynamodb:{operation}'} is not permitted ({code})"
    if code in _THROTTLED:
        return f"{operation}: throttled ({code})"
    if code in (MISSING_TABLE, _MISSING_TABLE_OF_STATEMENT):
        return f"{operation}: the table does not exist ({code})"
    return f"{operation}: {code} ({where})"


def _silence(error: Exception) -> tuple[str, bool]:
    """Why the service did not speak, and whether the request certainly was not sent."""
    match error:
        case exceptions.ConnectTimeoutError():
            return f"no connection in time{_endpoint(error)}", True
        case exceptions.EndpointConnectionError():
            return f"cannot connect to the endpoint{_endpoint(error)}", True
        case NoCredentials() | exceptions.NoCredentialsError() | exceptions.PartialCredentialsError():
            return "no AWS credentials were found", True
        case exceptions.CredentialRetrievalError():
            return "the AWS credentials could not be fetched", True
        case exceptions.ReadTimeoutError():
            return f"no answer in time{_endpoint(error)}", False
        case exceptions.ConnectionClosedError():
            return f"the connection was closed before the answer{_endpoint(error)}", False
    return type(error).__name__, False


def _endpoint(error: exceptions.BotoCoreError) -> str:
    """Where the call went: nobody wrote down the one that follows from the region. Host and port alone."""
    try:
        parts = urlsplit(str(error.kwargs.get("endpoint_url", "")))
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    return f" ({parts.hostname}{port})" if parts.hostname else ""
