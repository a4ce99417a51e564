"""The decisions: pure, without I/O, clock or randomness. Begin at `leaseset`."""
