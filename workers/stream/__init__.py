"""All connections of one shard in one loop: when each connects, is heard, pings, is replaced and given up."""
