"""What DynamoDB answered, read without a model: its JSON is already what we ask it for.

botocore compares each answer with its model of the service, member by member, which for the rows of a snapshot takes
three quarters of the CPU time of the whole call, and changes nothing: texts, numbers as texts, lists. So an answer of
success that is one JSON object is taken as it is. Every other one (an error, a captive portal's page) is left to
botocore. It does not check types; whoever uses a part of an answer does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from botocore.parsers import ResponseParserFactory

COMPONENT = "response_parser_factory"  # botocore's name of what a `Factory` replaces in a session


class Parser(Protocol):
    """What botocore asks of a parser. `response` has `status_code`, `headers` and `body`."""

    def parse(self, response: Mapping[str, Any], shape: Any) -> Any: ...


class Factory:
    """A session that has this component makes clients that read answers so. For DynamoDB alone: what other services
    answer need not look as botocore's models have it, not even in JSON."""

    def create_parser(self, protocol_name: str) -> Parser:
        return Plain(ResponseParserFactory().create_parser(protocol_name))


class Plain:
    def __init__(self, thorough: Parser) -> None:
        self._thorough = thorough

    def parse(self, response: Mapping[str, Any], shape: Any) -> Any:
        if response["status_code"] == 200:
            try:
                answer = json.loads(response["body"].decode())
            except ValueError:
                answer = None
            if isinstance(answer, dict):
                return answer | {"ResponseMetadata": {"HTTPStatusCode": 200, "HTTPHeaders": {}}}
        return self._thorough.parse(response, shape)
