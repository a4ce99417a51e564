"""What `etc/aws` holds is what AWS takes and what the code means: shapes, names, numbers, and the same in all files."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import yaml
from botocore import xform_name
from botocore.validate import ParamValidator
from click.testing import CliRunner

from supervisor.cli import commands
from supervisor.configuration.config import load
from supervisor.configuration.keys import keys_of
from supervisor.configuration.overrides import PREFIX
from supervisor.stores.expressions import create_of
from supervisor.stores.location import DynamoLocation, parse
from tests import dockerfile

FOLDER = Path(__file__).resolve().parents[1] / "etc" / "aws"
OF_OTHER_THINGS = ("policy-execution.json", "policy-sinks.json")  # than the table
POLICIES = sorted(path.name for path in FOLDER.glob("policy*.json"))
BYTES_OF_A_TASK_DEFINITION_MAX = 64 * 1024


def content(name: str) -> Any:
    return json.loads((FOLDER / name).read_text())


class Template(yaml.SafeLoader):
    """CloudFormation's short forms become their long ones."""


for tag in ("Ref", "Sub", "GetAtt"):
    Template.add_constructor(f"!{tag}", lambda loader, node, tag=tag: {tag: loader.construct_scalar(node)})  # type: ignore[misc]


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    template = yaml.load((FOLDER / "table.yaml").read_text(), Template)
    assert template["AWSTemplateFormatVersion"] == "2010-09-09"
    (resource,) = template["Resources"].values()
    assert resource["Type"] == "AWS::DynamoDB::Table"
    return dict(resource)


@pytest.fixture(scope="module")
def task() -> dict[str, Any]:
    return dict(content("task-definition.json"))


@pytest.fixture(scope="module")
def container(task: dict[str, Any]) -> dict[str, Any]:
    (container,) = task["containerDefinitions"]
    return dict(container)


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["environment"]}


def complaints(service: str, operation: str, parameters: object) -> str:
    """What botocore's own description of a call says against its parameters."""
    model = botocore.session.Session().get_service_model(service).operation_model(operation)
    return str(ParamValidator().validate(parameters, model.input_shape).generate_report())


# --- the table --------------------------------------------------------------------------------------------


def test_the_template_makes_the_table_that_init_makes(table: dict[str, Any]) -> None:
    ours = create_of("tenured-leases")
    made = table["Properties"]
    assert {name: made[name] for name in ("BillingMode", "KeySchema", "AttributeDefinitions")} == {
        name: ours[name] for name in ("BillingMode", "KeySchema", "AttributeDefinitions")
    }


def test_the_table_is_hard_to_lose_and_no_row_of_it_goes_by_itself(table: dict[str, Any]) -> None:
    assert table["DeletionPolicy"] == table["UpdateReplacePolicy"] == "Retain"
    assert table["Properties"]["DeletionProtectionEnabled"] is True
    assert "TimeToLiveSpecification" not in table["Properties"]


def test_the_properties_of_the_table_exist(table: dict[str, Any]) -> None:
    later = {"PointInTimeRecoverySpecification"}  # of a call of its own
    named = {"TableName": "tenured-leases"}
    parameters = {name: value for name, value in table["Properties"].items() if name not in later} | named
    assert complaints("dynamodb", "CreateTable", parameters) == ""


# --- the policies -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*POLICIES, "trust.json"])
def test_no_policy_allows_more_than_it_names(name: str) -> None:
    policy = content(name)
    assert policy["Version"] == "2012-10-17"
    for statement in policy["Statement"]:
        assert statement["Effect"] == "Allow"
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        assert [action for action in actions if not re.fullmatch(r"[a-z]+:[A-Za-z]+", action)] == []
        assert statement.get("Resource", "") != "*"
        assert "NotAction" not in statement


@pytest.mark.parametrize("name", [name for name in POLICIES if name not in OF_OTHER_THINGS])
def test_the_policies_are_about_the_table_of_the_task(name: str, container: dict[str, Any]) -> None:
    location = parse(environment(container)["TENURED_STORE"].lower(), Path("/"))
    assert isinstance(location, DynamoLocation)
    for statement in content(name)["Statement"]:
        assert statement["Resource"] == f"arn:aws:dynamodb:REGION:ACCOUNT:table/{location.table}"


# --- the task ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "operation"), [("task-definition.json", "RegisterTaskDefinition"), ("service.json", "CreateService")]
)
def test_ecs_takes_it(name: str, operation: str) -> None:
    assert complaints("ecs", operation, content(name)) == ""
    assert len((FOLDER / name).read_bytes()) < BYTES_OF_A_TASK_DEFINITION_MAX


def test_its_commands_exist_with_their_options(container: dict[str, Any]) -> None:
    assert container["healthCheck"]["command"] == ["CMD", *dockerfile.health_check()]
    for command, *options in (container["command"], container["healthCheck"]["command"][2:]):
        shown = CliRunner().invoke(commands, [command, "--help"])
        assert shown.exit_code == 0
        assert [option for option in options if option.startswith("-") and option not in shown.output] == []


def test_its_environment_is_a_valid_configuration_without_a_warning(container: dict[str, Any]) -> None:
    given = environment(container)
    source = container["command"][-1]
    variable = source.removeprefix("env:")
    overrides = {name for name in given if name.startswith(PREFIX) and name != variable}
    assert {name.removeprefix(PREFIX).lower() for name in overrides} <= set(keys_of("supervisor"))
    secrets = {each["name"]: "a secret" for each in container["secrets"]}
    given["TENURED_STORE"] = given["TENURED_STORE"].replace("REGION", "eu-west-1")
    settings = load(source, given | secrets)
    assert settings.shards
    assert {name for stream in settings.streams for name in stream.environment} == set(secrets)


def test_it_is_the_image_that_we_build(container: dict[str, Any]) -> None:
    uid, gid = dockerfile.user()
    assert container["user"] == f"{uid}:{gid}"
    volumes = dockerfile.only(dockerfile.stages()[-1], "VOLUME").words
    assert [mount["containerPath"] for mount in container["mountPoints"]] == volumes
    given = environment(container)
    assert [given["TENURED_STATE_DIR"], given["TENURED_RUN_DIR"]] == volumes


def test_each_mount_has_its_volume(task: dict[str, Any], container: dict[str, Any]) -> None:
    assert {mount["sourceVolume"] for mount in container["mountPoints"]} == {each["name"] for each in task["volumes"]}


def test_it_is_locked_down_and_process_1_is_ours(container: dict[str, Any]) -> None:
    assert container["readonlyRootFilesystem"] is True
    assert container["linuxParameters"]["initProcessEnabled"] is False
    assert container["linuxParameters"]["capabilities"] == {"drop": ["ALL"]}
    assert "portMappings" not in container


def test_ecs_waits_for_the_stop_of_children_and_the_last_attempts_of_their_releases(container: dict[str, Any]) -> None:
    given = environment(container) | {each["name"]: "a secret" for each in container["secrets"]}
    given["TENURED_STORE"] = "dynamodb://tenured-leases?region=eu-west-1"
    settings = load(container["command"][-1], given)
    assert 30 <= container["stopTimeout"] <= 120
    assert settings.stop_timeout_ms + settings.lease_duration_ms < container["stopTimeout"] * 1000


def test_the_log_never_makes_the_supervisor_wait(container: dict[str, Any]) -> None:
    assert container["logConfiguration"]["logDriver"] == "awslogs"
    assert container["logConfiguration"]["options"]["mode"] == "non-blocking"


def test_a_deployment_starts_new_tasks_before_it_stops_old_ones() -> None:
    deployment = content("service.json")["deploymentConfiguration"]
    assert deployment["minimumHealthyPercent"] == 100
    assert deployment["maximumPercent"] > 100


def test_no_secret_stands_in_any_of_the_files(container: dict[str, Any]) -> None:
    assert not re.search(r"AKIA|ASIA|aws_secret|BEGIN .*KEY", "".join(path.read_text() for path in FOLDER.iterdir()))
    for each in container["secrets"]:
        assert re.fullmatch(r"arn:aws:secretsmanager:REGION:ACCOUNT:secret:tenured/[\w-]+", each["valueFrom"])


# --- what the pages show ----------------------------------------------------------------------------------

PAGE = (FOLDER.parents[1] / "docs" / "ecs.md").read_text()
CALLS = [line for line in PAGE.splitlines() if line.startswith("aws ")]
NOT_OF_THE_SERVICE = {("cloudformation", "deploy")}  # made of several calls by the command line


@pytest.mark.parametrize("line", CALLS)
def test_each_call_shown_exists_and_names_files_that_are_there(line: str) -> None:
    _, service, command, *options = shlex.split(line)
    names = [option.removeprefix("--") for option in options if option.startswith("--")]
    for path in re.findall(r"(?:file://|--template-file )(etc/\S+)", line):
        assert (FOLDER.parents[1] / path).is_file()
    if (service, command) in NOT_OF_THE_SERVICE:
        return
    model = botocore.session.Session().get_service_model(service)
    known = {xform_name(name).replace("_", "-"): name for name in model.operation_names}
    shape = model.operation_model(known[command]).input_shape
    takes = {xform_name(name).replace("_", "-") for name in shape.members} | {"cli-input-json"}
    assert set(names) <= takes


def test_the_command_shown_mounts_folders_that_a_reload_sees_and_passes_what_signs_requests() -> None:
    page = (FOLDER.parents[1] / "docs" / "containers.md").read_text()
    (words,) = [shlex.split(line) for line in page.splitlines() if line.startswith("docker run ")]
    options = list(itertools.pairwise(words))
    last = dockerfile.stages()[-1]
    mounted = {value.split(":")[1] for option, value in options if option == "-v"}
    configured = str(Path(dockerfile.only(last, "CMD").words[-1]).parent)
    assert configured in mounted
    assert mounted - {configured} <= set(dockerfile.only(last, "VOLUME").words)
    passed = {value for option, value in options if option == "-e"}
    assert passed == {"TENURED_STORE", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}


def test_the_compose_file_shown_is_a_valid_configuration_of_the_image() -> None:
    page = (FOLDER.parents[1] / "docs" / "containers.md").read_text()
    (block,) = re.findall(r"^```yaml\n(.*?)^```", page, re.S | re.M)
    (service,) = yaml.safe_load(block)["services"].values()
    given = {name: value.replace("$$", "$") for name, value in service["environment"].items()}
    given["TENURED_CONFIG"] = given["TENURED_CONFIG"].replace("/run/secrets/feed-token", "/etc/hostname")
    settings = load(service["command"][-1], given)
    assert settings.shards
    seconds = int(service["stop_grace_period"].removesuffix("s"))
    assert settings.stop_timeout_ms + 2000 <= seconds * 1000
    assert {mount.partition(":")[0] for mount in service["tmpfs"]} | {"/var/lib/tenured"} == set(
        dockerfile.only(dockerfile.stages()[-1], "VOLUME").words
    )
