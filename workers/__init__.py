"""The child of tenured: it runs the connections of one shard under one epoch; it imports nothing of `supervisor`.

Where a rule lives:

    which calls a handler gets, what its errors lead to      handler, handling/dispatch, handling/failures
    when it connects, pings, retries, gives up, is idle      stream/session (policy), stream/vigil (heard when)
    when it may connect: connect_rate, Retry-After           stream/permission, stream/question, stream/floors
    one connection that is replaced or moved to a new socket stream/connection; one socket of it: stream/link
    what a connect is: proxy, TLS, upgrade                   websocket/route, websocket/dial, and a file for each
    what a frame may be, sizes, UTF-8                        websocket/parser and its parts (bulk, assembly, deflate)
    which token is the checkpoint, when it is refused        resuming/checkpoint, resuming/doubt, resuming/marks
    when a token is safe, and so committed                   sinks/lane (behind the flush of its events)
    backpressure and drops                                   sinks/lane, sinks/delivery; retries: sinks/condition
    rotation, HTTP, Kinesis, SQS, own sinks                  sinks/, a file for each
    the deadline after which nothing is delivered            process/fence, sinks/delivery
    what is shared by fork, and what a child costs           process/preload, process/rehearsal
    what parent and child tell each other                    spec (at the start), board (ever after), process/wire
"""
