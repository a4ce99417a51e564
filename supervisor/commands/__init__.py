"""The commands, one module for each kind; `cli` puts them together."""
