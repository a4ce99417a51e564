"""The demonstration: a local feed, real supervisors, one of them killed, and a verdict read from what happened."""
