"""The layout of the code: who imports whom, which calls have one place, and which names are taken."""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.journal import EVENTS
from tests.systemd.image import SOURCES

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("supervisor", "workers")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

# Modules that decide or describe: no clock, no randomness, no thread, no loop, no store behind them.
PURE = (
    *sorted((ROOT / "supervisor" / "core").glob("*.py")),
    *(
        ROOT / "supervisor" / f"{name}.py"
        for name in ("names", "records", "writes", "changes", "exits", "rules", "health", "stops")
    ),
    *(
        ROOT / "supervisor" / "configuration" / f"{name}.py"
        for name in ("settings", "relations", "values", "keys", "digest", "example", "summary", "reference")
    ),
    *(ROOT / "supervisor" / "metrics" / f"{name}.py" for name in ("families", "gauges", "exposition")),
    ROOT / "workers" / "texts.py",
    *(
        ROOT / "supervisor" / "showing" / f"{name}.py"
        for name in ("status", "verdict", "holding", "selection", "telling")
    ),
    *(
        ROOT / "supervisor" / "operating" / f"{name}.py"
        for name in ("operate", "moving", "orders", "candidates", "pulse", "sight", "traces", "words")
    ),
)
IMPURE = {
    *("asyncio", "threading", "subprocess", "multiprocessing", "time", "datetime", "random", "secrets", "uuid"),
    *("socket", "select", "signal", "boto3", "sqlite3", "logging"),
}
EDGES = {"daemon", "cli", "clock", "control", "processes", "courier", "journal", "stores", "config"}

# One line of the table: what is called, and the only files that may.
ONE_PLACE = {
    "time.time": {"supervisor/clock.py"},
    "time.time_ns": {"supervisor/clock.py"},
    "os.kill": {"workers/process/forkserver.py"},
    "os.fork": {"workers/process/forkserver.py", "workers/process/trial.py"},
    "struct.pack_into": set[str](),
    "os.system": set[str](),
}

# The only module of a child that knows the AWS library, which it imports when a sink makes its first request.
AWS_IN_CHILDREN = {"workers/sinks/aws.py"}

# Modules of PyPI's `supervisor`; a file of ours with such a name would replace one of theirs in a shared environment.
THEIRS = {
    *("childutils", "compat", "confecho", "datatypes", "dispatchers", "events", "http", "http_client", "link"),
    *("loggers", "medusa", "options", "pidproxy", "poller", "process", "rpcinterface", "scripts", "skel"),
    *("socket_manager", "states", "supervisorctl", "supervisord", "templating", "tests", "ui", "web", "xmlrpc"),
}
VAGUE = {"manager", "helper", "helpers", "util", "utils", "common", "base", "misc"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it, without those for type checkers only."""
    tree = ast.parse(path.read_text())
    for_types = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: a relative import"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def calls(path: Path) -> Iterator[tuple[str, int]]:
    """Every `module.name` that a file mentions, also as `from module import name`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node), node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


@pytest.mark.parametrize("path", [path for path in FILES if path.is_relative_to(ROOT / "workers")], ids=name_of)
def test_a_child_imports_nothing_of_its_parent(path: Path) -> None:
    forbidden = {"supervisor", "boto3", "botocore"} - ({"botocore"} if name_of(path) in AWS_IN_CHILDREN else set())
    assert [module for module in imports(path) if module.split(".")[0] in forbidden] == []


@pytest.mark.parametrize("path", PURE, ids=name_of)
def test_what_decides_has_no_clock_no_loop_and_no_store_behind_it(path: Path) -> None:
    found = set(imports(path))
    assert {name.split(".")[0] for name in found} & IMPURE == set()
    assert {part for name in found if name.startswith("supervisor.") for part in name.split(".")} & EDGES == set()


def test_the_core_knows_nothing_but_itself_and_the_rows() -> None:
    for path in (ROOT / "supervisor" / "core").glob("*.py"):
        ours = {module for module in imports(path) if re.match(r"supervisor\.\w+", module)}
        assert {module.split(".")[1] for module in ours} <= {"core", "names", "records", "writes", "changes", "exits"}


def test_modules_flow_one_way() -> None:
    """cli, then its commands, the launch, the daemon, then its parts: each is imported by the one before alone."""
    users: dict[str, set[str]] = {"supervisor.cli": set(), "supervisor.launch": set(), "supervisor.daemon": set()}
    for path in FILES:
        for module in set(imports(path)) & set(users):
            users[module].add(name_of(path))
    assert users == {
        "supervisor.cli": set(),
        "supervisor.launch": {"supervisor/commands/local.py"},
        "supervisor.daemon": {"supervisor/launch.py"},
    }


def test_the_stores_know_the_records_and_nothing_of_the_daemon() -> None:
    for path in (ROOT / "supervisor" / "stores").glob("*.py"):
        ours = {module for module in imports(path) if re.match(r"supervisor\.\w+", module)}
        assert {module.split(".")[1] for module in ours} <= {"stores", "records", "writes"}, name_of(path)


def test_calls_that_have_one_place_stay_there() -> None:
    strays = [
        f"{name_of(path)}:{line}: {call}"
        for path in FILES
        for call, line in calls(path)
        if name_of(path) not in ONE_PLACE.get(call, {name_of(path)}) or call.endswith(".pack_into")
    ]
    assert strays == []


def test_no_module_bears_a_name_of_the_other_supervisor_or_a_vague_one() -> None:
    taken = [name_of(path) for path in (ROOT / "supervisor").iterdir() if path.stem in THEIRS]
    vague = [name_of(path) for path in FILES if set(path.stem.split("_")) & VAGUE]
    assert (taken, vague) == ([], [])


def test_the_package_lists_exactly_the_packages_on_disk_by_name() -> None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg")
    listed = parser["options"]["packages"].split()
    on_disk = {name_of(path.parent).replace("/", ".") for path in FILES if path.name == "__init__.py"}
    without = {name_of(path.parent).replace("/", ".") for path in FILES} - on_disk
    assert set(listed) - {"tenured-stubs"} == on_disk
    assert {name.partition(".")[0] for name in listed} <= set(SOURCES), "the systemd scenarios install from these"
    assert without == set()


def test_the_shared_package_is_a_docstring_and_extend_path_and_nothing_else() -> None:
    tree = ast.parse((ROOT / "supervisor" / "__init__.py").read_text())
    assert ast.get_docstring(tree)
    assert [ast.unparse(node) for node in tree.body[1:]] == [
        "from pkgutil import extend_path",
        "__path__ = extend_path(__path__, __name__)",
    ]


@pytest.mark.parametrize("path", [path for path in FILES if path.stat().st_size], ids=name_of)
def test_every_file_says_in_its_first_lines_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_every_event_in_the_log_is_on_the_list() -> None:
    """Whatever looks like the name of an event, and is no module of ours."""
    families = "|".join(sorted({event.partition(".")[0] for event in EVENTS}))
    modules = {name_of(path).removesuffix(".py").replace("/", ".") for path in FILES}
    modules |= {module.removesuffix(".__init__") for module in modules}
    unknown = [
        f"{name_of(path)}:{node.lineno}: {node.value}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(rf"({families})\.[a-z_]+", node.value)
        and node.value not in EVENTS | modules | {"events.jsonl"}
    ]
    assert unknown == []
