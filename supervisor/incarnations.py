"""Which earlier supervisors of this state folder are certainly dead, so that nobody waits for their leases.

Whoever has the folder's lock knows that every process which inherited it is gone. The record beside the lock says
which supervisor ids lived under it; it is written, under the lock, before the first claim. It proves something only
while it speaks of the running kernel (its boot id) and of the very file whose lock we hold (device and inode): the
record of another boot, of a copied folder, or of a lock file that was replaced proves nothing, and then one waits as
everybody does. Outside of what it can prove: a machine that was copied together with its memory, and whose daemon was
restarted before one of the copies had been refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from supervisor.lock import Lock
from workers.regular import open_regular

IDS_MAX = 64  # of a daemon that crashes again and again before it can claim: the leases of the oldest ran out long ago
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_BYTES_MAX = 64 * 1024


class Unusable(Exception):
    """The record could not be read or written: one sentence. Nothing is proven then, and nothing else is wrong."""


@dataclass(frozen=True, slots=True)
class Record:
    """The record of a state folder, for who holds its lock. `boot`: the id of the running kernel."""

    path: Path
    lock: Lock
    boot: str

    def dead(self) -> tuple[str, ...]:
        """The ids of the incarnations that the lock proves dead, the last one at the end. Raises `Unusable`."""
        if not self.boot:
            raise Unusable(f"{_BOOT_ID} cannot be read; after a restart the leases of the last run are waited for")
        try:
            with open_regular(self.path, os.O_NOFOLLOW) as file:
                known = json.loads(file.read(_BYTES_MAX))
            ids = known["ids"]
            proven = (known["boot_id"], known["device"], known["inode"]) == self._proof
            if not isinstance(ids, list) or not all(isinstance(each, str) and each for each in ids):
                raise ValueError
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            why = (isinstance(error, OSError) and error.strerror) or "it is no record of ours"
            raise Unusable(f"{self.path} cannot be read: {why}; leases of the last run are waited for") from None
        return tuple(ids[-IDS_MAX:]) if proven else ()

    def write(self, ids: Sequence[str]) -> None:
        """Who lives and lived under the lock, in whole or not at all: where it cannot be written there is none, as the
        old one may name somebody who is not dead. Raises `Unusable`."""
        made = dict(zip(("boot_id", "device", "inode"), self._proof, strict=True)) | {"ids": list(ids[-IDS_MAX:])}
        fresh = self.path.with_name(f"{self.path.name}.new")
        try:
            with suppress(FileNotFoundError):
                fresh.unlink()
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "w") as file:
                json.dump(made, file)
            os.replace(fresh, self.path)
        except OSError as error:
            with suppress(OSError):
                self.path.unlink()
            why = f"{self.path} cannot be written: {error.strerror}"
            raise Unusable(f"{why}; after a restart the leases of this run are waited for") from None

    @property
    def _proof(self) -> tuple[str, int, int]:
        return (self.boot, self.lock.device, self.lock.inode)


def record_in(state_dir: Path, lock: Lock) -> Record:
    """The record, which proves nothing where the kernel hides its boot id."""
    try:
        boot = _BOOT_ID.read_text().strip()
    except OSError:
        boot = ""
    return Record(state_dir / "incarnations", lock, boot)
