"""The texts of network sinks: what they mean, and one sentence for each that means nothing."""

from __future__ import annotations

import pytest

from workers.sinks.address import AwsOptions, HttpAddress, http_address, queue_address, stream_address


@pytest.mark.parametrize(
    ("text", "address", "where"),
    [
        ("https://c.example/in", HttpAddress(True, "c.example", 443, "/in"), "c.example:443"),
        ("http://c.example", HttpAddress(False, "c.example", 80, "/"), "c.example:80"),
        ("https://C.example:8443/a/b?c=d&e", HttpAddress(True, "c.example", 8443, "/a/b?c=d&e"), "c.example:8443"),
        ("http://[::1]:80/x", HttpAddress(False, "::1", 80, "/x"), "[::1]:80"),
    ],
)
def test_a_url_says_where_to_post(text: str, address: HttpAddress, where: str) -> None:
    assert http_address(text) == address
    assert address.where == where


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("https://user:secret@c.example/", "write sink_header.Authorization"),
        ("https://c.example/#secret", "fragment"),
        ("https://", "such as"),
        ("https://c.example:secret/", "such as"),
        ("https://c.example:0/", "such as"),
        ("https://c.example/secret x", "such as"),
        ("https://c.example/secret\r\nX: y", "such as"),
        ("https://[::1/secret", "such as"),
    ],
)
def test_a_url_that_is_none_is_refused_without_being_quoted(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as raised:
        http_address(text)
    assert "secret" not in str(raised.value)


def test_a_stream_is_a_name_or_an_arn_and_takes_options() -> None:
    plain = stream_address("kinesis:events-1?region=eu-west-1&endpoint_url=http://127.0.0.1:4566&profile=me")
    assert plain.name == "events-1"
    assert plain.options == AwsOptions("eu-west-1", "http://127.0.0.1:4566", "me")
    assert plain.where == "kinesis stream events-1"
    named = stream_address("kinesis:arn:aws:kinesis:eu-central-1:123456789012:stream/events")
    assert named.name == "arn:aws:kinesis:eu-central-1:123456789012:stream/events"
    assert named.options.region == "eu-central-1"
    assert named.where == "kinesis stream events"


@pytest.mark.parametrize(
    ("text", "region"),
    [
        ("https://sqs.eu-west-1.amazonaws.com/123456789012/events", "eu-west-1"),
        ("https://sqs.cn-north-1.amazonaws.com.cn/123456789012/events", "cn-north-1"),
        ("https://sqs-fips.us-east-1.amazonaws.com/123456789012/events", "us-east-1"),
        ("https://vpce-1-2.sqs.eu-west-1.vpce.amazonaws.com/123456789012/events", "eu-west-1"),
        ("https://eu-west-1.queue.amazonaws.com/123456789012/events", "eu-west-1"),
        ("http://127.0.0.1:4566/000000000000/events", ""),
    ],
)
def test_a_queue_is_a_url_that_says_its_region_and_where_requests_go(text: str, region: str) -> None:
    address = queue_address(f"sqs:{text}.fifo")
    assert address.url == f"{text}.fifo"
    assert address.fifo
    assert address.options.region == region
    assert address.options.endpoint_url == text[: text.index("/", 8)]
    assert address.where == "sqs queue events.fifo"
    other = queue_address(f"sqs:{text}?region=xx-1&endpoint_url=http://127.0.0.1:1")
    assert not other.fifo
    assert other.options == AwsOptions("xx-1", "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kinesis:", "the name of a stream"),
        ("kinesis:a/secret", "the name of a stream"),
        ("kinesis:a?regoin=secret", "no options but"),
        ("kinesis:a?region=", "exactly one value"),
        ("kinesis:a?region=x&region=y", "exactly one value"),
        ("kinesis:a?region=SECRET", "region"),
        ("kinesis:a?endpoint_url=secret", "endpoint_url"),
        ("kinesis:a?endpoint_url=http://u:secret@h/", "scheme, host, port and path alone"),
        ("sqs:events", "such as"),
        ("sqs:https://sqs.eu-west-1.amazonaws.com/", "the URL of a queue"),
        ("sqs:https://u:secret@sqs.eu-west-1.amazonaws.com/123456789012/events", "the URL of a queue"),
        ("sqs:https://sqs.eu-west-1.amazonaws.com/123456789012/events?x=secret", "no options but"),
    ],
)
def test_what_names_no_stream_and_no_queue_is_refused_without_being_quoted(text: str, reason: str) -> None:
    parse = stream_address if text.startswith("kinesis:") else queue_address
    with pytest.raises(ValueError, match=reason) as raised:
        parse(text)
    assert "secret" not in str(raised.value).lower()
