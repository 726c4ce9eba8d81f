"""What a command does without, so that nothing waits for it: packages, and collecting garbage while
it starts."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from types import FrameType, ModuleType

_STARTING = (100_000, 50, 100)
"""Thresholds of the collector while modules are imported, whose objects stay."""
_USUAL = gc.get_threshold()


class _Spared(MetaPathFinder):
    """Says that packages are not installed where others only ask whether they are: pyarrow would
    import pandas to see whether the first array that it makes comes from there; Numba coverage, and
    scipy.linalg for the sake of functions that no kernel of ours calls."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname in ("pandas", "coverage") or (fullname == "scipy.linalg" and _asked_by_numba()):
            raise ModuleNotFoundError(f"a command does without {fullname}", name=fullname)


def _asked_by_numba() -> bool:
    """Whether this thread is at the import of Numba's module that asks for scipy.linalg; kernels
    that multiply matrices get it later."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "numba.np.arraymath":
            return True
        frame = frame.f_back
    return False


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
