"""On ECS a supervisor stands in the fleet's status with its task and its zone."""

from __future__ import annotations

import json
from pathlib import Path

from supervisor.place import VARIABLE
from tests.process.host import Host, tenured
from tests.test_place import KNOWN, TASK, answer, hang, served
from tests.wait import until

NOWHERE = "ws://127.0.0.1:9/${index}"


def test_the_status_shows_the_task_and_the_zone(tmp_path: Path) -> None:
    with served(answer(json.dumps(KNOWN).encode())) as (address, _):
        store = f"sqlite:///{tmp_path}/leases.db"
        with Host(tmp_path / "a", store, NOWHERE, environment={VARIABLE: address}) as host:
            until(lambda: host.log("supervisor.ready"), 15, 0.02)
            (supervisor,) = json.loads(tenured("status", "--json", "--store", store).stdout)["supervisors"]
            assert (supervisor["task"], supervisor["zone"]) == (TASK, "eu-west-1b")
            assert host.log("config.warning") == []
            assert host.stop() == 0


def test_metadata_that_does_not_answer_is_told_and_costs_nothing_but_its_bound(tmp_path: Path) -> None:
    with served(hang) as (address, _):
        store = f"sqlite:///{tmp_path}/leases.db"
        with Host(tmp_path / "a", store, NOWHERE, environment={VARIABLE: address}) as host:
            until(lambda: host.log("supervisor.ready"), 15, 0.02)
            (line,) = host.log("config.warning")
            assert "did not answer in time" in line["reason"]
            assert host.stop() == 0


def test_a_stop_ends_the_wait_for_the_metadata(tmp_path: Path) -> None:
    with served(hang) as (address, requests):
        store = f"sqlite:///{tmp_path}/leases.db"
        with Host(tmp_path / "a", store, NOWHERE, environment={VARIABLE: address}) as host:
            until(lambda: requests, 15)
            assert host.stop(1.5) == 0
            assert (host.folder / "log").read_text() == ""
