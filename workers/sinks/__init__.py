"""Where events go: `stdout`, `jsonl:PATH`, `discard`."""
