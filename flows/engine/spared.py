"""What a command does without, so that nothing waits for it: packages, and collecting garbage while
it starts."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from types import ModuleType

_STARTING = (100_000, 50, 100)
"""Thresholds of the collector while modules are imported, whose objects stay."""
_USUAL = gc.get_threshold()


class _Spared(MetaPathFinder):
    """Says that packages are not installed where others only ask whether they are: pyarrow would
    import pandas to see whether the first array that it makes comes from there, and Numba
    coverage."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname in ("pandas", "coverage"):
            raise ModuleNotFoundError(f"a command does without {fullname}", name=fullname)


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
