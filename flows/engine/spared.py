"""What a command does without, so that nothing waits for it: packages, and collecting garbage while
it starts."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from threading import Lock
from types import ModuleType
from typing import Any

_STARTING = (100_000, 50, 100)
"""Thresholds of the collector while modules are imported, whose objects stay."""
_USUAL = gc.get_threshold()
_LATER = "scipy.stats"
"""Most of the time that scikit-learn takes to be imported; what we use of it seldom calls it."""
_LOADING = Lock()


class _Spared(MetaPathFinder, Loader):
    """Fails to import what others try in order to see whether it is there: pyarrow would import
    pandas to see whether the first array that it makes comes from there, and Numba coverage. Who
    only asks where a package is, as Bokeh does, gets an answer."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in ("pandas", "coverage") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        raise ModuleNotFoundError(f"a command does without {spec.name}", name=spec.name)


class _Later(ModuleType):
    """Stands for a package until something of it is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what looks at all modules asks for such
            raise AttributeError(name)
        return _OfLater(name)


class _OfLater:
    """Something of such a package, which is imported when it is called or looked into."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(_loaded(), self._name)(*args, **kwargs)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return (getattr(_loaded(), self._name),)  # a class is made of it

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(getattr(_loaded(), self._name), name)


class _Put(MetaPathFinder, Loader):
    """Puts a `_Later` where the package is asked for; a module below it is that of the package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == _LATER:
            return ModuleSpec(fullname, self, is_package=True)
        if fullname.startswith(f"{_LATER}.") and isinstance(sys.modules.get(_LATER), _Later):
            _loaded()
            return find_spec(fullname)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Later(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def _loaded() -> ModuleType:
    """The package itself; the first of several threads takes the place of what stood for it."""
    with _LOADING:
        if isinstance(sys.modules.get(_LATER), _Later):
            for finder in [finder for finder in sys.meta_path if isinstance(finder, _Put)]:
                sys.meta_path.remove(finder)
            del sys.modules[_LATER]
    return import_module(_LATER)  # under the locks of imports alone


@contextmanager
def without_unused() -> Iterator[None]:
    """For a process of our own: what pyarrow and Numba have once looked for they never look for
    again, and what scikit-learn never calls is not imported."""
    finders = [_Spared(), _Put()]
    sys.meta_path[:0] = finders
    try:
        yield
    finally:
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder not in finders]


def collecting_seldom() -> None:
    """For a process of our own, until it has `started`: the collector walks over what imports make
    again and again, which is a tenth of a small run, and frees none of it."""
    gc.set_threshold(*_STARTING)


def started() -> None:
    """What there is stays, and is not walked over any more; of what comes garbage is collected as
    usual. Nothing where nobody was `collecting_seldom`."""
    if gc.get_threshold() == _STARTING:
        gc.freeze()
        gc.set_threshold(*_USUAL)
