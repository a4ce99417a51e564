"""The public API: `from tenured import Handler`, or `Sink`."""

from workers.frames import Message
from workers.handler import Connection, Handler, Shard, Timer
from workers.sinks.own import Event, Retry, Sink

__all__ = ["Connection", "Event", "Handler", "Message", "Retry", "Shard", "Sink", "Timer"]
