"""A package that a command does without, so that nothing waits for its import."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from types import ModuleType


class _Spared(MetaPathFinder):
    """Says of pandas that it is not installed: pyarrow would import it, a tenth of a small run, to
    see whether the first array that it makes comes from there."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("a command does without pandas", name=fullname)


@contextmanager
def without_pandas() -> Iterator[None]:
    """For a process of our own: what pyarrow has once looked for it never looks for again."""
    finder = _Spared()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
