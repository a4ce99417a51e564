"""The public API: `from tenured import Handler`."""

from workers.frames import Message
from workers.handler import Connection, Handler, Shard

__all__ = ["Connection", "Handler", "Message", "Shard"]
