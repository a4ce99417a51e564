"""The start of `tenured run`: what must be there before the daemon, and how a refusal is told.

What holds: nothing is written before the lock of `state_dir` is ours; a refusal is one sentence on stderr and an exit
code of `exits`, never a traceback.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from supervisor import control, exits, incarnations, lock, place
from supervisor.configuration.settings import Settings
from supervisor.daemon import Daemon
from supervisor.notify import Notifier
from supervisor.stores.interface import Denied, Locked, Store, Unavailable, Unfit
from supervisor.stores.location import SqliteLocation, open_store, parse
from workers.texts import printable

LOCK_WAIT_S = 5.0


def run(settings: Settings, warnings: Sequence[str] = ()) -> int:
    """Run until told to stop; the exit code. Refusals are one sentence on stderr; `warnings` go into the log."""
    try:
        return asyncio.run(_run(settings, warnings))
    except (lock.Held, control.Occupied) as error:
        return _refuse(exits.OCCUPIED, str(error))
    except Unfit as error:
        return _refuse(exits.STORE, str(error))
    except Denied as error:
        return _refuse(exits.NOT_PERMITTED, str(error))
    except ValueError as error:
        return _refuse(exits.CONFIG, str(error))
    except OSError as error:
        sentence = (error.strerror or str(error)).lower()
        code = exits.NOT_PERMITTED if isinstance(error, PermissionError) else exits.OCCUPIED
        return _refuse(code, f"{error.filename}: {sentence}" if error.filename else sentence)


async def _run(settings: Settings, warnings: Sequence[str]) -> int:
    notifier = Notifier.from_environment(os.environ)
    where, unknown = await asyncio.to_thread(place.find, os.environ)
    store = open_store(settings.store, settings.base, settings.call_timeout_ms / 1000)
    held = await lock.take(settings.state_dir, LOCK_WAIT_S)
    try:
        if isinstance(parse(settings.store, settings.base), SqliteLocation):
            # It may wait for the file, and the main thread has to hear signals meanwhile.
            await asyncio.to_thread(_initialize, store)
        record = incarnations.record_in(settings.state_dir, held)
        daemon = Daemon(settings, store, held, record, where, notifier, asyncio.get_running_loop())
        return await daemon.run([*warnings, *([unknown] if unknown else [])])
    finally:
        store.close()


def _initialize(store: Store) -> None:
    """A file is made where it is missing; a table costs money and is made by `tenured init` alone. A file that others
    keep locked is there: a store that cannot be reached yet, which is waited for."""
    try:
        store.initialize()
    except Locked:
        return
    except Denied as error:
        raise Denied(f"store {store.url}: {error}") from None
    except Unavailable as error:
        raise Unfit(f"store {store.url} cannot be used: {error}") from None


def _refuse(code: int, sentence: str) -> int:
    print(f"tenured: {printable(sentence)}", file=sys.stderr)
    return code
