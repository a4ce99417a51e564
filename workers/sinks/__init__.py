"""Where events go: a file each for `stdout`, `jsonl:`, `http(s)://`, `kinesis:`, `sqs:`, `discard`, own classes."""
