"""The start of a command. It does without some packages, and without collecting garbage meanwhile,
so that nobody waits for them. And it refuses what no run should start with: a program without a
main guard, which worker processes would import and run again; too few file handles, too little
memory; numbers in the environment by which libraries fail, or wait for ever."""

from __future__ import annotations

import gc
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from ctypes import CDLL
from functools import lru_cache
from importlib import import_module, metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from threading import Lock
from types import ModuleType
from typing import Any

from storage.errors import ClusterError, InputError, StorageError

_STARTING = (1_000_000, 50, 100)
"""Thresholds of the collector while modules are imported, whose objects stay."""
_USUAL = gc.get_threshold()
_LATER = {
    *("scipy.stats", "scipy.interpolate", "scipy.integrate", "scipy.spatial", "scipy.fft"),
    *("sklearn.decomposition", "sklearn.compose", "sklearn.pipeline", "sklearn.model_selection"),
    *("sklearn.neighbors", "sklearn.linear_model", "numpy.f2py", "numpy.testing"),
    *("narwhals", "narwhals.stable", "narwhals.stable.v2"),
}
"""Packages put off, which scikit-learn and SciPy name as they are imported, and what we use of both
seldom calls; the first is most of it. Less what was used."""
_ARENAS, _GIVEN_APART, _KEPT = -8, -3, -1
"""What glibc calls the number of parts that memory is managed in, the bytes from which an array is
given memory of its own, and those that may lie unused."""
_LARGE = 1 << 25
"""The most that glibc takes for the second of these."""
_ALONE = "sklearn.neighbors._quad_tree"
"""A module that trees begin with, which needs nothing of the package that it lies in."""
_LOADING = Lock()


class _Spared(MetaPathFinder, Loader):
    """Fails to import what others try in order to see whether it is there: pyarrow would import
    pandas to see whether the first array that it makes comes from there, and Numba coverage and
    cffi. Who only asks where a package is, as Bokeh does, gets an answer."""

    _NAMES = frozenset({"pandas", "coverage", "cffi"})

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in self._NAMES else None

    def exec_module(self, module: ModuleType) -> None:
        raise ModuleNotFoundError(f"a command does without {module.__name__}", name=module.__name__)


def _gmean(a: Any, axis: int) -> Any:
    """That of `scipy.stats`, which trees of several classes begin with."""
    import numpy as np

    return np.exp(np.log(a).mean(axis=axis))


class _DataFrames:
    """Says of an array, as scikit-learn asks narwhals each time, that it is no data frame."""

    def __getattr__(self, name: str) -> Any:
        itself = _OfLater("narwhals.stable.v2", "dependencies")

        def ask(what: Any) -> Any:
            return type(what).__module__ != "numpy" and getattr(itself, name)(what)

        return ask


_BY_US = {"gmean": _gmean, "dependencies": _DataFrames()}
"""What is called where nothing else of a package is."""


class _Later(ModuleType):
    """Stands for a package until something of it is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what looks at all modules asks for such
            raise AttributeError(name)
        return _BY_US.get(name) or _OfLater(self.__name__, name)


class _OfLater:
    """Something of such a package, which is imported when it is called or looked into."""

    def __init__(self, package: str, name: str) -> None:
        self._package, self._name = package, name

    def _itself(self) -> Any:
        return getattr(_loaded(self._package), self._name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._itself()(*args, **kwargs)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self._itself())

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._itself(),)  # a class is made of it

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._itself(), name)


class _Put(MetaPathFinder, Loader):
    """Puts a `_Later` where the package is asked for; a module below it is that of the package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in _LATER:
            return ModuleSpec(fullname, self, is_package=True)
        above = fullname.rpartition(".")[0]
        if not isinstance(sys.modules.get(above), _Later):
            return None
        if fullname == _ALONE:
            whole = PathFinder.find_spec(above, sys.modules[above.rpartition(".")[0]].__path__)
            return whole and PathFinder.find_spec(fullname, whole.submodule_search_locations)
        _loaded(above)
        return find_spec(fullname)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Later(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def _loaded(package: str) -> ModuleType:
    """The package itself; the first of several threads takes the place of what stood for it."""
    with _LOADING:
        _LATER.discard(package)
        if isinstance(sys.modules.get(package), _Later):
            del sys.modules[package]
            above, _, name = package.rpartition(".")
            if above:  # its own modules would find what stood for it
                vars(sys.modules[above]).pop(name, None)
    return import_module(package)  # under the locks of imports alone


@contextmanager
def without_unused() -> Iterator[None]:
    """For a process of our own: what pyarrow and Numba have once looked for they never look for
    again, what scikit-learn never calls is not imported, and the plugins of all packages, which
    four libraries look for, are listed once."""
    finders, packages = [_Spared(), _Put()], vars(metadata)
    sys.meta_path[:0] = finders
    listed = packages["entry_points"]
    once = lru_cache(1)(listed)
    packages["entry_points"] = lambda **which: once().select(**which)
    try:
        yield
    finally:
        packages["entry_points"] = listed
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder not in finders]


def one_heap() -> None:
    """For a process of our own: memory that one thread frees is for all of them, and stays until
    the next array wants it. glibc has it apart for each thread, a fifth to two fifths of a
    training's peak, and gives it back to the system, which clears it anew: a fifteenth of the time
    of a million rows (measured). Arrays of more than `_LARGE` bytes go back as they are freed."""
    with suppress(AttributeError):  # of another C library
        for option, value in (_ARENAS, 1), (_GIVEN_APART, _LARGE), (_KEPT, 2**31 - 1):
            CDLL(None).mallopt(option, value)


def collecting_seldom() -> None:
    """For a process of our own, until it has `started`: the collector walks over what imports make
    again and again, which is a tenth of a small run, and frees none of it."""
    gc.set_threshold(*_STARTING)


def started() -> None:
    """What there is stays, and is not walked over any more; of what comes garbage is collected as
    usual. Kernels are loaded from now on. Nothing where nobody was `collecting_seldom`."""
    if gc.get_threshold() == _STARTING:
        gc.freeze()
        gc.set_threshold(*_USUAL)
        _load_kernels_alone()


def _load_kernels_alone() -> None:
    """What Numba has compiled earlier is loaded without all that compiling takes: it imports 80
    modules and registers thousands of operations, and does so itself before it compiles."""
    from numba.core.caching import Cache
    from numba.core.runtime import rtsys

    def load_overload(self: Any, signature: Any, target: Any) -> Any:
        rtsys.initialize(target)  # what compiled code calls
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, target)

    Cache.load_overload = load_overload


FEWEST_GB = 5
"""Gigabytes of addresses: the smallest run takes 4.2 with workers. Libraries map more than they
use, and those that get too few may wait for an end that does not come."""
FEWEST_HANDLES = 64
"""With fewer, event loops that cannot begin may be waited for."""

IMPORTED = 77
"""Exit status of a process that began a run while it imported the program."""
MESSAGE = (
    "worker processes import this program and would begin its run again; put the call below `if "
    '__name__ == "__main__":`, or give workers=0'
)


def check_handles() -> None:
    """Allow this process as many file handles as may be; `StorageError` where they are too few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FEWEST_HANDLES:
        soft = FEWEST_HANDLES if hard == resource.RLIM_INFINITY else min(hard, FEWEST_HANDLES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft != resource.RLIM_INFINITY and soft < FEWEST_HANDLES:
        raise StorageError(
            f"this process may open {soft} files, which are too few: ulimit -n {FEWEST_HANDLES} or "
            "more"
        )


def check_addresses() -> None:
    """`ClusterError` where this process may not map what the smallest run does."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY and soft < FEWEST_GB * 10**9:
        raise ClusterError(
            f"this process may map {soft / 1e6:,.0f} MB (ulimit -v), too few for any run: allow "
            f"{FEWEST_GB} GB or more, or limit the memory that is used, as containers do"
        )


def check_counts() -> None:
    """`InputError` for a variable of Numba or Zarr that is no number of threads or requests."""
    for name in ("NUMBA_NUM_THREADS", "ZARR_THREADING__MAX_WORKERS", "ZARR_ASYNC__CONCURRENCY"):
        value = os.environ.get(name, "None").strip()  # as Zarr writes its default
        if value != "None" and not (value.isdecimal() and int(value)):
            raise InputError(
                f"{name}={value}: must be a whole number above 0; mend or unset that variable of "
                "the environment"
            )


def refuse_while_imported() -> None:
    """End a process that multiprocessing has started, if it is still importing the program."""
    started = sys.modules.get("multiprocessing")
    if started and getattr(started.current_process(), "_inheriting", False):
        os._exit(IMPORTED)
