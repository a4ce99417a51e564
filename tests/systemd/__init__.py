"""A Debian with a real systemd: the service is installed there as docs/systemd.md says, and things befall it."""
