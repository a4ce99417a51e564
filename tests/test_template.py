"""Placeholders: what they become, when they fail, and what never shows in an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.template import FILE_MAX_BYTES, NAMES, TemplateError, parse

VARIABLES = {name: f"<{name}>" for name in NAMES}


def expand(
    text: str, base: Path = Path("/nowhere"), credentials: str = "", json: bool = False, **environment: str
) -> str:
    return parse(text).expand(VARIABLES, environment, base, credentials, json)


@pytest.mark.parametrize("name", NAMES)
def test_a_plain_name_becomes_its_value(name: str) -> None:
    assert expand(f"a${{{name}}}b") == f"a<{name}>b"


@given(st.text().filter(lambda text: "$" not in text))
def test_a_text_without_a_dollar_comes_out_as_it_went_in(text: str) -> None:
    assert expand(text) == text


@given(st.text(alphabet="$%{}():;# ab", max_size=20))
def test_doubled_dollars_protect_every_text(text: str) -> None:
    assert expand(text.replace("$", "$$")) == text


def test_percent_signs_and_comment_characters_mean_nothing() -> None:
    assert expand("a%b%%c%(x)s;d#e") == "a%b%%c%(x)s;d#e"


def test_a_dollar_before_anything_else_is_a_dollar() -> None:
    assert expand("US$ 5, $HOME, $") == "US$ 5, $HOME, $"


def test_a_variable_that_is_no_text_is_told_without_any_of_it() -> None:
    with pytest.raises(TemplateError) as raised:
        expand("Bearer ${env:A}", A="secret\udce9")
    assert str(raised.value) == "${env:A} holds bytes that are no UTF-8"


def test_inserted_text_is_not_scanned_again() -> None:
    assert expand("${env:A}", A="${env:B}$$", B="no") == "${env:B}$$"


@pytest.mark.parametrize(
    ("environment", "expected"), [({}, "fallback"), ({"A": ""}, "fallback"), ({"A": "set"}, "set")]
)
def test_a_default_stands_for_an_absent_or_empty_value(environment: dict[str, str], expected: str) -> None:
    assert expand("${env:A:-fallback}", **environment) == expected


def test_a_default_may_be_empty_and_may_contain_colons() -> None:
    assert expand("[${env:A:-}][${env:A:-ws://x:1/y}]") == "[][ws://x:1/y]"


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(TemplateError, match=r"\$\{env:TOKEN\} is not set in the environment"):
        expand("${env:TOKEN}")


def test_a_checkpoint_that_is_not_there_yet_is_empty_or_its_default() -> None:
    variables = {"shard": "trades/0"}
    assert parse("${shard}@${checkpoint}").expand(variables, {}, "/", "") == "trades/0@"
    assert parse("${checkpoint:-0}").expand({"checkpoint": ""}, {}, "/", "") == "0"


def test_a_name_without_a_value_here_is_an_error() -> None:
    with pytest.raises(TemplateError, match=r"\$\{connection\} has no value here"):
        parse("${connection}").expand({}, {}, "/", "")


def test_a_file_is_read_at_every_expansion_and_loses_one_trailing_newline(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n\n")
    template = parse("Bearer ${file:token}")
    assert template.expand({}, {}, tmp_path, "") == "Bearer first\n"
    (tmp_path / "token").write_bytes(b"second\r\n")
    assert template.expand({}, {}, tmp_path, "") == "Bearer second"


def test_an_absolute_path_ignores_the_base(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    assert expand(f"${{file:{tmp_path}/token}}") == "t"


def test_a_credential_comes_from_its_directory_only(tmp_path: Path) -> None:
    (tmp_path / "api").write_text("secret\n")
    assert expand("${credential:api}", credentials=str(tmp_path)) == "secret"
    with pytest.raises(TemplateError, match="LoadCredential=api"):
        expand("${credential:api}")
    with pytest.raises(TemplateError, match="is a path"):
        parse("${credential:../api}")


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "no such file"), (b"\xff\xfesecret", "not UTF-8"), (b"secret" * FILE_MAX_BYTES, "larger than")],
)
def test_a_file_that_cannot_be_used_is_named_without_its_content(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    with pytest.raises(TemplateError, match=reason) as error:
        expand("${file:token}", base=tmp_path)
    assert "token" in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("${", "never closed"),
        ("a ${shard", "never closed"),
        ("${}", "is no name"),
        ("${shrad}", r"a \$\{\.\.\.\} is no name, did you mean \$\{shard\}\?"),
        ("${s3cr3t}", r"a \$\{\.\.\.\} is no name, expected fleet, stream"),
        ("${HOME}", r"a variable of the environment is \$\{env:NAME\}"),
        ("${vault:x}", "unknown source, expected env, file, credential"),
        ("${env:}", "lacks the name"),
    ],
)
def test_a_placeholder_that_means_nothing_is_refused_when_it_is_parsed(text: str, reason: str) -> None:
    with pytest.raises(TemplateError, match=reason):
        parse(text)


def test_what_only_looks_like_a_placeholder_is_not_repeated() -> None:
    """It may be a piece of a password with a dollar in it."""
    for text in ("pa${ss:w0rd}", "pa${ss-w0rd}", "${credential:/ss-w0rd}", "pa${ss-w0rd"):
        with pytest.raises(TemplateError) as error:
            parse(text)
        assert "w0rd" not in str(error.value)
    with pytest.raises(TemplateError) as error:
        expand("pa${env:ss-w0rd}")
    assert "w0rd" not in str(error.value)


@given(st.text())
def test_no_inserted_text_can_leave_the_json_string_in_which_it_stands(value: str) -> None:
    text = '{"op": "subscribe", "from": "${env:A}"}'
    assert json.loads(expand(text, json=True, A=value)) == {"op": "subscribe", "from": value}


@pytest.mark.parametrize("text", ['["${env:A}"]', ' {"a": "${env:A}"}', '"${env:A}"'])
def test_objects_arrays_and_strings_are_json(text: str) -> None:
    assert json.loads(expand(text, json=True, A='"\n\\'))


def test_a_text_that_is_no_json_is_inserted_as_it_is() -> None:
    assert expand('SUBSCRIBE "${env:A}"', json=True, A='x"y') == 'SUBSCRIBE "x"y"'


def test_a_whole_message_from_a_file_is_not_escaped(tmp_path: Path) -> None:
    (tmp_path / "subscribe.json").write_text('{"op": "x"}\n')
    assert expand("${file:subscribe.json}", base=tmp_path, json=True) == '{"op": "x"}'


def test_what_a_template_asks_for_is_known_without_expanding_it() -> None:
    template = parse("${env:A}${file:f}${env:A}${credential:c}${shard}${env:B:-x}")
    assert template.names("env") == ("A", "B")
    assert template.names("file") == ("f",)
    assert template.names("credential") == ("c",)
    assert template.names() == ("shard",)


def test_all_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    template = parse("${env:A}${env:B:-x}${file:f}${credential:c}${shard}")
    missing = template.missing({}, tmp_path, "")
    assert [(source, sentence.split("}")[0]) for source, sentence in missing] == [
        ("env", "${env:A"),
        ("file", "${file:f"),
        ("credential", "${credential:c"),
    ]
    assert template.missing({"A": "1"}, tmp_path, "") == missing[1:]
