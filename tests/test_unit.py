"""The service for systemd: what is printed, what systemd makes of it, and where it must agree with the code."""

from __future__ import annotations

import configparser
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor import exits, unit
from supervisor.configuration.keys import keys_of
from tests.process.host import tenured
from workers.process.child import oom_score_of_a_child

ROOT = Path(__file__).resolve().parent.parent
EXPOSURE_MAX = 1.5


class Unit(configparser.RawConfigParser):
    def optionxform(self, optionstr: str) -> str:
        return optionstr


def service() -> dict[str, str]:
    parser = Unit(strict=False)
    parser.read_string(unit.UNIT)
    return dict(parser["Service"])


def analyze(*arguments: str) -> str:
    done = subprocess.run(
        ["systemd-analyze", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize(
    ("what", "text", "file"),
    [
        ("unit", unit.UNIT, "tenured.service"),
        ("sysusers", unit.SYSUSERS, "tenured.sysusers.conf"),
        ("tmpfiles", unit.TMPFILES, "tenured.tmpfiles.conf"),
    ],
)
def test_what_is_printed_is_what_the_repository_shows(what: str, text: str, file: str) -> None:
    assert (ROOT / "systemd" / file).read_text() == text
    assert tenured("example", what).stdout == text


def test_systemd_finds_no_mistake_in_the_unit(tmp_path: Path) -> None:
    """The program, which is not installed where the unit expects it, is replaced by one that is there."""
    path = tmp_path / "tenured.service"
    path.write_text(unit.UNIT.replace("/opt/tenured/bin/tenured", sys.executable))
    assert analyze("verify", str(path)) == ""


def test_systemd_rates_the_exposure_as_low(tmp_path: Path) -> None:
    path = tmp_path / "tenured.service"
    path.write_text(unit.UNIT)
    analyze("security", "--offline=yes", f"--threshold={EXPOSURE_MAX * 10:.0f}", str(path))


def test_a_planned_stop_stays_stopped_and_what_cannot_mend_itself_is_not_started_again() -> None:
    assert service()["Restart"] == "on-failure"
    assert service()["SuccessExitStatus"] == str(exits.UNRELEASED)
    assert service()["RestartPreventExitStatus"].split() == [str(exits.USAGE), str(exits.CONFIG)]


def test_the_folders_of_the_unit_are_those_of_the_configuration() -> None:
    keys = keys_of("supervisor")
    assert keys["state_dir"].default == "/var/lib/" + service()["StateDirectory"]
    assert keys["run_dir"].default == "/run/" + service()["RuntimeDirectory"]


def test_children_have_the_score_of_everything_else_when_memory_runs_out() -> None:
    own = int(Path("/proc/self/oom_score_adj").read_text())
    assert int(service()["OOMScoreAdjust"]) + int(oom_score_of_a_child()) - own == 0
