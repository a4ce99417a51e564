"""The parent of tenured: leases, children, stores and the command line (shares its name with PyPI's supervisor)."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
