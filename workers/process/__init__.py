"""From the fork server to the first line of the shard: how a child comes to be, and what ends it."""
