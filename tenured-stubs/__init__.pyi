"""For type checkers, which look for no types in a module that is a single file."""

from workers.handler import Connection as Connection
from workers.handler import Handler as Handler
from workers.handler import Shard as Shard
from workers.handler import Timer as Timer
from workers.sinks.own import Event as Event
from workers.sinks.own import Retry as Retry
from workers.sinks.own import Sink as Sink
from workers.websocket.frames import Message as Message

__all__ = ["Connection", "Event", "Handler", "Message", "Retry", "Shard", "Sink", "Timer"]
