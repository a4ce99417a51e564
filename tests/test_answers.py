"""Answers of DynamoDB read without botocore's model: what comes out is what botocore would make of it."""

import json
from typing import Any

import boto3
import pytest
from botocore.parsers import ResponseParserFactory

from supervisor.stores.answers import Factory

MODEL: Any = boto3.client("dynamodb", region_name="us-east-1").meta.service_model
ROW = {
    "lease": {"S": "trades/7 \N{SNOWMAN}"},
    "epoch": {"N": "12"},
    "paused": {"BOOL": True},
    "checkpoint": {"NULL": True},
    "history": {"L": [{"S": "1 a 2 free"}, {"L": [{"N": "1"}]}]},
    "strangers": {"M": {"a": {"SS": ["x", "y"]}}},
}
REFUSED = {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed", "Item": ROW}
ANSWERS = {
    "UpdateItem": {"Attributes": ROW},
    "DeleteItem": {"Attributes": ROW},
    "GetItem": {"Item": ROW, "ConsumedCapacity": {"TableName": "t", "CapacityUnits": 1.0}},
    "Scan": {"Items": [ROW, {}], "Count": 2, "ScannedCount": 2, "LastEvaluatedKey": {"lease": {"S": "a"}}},
    "BatchExecuteStatement": {"Responses": [{"TableName": "t"}, {"Error": REFUSED, "TableName": "t"}]},
}


def response(body: bytes, status: int = 200) -> dict[str, Any]:
    return {"status_code": status, "headers": {}, "body": body}


def both(operation: str, answer: dict[str, Any]) -> tuple[Any, Any]:
    """What we and botocore make of it, without botocore's remarks about the transport."""
    shape = MODEL.operation_model(operation).output_shape
    read = [factory.create_parser("json").parse(answer, shape) for factory in (Factory(), ResponseParserFactory())]
    assert {each.pop("ResponseMetadata")["HTTPStatusCode"] for each in read} == {answer["status_code"]}
    ours, theirs = read
    return ours, theirs


@pytest.mark.parametrize("operation", ANSWERS)
def test_an_answer_is_what_botocore_makes_of_it(operation: str) -> None:
    ours, theirs = both(operation, response(json.dumps(ANSWERS[operation]).encode()))
    assert ours == theirs == ANSWERS[operation]


@pytest.mark.parametrize("status", [400, 500, 503])
def test_an_error_is_read_by_botocore(status: int) -> None:
    error = {"__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException", "Item": ROW, "message": "no"}
    ours, theirs = both("UpdateItem", response(json.dumps(error).encode(), status))
    assert ours == theirs
    assert ours["Error"]["Code"] == "ConditionalCheckFailedException"


@pytest.mark.parametrize("body", [b"<html>Log in</html>", b"", b"{", b"[1]", b'"text"', b"null", b"\xff\xfe{}"])
def test_what_is_no_json_object_proves_nothing(body: bytes) -> None:
    try:
        theirs = ResponseParserFactory().create_parser("json").parse(response(body), _scan())
    except Exception as error:
        with pytest.raises(type(error)):
            Factory().create_parser("json").parse(response(body), _scan())
    else:
        assert Factory().create_parser("json").parse(response(body), _scan()) == theirs
        assert not theirs or "Items" not in theirs


def _scan() -> Any:
    return MODEL.operation_model("Scan").output_shape
