"""What a command does without, so that nothing waits for it: packages, and collecting garbage while
it starts."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_STARTING = (100_000, 50, 100)
"""Thresholds of the collector while modules are imported, whose objects stay."""
_USUAL = gc.get_threshold()


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


@contextmanager
def without_unused() -> Iterator[None]:
    """For a process of our own: what pyarrow and Numba have once looked for they never look for
    again."""
    finder = _Spared()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


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
