"""The title of a process in `ps`: the C part of the library setproctitle, without the package around it.

The package imports `logging`, and that `threading`. Each leaves a hook that Python runs in every child after the fork;
together they cost a child a quarter of a megabyte (measured), which a shard without code of its own has no use for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec


def _set_title() -> Callable[[str], None]:
    package = find_spec("setproctitle")
    spec = PathFinder.find_spec("_setproctitle", package.submodule_search_locations if package else None)
    if spec is None or spec.loader is None:
        raise ImportError("setproctitle has no C part here; install it from a wheel, or with a C compiler")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    set_title: Callable[[str], None] = module.setproctitle
    return set_title


set_title = _set_title()
