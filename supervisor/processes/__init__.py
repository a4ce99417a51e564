"""Children and the fork servers that make them, as the parent sees them. Begin at `children`."""
