"""What a child is told when it starts, made from the settings and the lease that was just won."""

from __future__ import annotations

from collections.abc import Mapping

from supervisor.configuration.settings import Settings, Stream
from supervisor.core.model import Start
from workers.spec import Scope, Task
from workers.websocket import proxy

BASIC_VARIABLES = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "LOGNAME", "SSL_CERT_FILE", "SSL_CERT_DIR")
_AWS_SINKS = ("kinesis:", "sqs:")


def task_for(
    settings: Settings, stream: Stream, start: Start, supervisor: str, host: str, environ: Mapping[str, str]
) -> Task:
    """The task of the child that `start` asks for. Of our environment it gets the basic variables and those that its
    stream names, and what signs requests to AWS if its sink makes some: a child cannot show what it was never given."""
    prefixes = ("LC_", "AWS_") if stream.spec.sink.startswith(_AWS_SINKS) else ("LC_",)
    names = {*BASIC_VARIABLES, *(name for name in environ if name.startswith(prefixes)), *stream.environment}
    if stream.spec.proxy == "env":
        names.update(proxy.VARIABLES)
    index = stream.indices[stream.shards.index(start.shard)]
    scope = Scope(
        spec=stream.spec,
        fleet=settings.fleet,
        host=host,
        base=str(settings.base),
        credentials=environ.get("CREDENTIALS_DIRECTORY", ""),
        python_path=settings.python_path,
        supervisor=supervisor,
    )
    return Task(
        scope=scope,
        shard=start.shard,
        index=index,
        epoch=start.epoch,
        slot=-1,  # chosen where the child is started
        checkpoint=start.checkpoint,
        environment={name: environ[name] for name in names if name in environ},
    )
