"""What a supervisor counts, and how Prometheus gets it. Begin at `families`."""
