"""What the rows of the store say to people and programs. Begin at `status`."""
