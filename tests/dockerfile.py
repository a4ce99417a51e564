"""The Dockerfile as instructions, and what of it a test needs: no engine is there to ask."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Instruction:
    name: str
    argument: str

    @property
    def words(self) -> list[str]:
        """Of the exec form; ValueError: it is none."""
        words = json.loads(self.argument)
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError(f"{self.argument} is no exec form")
        return words


def instructions(path: Path = ROOT / "Dockerfile") -> list[Instruction]:
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    text = re.sub(r"\\\n", "", "\n".join(lines))
    return [Instruction(*line.split(maxsplit=1)) for line in text.splitlines()]


def stages() -> list[list[Instruction]]:
    """Each begins with its FROM; what stands before the first is left out."""
    found: list[list[Instruction]] = []
    for each in instructions():
        if each.name == "FROM":
            found.append([])
        if found:
            found[-1].append(each)
    return found


def only(stage: list[Instruction], name: str) -> Instruction:
    (found,) = [each for each in stage if each.name == name]
    return found


def environment() -> dict[str, str]:
    """What the image sets, `$PATH` filled in with that of the host."""
    pairs = [pair.partition("=") for pair in shlex.split(only(stages()[-1], "ENV").argument)]
    return {name: value.replace("$PATH", "/usr/local/bin:/usr/bin:/bin") for name, _, value in pairs}


def health_check() -> list[str]:
    """Its command."""
    options, _, command = only(stages()[-1], "HEALTHCHECK").argument.partition("CMD ")
    assert all(option.startswith("--") for option in options.split())
    return Instruction("CMD", command).words


def sources() -> list[str]:
    """What the first stage copies out of the repository."""
    copies = [each.argument.split() for each in stages()[0] if each.name == "COPY"]
    return [name for words in copies for name in words[:-1]]


def user() -> tuple[int, int]:
    uid, gid = only(stages()[-1], "USER").argument.split(":")
    return int(uid), int(gid)
