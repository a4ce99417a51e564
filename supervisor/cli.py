"""The command line: each command is a few lines that ask another module and turn the answer into text and an exit code.

What holds: a mistake of the user ends in one sentence on stderr for each mistake and in a code of `exits`, never in a
traceback; results go to stdout. Only `run`, `init` and `demo` create anything. Modules are imported where they are
used, so that `status` and `check` do not pay for the daemon.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from supervisor import exits

if TYPE_CHECKING:
    from supervisor.config import Loaded
    from supervisor.stores.interface import Store

DEFAULT_FILE = "/etc/tenured/tenured.ini"
CALL_TIMEOUT_S = 10.0
HEALTH_TIMEOUT_S = 5.0


class Failed(Exception):
    """A command cannot do its work: sentences for stderr and an exit code."""

    def __init__(self, code: int, *sentences: str) -> None:
        super().__init__(*sentences)
        self.code = code
        self.sentences = sentences


def main() -> NoReturn:
    """The console script."""
    _open_standard_files()
    try:
        code = commands.main(prog_name="tenured", standalone_mode=False)
    except Failed as failure:
        code = _say(failure.code, *failure.sentences)
    except click.UsageError as error:
        error.show()
        code = exits.USAGE
    except click.Abort:
        code = _say(exits.NO, "interrupted")
    except BrokenPipeError:
        # Whoever read our output went away; without this the interpreter would complain about it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = exits.NO
    except PermissionError as error:
        code = _say(exits.NOT_PERMITTED, _sentence(error))
    sys.exit(code or exits.OK)


def _open_standard_files() -> None:
    """Whoever started us may have closed some of them. A lock, a log or a socket would get their numbers otherwise, and
    what is printed would end up there."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, and so this one
            setattr(sys, name, os.fdopen(fd, mode, closefd=False))


def _say(code: int, *sentences: str) -> int:
    for sentence in sentences:
        print(f"tenured: {sentence}", file=sys.stderr)
    return code


def _sentence(error: OSError) -> str:
    text = (error.strerror or str(error)).lower()
    return f"{error.filename}: {text}" if error.filename else text


def _version(context: click.Context, _option: click.Parameter, asked: bool) -> None:
    if not asked or context.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"tenured {version('tenured')}")
    context.exit()


_file_option = click.option(
    "-c",
    "--config",
    "source",
    default=DEFAULT_FILE,
    show_default=True,
    metavar="FILE",
    help="The configuration; env:NAME reads its text from a variable.",
)
_store_option = click.option(
    "--store",
    "store_url",
    metavar="URL",
    help="Use this store, and read no configuration: dynamodb://... or sqlite:///PATH.",
)


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


@commands.command(epilog="Example: tenured run -c /etc/tenured/tenured.ini")
@_file_option
def run(source: str) -> int:
    """Run the supervisor of this host until it is told to stop.

    SIGTERM stops it gracefully and releases every lease; a second one hurries.
    """
    if sys.platform != "linux":
        raise Failed(exits.LIMITS, f"run needs Linux, this is {sys.platform}")
    from supervisor import signals

    signals.end_at_once()  # before what takes its time: process 1 would miss a stop meanwhile
    loaded = _loaded(source)
    from supervisor import daemon

    return daemon.run(loaded.settings, (*loaded.warnings, *_outlet_warnings(loaded)))


def _outlet_warnings(loaded: Loaded) -> list[str]:
    from supervisor.outlet import in_container, lossy_log

    log = lossy_log(os.fstat(sys.stdout.fileno()), os.environ, in_container(os.environ))
    streams = [stream.name for stream in loaded.settings.streams if stream.spec.sink == "stdout"] if log else []
    advice = "which drops and cuts lines; sink = stdout is for pipes and trials, jsonl:PATH keeps every event"
    return [f"[stream:{name}] writes its events to {log}, {advice}" for name in streams]


@commands.command(epilog="Example: tenured check -c ./tenured.ini")
@_file_option
def check(source: str) -> int:
    """Check the configuration and say what it means; nothing is started, nothing is contacted."""
    from supervisor.summary import summary

    loaded = _loaded(source)
    for line in summary(loaded.settings):
        click.echo(line)
    for warning in loaded.warnings:
        print(f"tenured: warning: {warning}", file=sys.stderr)
    return exits.OK


@commands.command(epilog="Example: tenured init --store 'dynamodb://tenured-leases?region=eu-west-1'")
@_file_option
@_store_option
def init(source: str, store_url: str | None) -> int:
    """Create the table or file of the leases, unless it is there."""
    store, _ = _store(source, store_url)
    try:
        click.echo(_asked(store, store.initialize))
    finally:
        store.close()
    return exits.OK


@commands.command(epilog="Example: tenured status --json --store sqlite:///leases.db")
@_file_option
@_store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
def status(source: str, store_url: str | None, as_json: bool) -> int:
    """Who owns what in the whole fleet, read from the store.

    Exit code 0: every shard is held. 1: some are not. 69: the store cannot tell.
    """
    from supervisor import view
    from supervisor.clock import unix_ms
    from supervisor.status import view as view_of

    store, loaded = _store(source, store_url)
    try:
        snapshot = _asked(store, lambda: store.snapshot(CALL_TIMEOUT_S, full=True))
    finally:
        store.close()
    fleet, configured = (loaded.settings.fleet, tuple(loaded.settings.shards)) if loaded else ("", ())
    seen = view_of(snapshot, unix_ms(), fleet, configured)
    if as_json:
        click.echo(view.as_json(seen))
    else:
        view.show(seen, sys.stdout)
    return exits.NO if seen.degraded else exits.OK


@commands.command(epilog="Example: tenured health --ready -c /etc/tenured/tenured.ini")
@_file_option
@click.option(
    "--ready", is_flag=True, help="Also ask whether it does its work: the store is reachable, its shards run."
)
def health(source: str, ready: bool) -> int:
    """Whether the supervisor of this host is alive: its loop answers. An outage of the store does not fail it.

    Exit code 0: yes. 1: no.
    """
    from supervisor.ask import NoAnswer, ask, socket_path

    run_dir = _loaded(source).settings.run_dir
    try:
        reply = ask(socket_path(run_dir), "health", HEALTH_TIMEOUT_S)
    except NoAnswer as error:
        raise Failed(exits.NOT_PERMITTED if error.permission else exits.NO, str(error)) from None
    if ready and not reply.get("ready"):
        raise Failed(
            exits.NO,
            f"{reply.get('supervisor', 'the supervisor')} is not ready: {reply.get('reason', 'no reason given')}",
        )
    click.echo(f"{reply.get('supervisor', 'the supervisor')} is {'ready' if reply.get('ready') else 'alive'}")
    return exits.OK


@commands.command(epilog="Example: tenured example > tenured.ini")
@click.argument("what", type=click.Choice(["ini"]), default="ini")
def example(what: str) -> int:
    """Print a commented configuration to start from."""
    from supervisor.example import example as text

    click.echo(text(), nl=False)
    return exits.OK


@commands.command(epilog="Example: tenured demo --supervisors 3")
@click.option(
    "--store", "store_url", metavar="URL", help="Where the leases are; without it a file in a temporary folder."
)
@click.option("--supervisors", default=2, show_default=True, help="How many share the shards, 2 or 3.")
@click.option("--shards", default=8, show_default=True, help="How many shards they share.")
@click.option(
    "--seconds", default=3, show_default=True, help="How long it streams before the kill and after it, 1 to 10."
)
@click.option("--plain", is_flag=True, help="Lines instead of a live screen, also on a terminal.")
def demo(store_url: str | None, supervisors: int, shards: int, seconds: int, plain: bool) -> int:
    """Watch two supervisors share shards, one of them being killed, and the other taking over.

    It needs no network, no account and no configuration, and ends by itself within a minute.
    Exit code 0: everything was as promised. 1: something was not.
    """
    from supervisor.demo import show

    return show.run(store_url, supervisors, shards, seconds, plain)


def _loaded(source: str) -> Loaded:
    from supervisor.config import ConfigError, examine

    try:
        return examine(source, os.environ)
    except ConfigError as error:
        raise Failed(exits.NOT_PERMITTED if error.permission else exits.CONFIG, *error.problems) from None


def _store(source: str, store_url: str | None) -> tuple[Store, Loaded | None]:
    """The store of the command line, or that of the configuration, which then comes along."""
    from supervisor.stores.location import open_store

    loaded = None if store_url else _loaded(source)
    url, base = (loaded.settings.store, loaded.settings.base) if loaded else (store_url or "", Path.cwd())
    try:
        return open_store(url, base, CALL_TIMEOUT_S), loaded
    except ValueError as error:
        raise Failed(exits.CONFIG if loaded else exits.USAGE, str(error)) from None


def _asked(store: Store, question: Callable[[], Any]) -> Any:
    """The store's answer, or its failure as ours."""
    from supervisor.stores.interface import Unavailable, Unfit

    try:
        return question()
    except Unfit as error:
        raise Failed(exits.STORE, str(error)) from None
    except Unavailable as error:
        raise Failed(exits.STORE, f"store {store.url} cannot be used: {error}") from None


if __name__ == "__main__":
    main()
