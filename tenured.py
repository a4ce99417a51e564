"""The public API: `from tenured import Handler`, or `Sink`."""

from workers.handler import Connection, Handler, Shard, Timer
from workers.sinks.own import Event, Retry, Sink
from workers.websocket.frames import Message

__all__ = ["Connection", "Event", "Handler", "Message", "Retry", "Shard", "Sink", "Timer"]
