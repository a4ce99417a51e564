"""HTTP: the status page, the JSON behind it, probes and metrics. Begin at `routes`."""
