"""The status page: what a browser gets, and how it becomes one document."""
