"""Store URLs: what they mean, and the sentence for each that means nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.stores.location import DynamoLocation, SqliteLocation, open_store, parse

BASE = Path("/etc/tenured")


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("sqlite:///leases.db", SqliteLocation(Path("/etc/tenured/leases.db"))),
        ("sqlite:///data/leases.db", SqliteLocation(Path("/etc/tenured/data/leases.db"))),
        ("sqlite:////var/lib/leases.db", SqliteLocation(Path("/var/lib/leases.db"))),
        ("sqlite:///a b%20c#d.db", SqliteLocation(Path("/etc/tenured/a b%20c#d.db"))),
        ("dynamodb://tenured-leases", DynamoLocation("tenured-leases")),
        ("dynamodb://Tenured.Leases_1?region=eu-west-1", DynamoLocation("Tenured.Leases_1", "eu-west-1")),
        (
            "dynamodb://leases?region=us-east-1&endpoint_url=http://127.0.0.1:8000&profile=dev",
            DynamoLocation("leases", "us-east-1", "http://127.0.0.1:8000", "dev"),
        ),
        ("dynamodb://leases?profile=my%20team", DynamoLocation("leases", profile="my team")),
    ],
)
def test_a_url_names_a_place_and_reads_the_same_when_shown(url: str, location: object) -> None:
    found = parse(url, BASE)
    assert found == location
    assert parse(found.url, Path("/elsewhere")) == location


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("leases.db", "store is no URL, expected dynamodb://TABLE?region=eu-west-1 or sqlite:///PATH"),
        ("", "is no URL"),
        ("dynamo://leases", "unknown scheme dynamo://, did you mean dynamodb://?"),
        ("sqlit:///leases.db", "did you mean sqlite://?"),
        ("redis://host", "unknown scheme redis://, expected dynamodb://TABLE"),
        ("sqlite://leases.db", "write sqlite:///leases.db for a path relative to /etc/tenured"),
        ("sqlite:///", "names no file, expected for example sqlite:///leases.db"),
        ("sqlite:///folder/", "names no file"),
        ("sqlite:///:memory:", "is lost with its process"),
        ("sqlite:///leases.db?mode=ro", "sqlite:// takes none"),
        ("dynamodb://", "names the DynamoDB table '', expected 3 to 255"),
        ("dynamodb://ab", "expected 3 to 255"),
        ("dynamodb://a/b/c", "expected 3 to 255"),
        ("dynamodb://leases?regoin=eu-west-1", "unknown option regoin, did you mean region?"),
        ("dynamodb://leases?colour=blue", "unknown option colour, expected region, endpoint_url, profile"),
        ("dynamodb://leases?region=", "exactly one value for the option region"),
        ("dynamodb://leases?region=a&region=b", "exactly one value for the option region"),
        ("dynamodb://leases?region=EU West", "has the region 'EU West', expected one like eu-west-1"),
        ("dynamodb://leases?endpoint_url=localhost:8000", "endpoint_url is no URL, expected for example http://"),
        ("dynamodb://leases?endpoint_url=http://h:port", "endpoint_url is no URL"),
        ("dynamodb://leases?endpoint_url=http://h/?a=b", "carries a query"),
    ],
)
def test_a_url_that_is_none_is_one_sentence_that_says_what_would_be_right(url: str, sentence: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse(url, BASE)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "hunter2",
        "postgres://me:hunter2@host/leases",
        "sqlite://me:hunter2@host/leases.db",
        "sqlite:///leases.db?key=hunter2",
        "sqlite://host/leases.db?key=hunter2",
        "dynamodb://KEY:hunter2@leases?region=eu-west-1",
        "dynamodb://leases?secret_access_key=hunter2",
        "dynamodb://leases?hunter2",
        "dynamodb://leases?endpoint_url=hunter2",
        "dynamodb://leases?profile=a&profile=hunter2",
    ],
)
def test_what_may_be_a_secret_in_a_url_that_is_none_is_not_shown(url: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse(url, BASE)
    assert "hunter2" not in str(raised.value)


def test_a_secret_in_an_endpoint_is_refused_and_not_shown() -> None:
    with pytest.raises(ValueError, match="carries a user or a password") as raised:
        parse("dynamodb://leases?endpoint_url=https://me:hunter2@host", BASE)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("environment", "url", "region"),
    [
        ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}, "dynamodb://leases", "eu-west-1"),
        ({"AWS_DEFAULT_REGION": "eu-west-2"}, "dynamodb://leases", "eu-west-2"),
        ({"AWS_REGION": "eu-west-1"}, "dynamodb://leases?region=us-east-1", "us-east-1"),
        ({}, "dynamodb://leases?profile=dev", "eu-north-1"),
        ({"AWS_PROFILE": "dev"}, "dynamodb://leases", "eu-north-1"),
    ],
)
def test_the_region_comes_from_the_url_then_the_environment_then_the_profile(
    environment: dict[str, str], url: str, region: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text("[profile dev]\nregion = eu-north-1\n")
    for name, value in {"AWS_CONFIG_FILE": str(tmp_path / "config"), **environment}.items():
        monkeypatch.setenv(name, value)
    store = open_store(url, tmp_path, 1.0)
    assert store._table.region == region  # type: ignore[attr-defined]


def test_a_store_without_a_region_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no region, add \?region=eu-west-1 or set AWS_REGION"):
        open_store("dynamodb://leases", tmp_path, 1.0)


def test_a_profile_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"dynamodb://leases\?region=eu-west-1&profile=nobody: .*nobody"):
        open_store("dynamodb://leases?region=eu-west-1&profile=nobody", tmp_path, 1.0)


def test_an_sqlite_store_does_not_load_boto3(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys; from supervisor.stores.location import open_store; "
        "open_store('sqlite:///leases.db', pathlib.Path('/'), 1.0); "
        "sys.exit(any(name in sys.modules for name in ('boto3', 'botocore')))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path).returncode == 0
