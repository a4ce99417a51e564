"""The child of tenured: it runs the connections of one shard under one epoch; it imports nothing of `supervisor`."""
