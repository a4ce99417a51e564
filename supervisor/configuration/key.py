"""What a key of the configuration is."""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.configuration.values import Parse

SECOND = 1000
HOUR = 3_600_000
SUPERVISOR = "supervisor"
STREAM = "stream"


@dataclass(frozen=True, slots=True)
class Key:
    """`default` None: required, derived or simply absent. A name that ends with a dot is a prefix."""

    section: str
    name: str
    parse: Parse
    doc: str
    default: str | None = None
    derived: str = ""
    example: str = ""  # shown instead of the default where that would say little
    required: bool = False
    shown: bool = False  # `example` sets it instead of mentioning it in a comment
    restart: bool = False  # a reload cannot change it
    lines: bool = False  # several indented lines are several values
    template: bool = False  # stays a template; the child expands it at every connect
    reload: str = ""  # what a reload does with a change, if it is not what it does with most keys of the section
