"""What is found in messages (tokens, ids, numbers), and from where a stream goes on after a new connect."""
