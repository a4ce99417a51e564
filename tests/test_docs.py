"""The pages for readers: what they show runs, what they link to is there, and what is made from code is up to date."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TypeVar

import pytest

from supervisor.configuration import relations
from supervisor.configuration.config import load
from supervisor.configuration.digest import digest_of
from supervisor.configuration.reference import reference
from supervisor.configuration.settings import Settings
from supervisor.journal import EVENTS
from tests.engines import Engine
from tests.stage import Stage
from workers.spec import StreamSpec

T = TypeVar("T", Settings, StreamSpec)

ROOT = Path(__file__).parents[1]
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in (ROOT / "README.md", *ROOT.glob("docs/*.md"))}

# Pages whose commands need a machine of their own, and the tests that follow them there.
ELSEWHERE = {"docs/systemd.md": "tests/systemd/__main__.py"}
# What lines begin with that other programs obey: the installation, which CI does, the service manager, the cloud, an
# engine.
FOREIGN = ("python3 ", "systemctl ", "journalctl ", "docker ", "aws ", "GATEWAY_PORT=")
LOCAL_ENGINE = "http://127.0.0.1:8000"  # on the pages
ASKING = ("status", "history", "health", "move", "pause", "resume", "forget", "drain")  # there has to be a fleet
README_LINES_MAX = 200


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page], re.S | re.M)


def shown(page: str) -> list[str]:
    """The blocks of a page as far as they can run here."""
    ours = [
        "".join(line for line in block.splitlines(keepends=True) if not line.startswith(FOREIGN))
        for block in blocks(page, "sh")
    ]
    return [block for block in ours if block.strip()]


def files(page: str) -> dict[str, str]:
    """The blocks that begin with the name of a file, which a reader makes of them."""
    return dict(re.findall(r"^```(?:python|ini)\n[#;] ([\w.]+)\n(.*?)^```", PAGES[page], re.S | re.M))


def anchors(text: str) -> set[str]:
    """Of the headings, as GitHub makes them."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    titles = re.findall(r"^#+ (.*)$", prose, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(page: str) -> list[tuple[str, str]]:
    """Path, as seen from the root, and anchor of each link that stays within the repository."""
    found = re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", PAGES[page])
    folder = (ROOT / page).parent
    return [
        ((folder / path).resolve().relative_to(ROOT).as_posix() if path else page, anchor) for path, anchor in found
    ]


@pytest.mark.parametrize("page", [page for page in sorted(PAGES) if page not in ELSEWHERE and shown(page)])
def test_every_command_shown_runs(page: str, tmp_path: Path, ministack: Engine) -> None:
    """In order, in one folder. A table is one of a local engine."""
    first = blocks("README.md", "ini")[0]
    aws = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_EC2_METADATA_DISABLED": "true"}
    given = {"tenured.ini": first, **files(page)}
    with Stage(tmp_path, given, AWS_ENDPOINT_URL_DYNAMODB=ministack.endpoint_url, **aws) as stage:
        for block in shown(page):
            if not re.search(r"tenured run", block) and re.search(rf"tenured ({'|'.join(ASKING)})", block):
                stage.fleet()
            done = stage.run(block.replace(LOCAL_ENGINE, ministack.endpoint_url))
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr


@pytest.mark.parametrize("test", ELSEWHERE.values())
def test_who_runs_the_commands_of_other_pages_is_there(test: str) -> None:
    assert (ROOT / test).is_file()


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_link_leads_somewhere(page: str) -> None:
    for path, anchor in links(page):
        assert (ROOT / path).exists(), path
        if anchor:
            assert anchor in anchors(PAGES[path]), f"{path}#{anchor}"


def test_every_page_is_named_in_the_readme_or_on_a_page_that_is() -> None:
    reached = ["README.md"]
    for page in reached:
        reached += [path for path, _ in links(page) if path in PAGES and path not in reached]
    assert set(PAGES) - set(reached) == set()


def test_what_files_for_operators_refer_to_is_there() -> None:
    for path in (ROOT / "etc").rglob("*.*"):
        for page, anchor in re.findall(r"(docs/[\w-]+\.md)(?:#([\w-]+))?", path.read_text()):
            assert page in PAGES, (path.name, page)
            assert not anchor or anchor in anchors(PAGES[page]), (path.name, page, anchor)


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_configuration_shown_is_valid(page: str, tmp_path: Path) -> None:
    for name, text in {"token": "a token", **files(page)}.items():
        (tmp_path / name).write_text(text)
    for block in blocks(page, "ini"):
        if not re.search(r"^\[(supervisor|stream:.*)\]$", block, re.M):
            continue  # of systemd
        whole = block if "[supervisor]" in block else f"[supervisor]\nstore = sqlite:///leases.db\n\n{block}"
        (tmp_path / "tenured.ini").write_text(whole)
        assert load(str(tmp_path / "tenured.ini"), {}).shards


def test_the_reference_of_the_configuration_is_what_its_table_says() -> None:
    page = PAGES["docs/configuration.md"]
    assert page[page.index("## `[supervisor]`\n") :] == reference()


def test_what_the_digest_of_a_configuration_covers_is_told(tmp_path: Path) -> None:
    file = tmp_path / "tenured.ini"
    file.write_text("[supervisor]\nstore = sqlite:///x.db\n[stream:a]\nurl = ws://a\nheader.A = a\n")
    settings = load(str(file), {})
    (stream,) = settings.streams
    main = {field.name for field in dataclasses.fields(settings)} - {"source", "base", "digest", "streams"}
    covered = {name.removesuffix("_ms") for name in main if digest_of(changed(settings, name)) != digest_of(settings)}
    private = {
        "sink_" if field.name.startswith("sink_") else field.name
        for field in dataclasses.fields(stream.spec)
        if digest_of(of_stream(settings, changed(stream.spec, field.name))) == digest_of(settings)
    } - {"tls_stamp"}  # which is no key, and tells when the files of three of them were written
    page = PAGES["docs/configuration.md"]
    told = re.search(r"The digest covers\n(.*?) of `\[supervisor\]`.*? have to themselves \((.*?)\)", page, re.S)
    assert told is not None
    assert [set(re.findall(r"`(\w+)`", part)) for part in told.groups()] == [covered, private]


def of_stream(settings: Settings, spec: StreamSpec) -> Settings:
    return dataclasses.replace(settings, streams=(dataclasses.replace(settings.streams[0], spec=spec),))


def changed(whole: T, name: str) -> T:
    """With another value of that field."""
    match getattr(whole, name):
        case int() | float() as number:
            other: object = number + 1
        case str() | Path() as text:
            other = f"{text}x"
        case ((_, _), *_) as pairs:
            other = (*pairs, ("b", "c"))
        case tuple() as texts:
            other = (*texts, "ws://x")
        case nothing:
            assert nothing is None
            other = ("127.0.0.1", 1)
    return dataclasses.replace(whole, **{name: other})


@pytest.mark.parametrize(("lease", "outage"), [(10, 4), (30, 15)])
def test_how_long_an_outage_may_last_is_what_the_defaults_give(lease: int, outage: int) -> None:
    renew_ms = relations.renew_interval_ms(lease * 1000)
    used_ms = relations.margin_ms(lease * 1000) + renew_ms + relations.call_timeout_ms(renew_ms)
    assert round(lease - used_ms / 1000) == outage
    assert f"{outage} s with " in PAGES["docs/operations.md"]


def test_every_event_has_its_section_of_what_to_do() -> None:
    titles = re.findall(r"^## (\S+\.\S+)$", PAGES["docs/troubleshooting.md"], re.M)
    assert sorted(titles) == sorted(EVENTS)


@pytest.mark.parametrize("page", ["docs/handlers.md", "docs/sinks.md"])
def test_all_code_shown_has_a_test_that_is_shown(page: str) -> None:
    names = [name for name in files(page) if name.endswith(".py")]
    assert len(names) == len(blocks(page, "python"))
    assert all(f"test_{name}" in names for name in names if not name.startswith("test_"))


def test_the_readme_stays_short() -> None:
    assert len(PAGES["README.md"].splitlines()) <= README_LINES_MAX
