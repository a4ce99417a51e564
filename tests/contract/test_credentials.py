"""No call waits for credentials, and a store that found none looks again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.session import Session

from supervisor.stores.clients import Clients
from supervisor.stores.credentials import AheadOfNeed
from supervisor.stores.interface import Unavailable
from supervisor.stores.location import DynamoLocation, open_store
from supervisor.writes import Applied, Unknown
from tests import faults
from tests.contract.rows import TIMEOUT_S, create
from tests.engines import Engine
from tests.faults import Pick, Reply
from tests.proxy import FaultProxy
from tests.wait import until


class Vault:
    """A source whose n-th answer is n, which can fail and hang."""

    method = "container-role"

    def __init__(self) -> None:
        self.asked = 0
        self.open = threading.Event()
        self.open.set()
        self.failing = False

    def get_frozen_credentials(self) -> int:
        self.asked += 1
        answer = self.asked
        self.open.wait(10)
        if self.failing:
            raise RuntimeError("no answer from the endpoint")
        return answer


@pytest.fixture
def vault() -> Vault:
    return Vault()


@pytest.fixture
def credentials(vault: Vault) -> Iterator[AheadOfNeed]:
    kept = AheadOfNeed(lambda: vault, check_interval_s=0.001, pause_s=0.001)
    yield kept
    kept.close()
    vault.open.set()


def test_signing_uses_what_was_fetched_last(vault: Vault, credentials: AheadOfNeed) -> None:
    until(lambda: credentials.get_frozen_credentials() > 3, 5)
    assert credentials.method == "container-role"


def test_a_source_that_hangs_makes_no_signer_wait(vault: Vault, credentials: AheadOfNeed) -> None:
    vault.open.clear()
    asked = vault.asked
    until(lambda: vault.asked > asked, 5)
    before = credentials.get_frozen_credentials()
    assert credentials.get_frozen_credentials() == before
    vault.open.set()
    until(lambda: credentials.get_frozen_credentials() > before, 5)


def test_a_source_that_fails_leaves_the_last_credentials_and_is_asked_again(
    vault: Vault, credentials: AheadOfNeed
) -> None:
    vault.failing = True
    asked = vault.asked
    until(lambda: vault.asked > asked + 3, 5)
    vault.failing = False
    before = credentials.get_frozen_credentials()
    until(lambda: credentials.get_frozen_credentials() > before, 5)


def test_credentials_that_the_service_refused_are_looked_for_anew_at_once() -> None:
    vaults = [Vault(), Vault()]
    loaded: list[Vault] = []

    def load() -> Vault:
        loaded.append(vaults[min(len(loaded), 1)])
        return loaded[-1]

    credentials = AheadOfNeed(load, pause_s=0.001)
    vaults[1].failing = True
    credentials.doubt()
    until(lambda: vaults[1].asked == 1, 5)
    assert credentials.get_frozen_credentials() == 1, "the last ones are lost, and there are no others"
    vaults[1].failing = False
    credentials.doubt()
    until(lambda: credentials.get_frozen_credentials() == 2, 5)
    credentials.close()


def test_a_store_whose_credentials_expired_goes_on_with_those_that_were_written_into_the_file_since(
    ministack: Engine, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "credentials"
    write_credentials(file, "old")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    with FaultProxy(ministack.port) as proxy:
        store = open_store(proxy.url(table), tmp_path, TIMEOUT_S)
        store.initialize()
        proxy.fault = Reply(faults.expired_token(), Pick(token="old"))
        expired = Unknown("UpdateItem: the AWS credentials have expired (ExpiredTokenException)")
        assert store.apply(create("trades/0"), TIMEOUT_S) == expired
        write_credentials(file, "new")
        until(lambda: store.apply(create("trades/0"), TIMEOUT_S) != expired, 10, 0.1)
        assert proxy.seen()[-1].token == "new"
        store.close()


class Service(BaseHTTPRequestHandler):
    """It calls a list `item`, which its model calls `items`."""

    def do_GET(self) -> None:
        body = b'{"item": []}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


def test_what_gets_credentials_from_a_service_of_aws_reads_its_answers_by_its_model_also_after_the_first_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As those for a login or for SSO do, with a client of the session in which they look for credentials."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    told: list[bool] = []

    class Resolver:
        def __init__(self, session: Session, **_: object) -> None:
            self._session = session

        def load_credentials(self) -> Credentials:
            address, config = f"http://127.0.0.1:{server.server_address[1]}", Config(signature_version=UNSIGNED)
            client = self._session.create_client("apigateway", "eu-west-1", endpoint_url=address, config=config)
            told.append("items" in client.get_rest_apis())
            return Credentials("key", "secret")

    monkeypatch.setattr("botocore.credentials.create_credential_resolver", Resolver)
    clients = Clients(DynamoLocation("t", "eu-west-1"), TIMEOUT_S, 1)
    clients.others.close()
    clients.doubt_credentials()
    until(lambda: len(told) == 2, 5)
    clients.close()
    server.shutdown()
    server.server_close()
    assert told == [True, True]


def write_credentials(file: Path, token: str) -> None:
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "aws_session_token": token}
    file.write_text("\n".join(["[default]", *(f"{name} = {value}" for name, value in keys.items())]))


def test_a_closed_holder_asks_no_more(vault: Vault) -> None:
    before = set(threading.enumerate())
    credentials = AheadOfNeed(lambda: vault, check_interval_s=0.001, pause_s=0.001)
    (thread,) = set(threading.enumerate()) - before
    credentials.close()
    thread.join(5)
    assert not thread.is_alive()


def test_a_store_that_found_no_credentials_says_so_and_looks_again(
    ministack: Engine, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    store = open_store(ministack.url(table), tmp_path, TIMEOUT_S)
    with pytest.raises(Unavailable, match="no AWS credentials were found"):
        store.snapshot(TIMEOUT_S)
    outcome = store.apply(create("trades/0"), TIMEOUT_S)
    assert isinstance(outcome, Unknown)
    assert outcome.unsent
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "late")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "but there")
    store.initialize()
    assert isinstance(store.apply(create("trades/0"), TIMEOUT_S), Applied)
    store.close()
