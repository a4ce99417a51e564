"""One socket, of which no shard knows yet: the ways to connect (TCP, proxy, TLS, upgrade), and the frames on it."""
