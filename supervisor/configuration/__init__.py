"""From an INI file to checked settings. Begin at `config`; every key stands in `keys`."""
