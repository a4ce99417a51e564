"""Whether what is sent after a connect is the JSON that it looks like, once its placeholders are filled.

A text that begins with { or [ is looked at as its shards would send it at their first connect, before there is a
checkpoint. One that is no JSON is worth a warning, not an error: other protocols use brackets, too. No sentence
repeats a value.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from workers.template import Template, TemplateError


def json_problem(
    template: Template,
    shards: Iterable[Mapping[str, str]],
    environ: Mapping[str, str],
    base: Path,
    credentials: str,
) -> str:
    """What is wrong with the text for the first of the shards (each given by its plain names) for which it is no JSON,
    or an empty text. A placeholder without a value is somebody else's complaint."""
    if not template.is_json or str(template.parts[0]).lstrip().startswith('"'):
        return ""
    for names in shards:
        variables = {**names, "connection": "0", "epoch": "1", "checkpoint": ""}
        try:
            text = template.expand(variables, environ, base, credentials, json=True)
            json.loads(text)
        except TemplateError:
            return ""
        except json.JSONDecodeError as error:
            where = _place(template, error.pos, variables, environ, base, credentials)
            return f"begins like JSON, but is none for {names['shard']}: {_lower(error.msg)} {where}"
        except RecursionError:
            return "begins like JSON, but is nested too deeply"
        if not {"shard", "index"} & set(template.names()):
            return ""
    return ""


def _place(
    template: Template,
    position: int,
    variables: Mapping[str, str],
    environ: Mapping[str, str],
    base: Path,
    credentials: str,
) -> str:
    """The position as one can find it in the text as it is written, where placeholders stand for their values."""
    parts = template.parts
    begins = [
        len(Template(parts[:count]).expand(variables, environ, base, credentials, json=True))
        for count in range(len(parts))
    ]
    number = bisect.bisect_right(begins, position) - 1
    if not isinstance(parts[number], str):
        return f"in what {parts[number]} becomes; a text needs quotes around it"
    after = f" after {parts[number - 1]}" if number else ""
    return f"at character {position - begins[number] + 1}{after}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
