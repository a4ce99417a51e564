"""The Dockerfile says what a container needs: checked word by word. `process/test_image.py` runs what it builds."""

from __future__ import annotations

import fnmatch
import re

import pytest
from click.testing import CliRunner

from supervisor.cli import commands
from supervisor.configuration.keys import keys_of
from tests.dockerfile import ROOT, environment, health_check, instructions, only, sources, stages, user

KNOWN = {
    *("ARG", "COPY", "CMD", "ENTRYPOINT", "ENV", "FROM", "HEALTHCHECK", "LABEL", "RUN", "STOPSIGNAL", "USER"),
    *("VOLUME", "WORKDIR"),
}
LAST = stages()[-1]


def place(name: str) -> int:
    """Of an instruction in the last stage."""
    return LAST.index(only(LAST, name))


def test_only_instructions_that_exist_are_used_and_the_first_stage_is_left_behind() -> None:
    assert {each.name for each in instructions()} <= KNOWN
    assert len(stages()) == 2
    (copy,) = [each for each in LAST if each.name == "COPY"]
    assert copy.argument.split() == ["--from=build", "/opt/tenured", "/opt/tenured"]


def test_both_stages_are_of_one_slim_python_that_we_support() -> None:
    (argument,) = [each for each in instructions() if each.name == "ARG"]
    name, _, version = argument.argument.partition("=")
    assert (name, bool(re.fullmatch(r"3\.1[1-9]-slim-\w+", version))) == ("PYTHON", True)
    assert [stage[0].argument for stage in stages()] == ["python:${PYTHON} AS build", "python:${PYTHON}"]


def test_everything_that_is_copied_is_there_and_not_kept_from_the_engine() -> None:
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert ignored[0] == "*"
    kept = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert kept == {source.removesuffix("/") for source in sources()}
    assert [source for source in sources() if not (ROOT / source).exists()] == []


def test_nothing_secret_or_of_the_past_reaches_the_engine() -> None:
    kept = (ROOT / ".dockerignore").read_text().splitlines()
    shown = [line.removeprefix("!") for line in kept if line.startswith("!")]
    assert [
        name
        for name in shown
        for bad in (".git*", "*.env", "*.db", "state", "tests", "etc")
        if fnmatch.fnmatch(name, bad)
    ] == []


def test_the_supervisor_is_process_1_itself_and_gets_the_signals() -> None:
    assert only(LAST, "ENTRYPOINT").words == ["tenured"]
    command, *options = only(LAST, "CMD").words
    assert (command, options) == ("run", ["-c", "/etc/tenured/tenured.ini"])
    assert only(LAST, "STOPSIGNAL").argument == "SIGTERM"


def test_it_runs_under_a_number_that_is_not_root_for_whom_the_folders_are_made_before_they_become_volumes() -> None:
    uid, gid = user()
    assert uid >= 10_000
    assert gid >= 10_000
    (run,) = [each for each in LAST if each.name == "RUN"]
    assert f"--uid {uid} --gid {gid}" in run.argument
    folders = only(LAST, "VOLUME").words
    assert f"install -d -m 0700 -o tenured -g tenured {' '.join(folders)}" in run.argument
    assert LAST.index(run) < place("VOLUME") < place("USER") < place("ENTRYPOINT")
    assert not [each for each in LAST[place("USER") :] if each.name in ("RUN", "COPY")]


def test_the_environment_that_it_sets_is_understood_and_names_the_volumes() -> None:
    set_by_it = environment()
    overrides = {name: value for name, value in set_by_it.items() if name.startswith("TENURED_")}
    assert {name.removeprefix("TENURED_").lower() for name in overrides} <= set(keys_of("supervisor"))
    assert list(overrides.values()) == only(LAST, "VOLUME").words
    assert set_by_it["PYTHONDONTWRITEBYTECODE"] == "1"
    assert set_by_it["PATH"].startswith("/opt/tenured/bin:")


def test_nothing_that_pip_kept_stays_in_it() -> None:
    for line in [each.argument for each in instructions() if each.name == "RUN"]:
        for call in re.findall(r"pip [^&]*(?:wheel|install)[^&]*", line):
            assert "--no-cache-dir" in call


@pytest.mark.parametrize("words", [health_check(), ["tenured", *only(LAST, "CMD").words]], ids=" ".join)
def test_its_commands_exist_with_their_options(words: list[str]) -> None:
    program, command, *options = words
    shown = CliRunner().invoke(commands, [command, "--help"])
    assert (program, shown.exit_code) == ("tenured", 0)
    assert [option for option in options if option.startswith("-") and option not in shown.output] == []
