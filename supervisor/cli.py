"""The command line: each command is a few lines that ask another module and turn the answer into text and an exit code.

What holds: a mistake of the user ends in one sentence on stderr for each mistake and in a code of `exits`, never in a
traceback; results go to stdout. Only `run`, `init` and `demo` create anything. Modules are imported where they are
used, so that `status` and `check` do not pay for the daemon.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from supervisor import exits
from supervisor.commands import drain, fleet, local, starters, wishes
from supervisor.commands.means import Failed, say


def main() -> NoReturn:
    """The console script."""
    _open_standard_files()
    try:
        code = commands.main(sys.argv[1:] or ["--help"], prog_name="tenured", standalone_mode=False)
    except Failed as failure:
        code = say(failure.code, *failure.sentences)
    except click.UsageError as error:
        code = say(exits.USAGE, _misuse(error))
    except click.Abort:
        code = say(exits.NO, "interrupted")
    except BrokenPipeError:
        # Whoever read our output went away; without this the interpreter would complain about it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = exits.NO
    except PermissionError as error:
        code = say(exits.NOT_PERMITTED, _sentence(error))
    sys.exit(code or exits.OK)


def _misuse(error: click.UsageError) -> str:
    """A sentence like all others."""
    text = error.format_message().rstrip(".")
    path = error.ctx.command_path if error.ctx else "tenured"
    takes_file = error.ctx is not None and any(parameter.name == "source" for parameter in error.ctx.command.params)
    advice = f"see `{path} --help`"
    if takes_file and text.startswith("Got unexpected extra argument"):
        advice = f"the configuration is named with -c: {path} -c FILE"
    return f"{text[0].lower()}{text[1:]} ({advice})"


def _open_standard_files() -> None:
    """Whoever started us may have closed some of them. A lock, a log or a socket would get their numbers otherwise, and
    what is printed would end up there."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, and so this one
            setattr(sys, name, os.fdopen(fd, mode, closefd=False))


def _sentence(error: OSError) -> str:
    text = (error.strerror or str(error)).lower()
    return f"{error.filename}: {text}" if error.filename else text


def _version(context: click.Context, _option: click.Parameter, asked: bool) -> None:
    if not asked or context.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"tenured {version('tenured')}")
    context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
def commands() -> None:
    """Keeps persistent WebSocket connections alive across a fleet, and always knows who owns them.

    \b
    tenured demo                        watch a takeover, without any set-up
    tenured example > tenured.ini       begin a configuration
    tenured run -c tenured.ini          run the supervisor of this host
    tenured status -c tenured.ini       who owns what, in the whole fleet
    """
    from supervisor.hidden import hidden_by

    hiding = hidden_by()
    if hiding:
        raise Failed(exits.CONFIG, f"{hiding} hides a package of tenured; rename it, or take it off PYTHONPATH")


for command in (
    *(local.run, local.check, local.health, drain.drain),
    *(fleet.init, fleet.status, fleet.history),
    *(wishes.move, wishes.pause, wishes.resume, wishes.forget),
    *(starters.example, starters.demo),
):
    commands.add_command(command)


if __name__ == "__main__":
    main()
