"""Small pools on disk."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import pytest

if TYPE_CHECKING:
    from runs import PoolWriter  # whose imports the process that hands out tests does without

gc.disable()  # until all is imported
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells have it in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else no process of ours hears it
os.environ.setdefault("PREFECT_LOGGING_TO_API_ENABLED", "false")
os.environ.setdefault("KNNOISE_PROTOCOLS", "memory")  # remote stores without a network
os.environ.setdefault("SCIPY_ARRAY_API", "1")  # else one of scikit-learn's checks skips itself


def pool_writer(folder: Path) -> PoolWriter:
    """Writes two noisy clouds as `.npz`; the labels flipped at (0.3, 0.1)."""

    def write(n: int = 600, d: int = 4, seed: int = 0, name: str = "pool.npz", **more: Any) -> Path:
        rng = np.random.default_rng(seed)
        clean = rng.integers(0, 2, n)
        x = rng.normal(size=(n, d)) + 3.0 * clean[:, None]
        flipped = rng.random(n) < np.where(clean == 1, 0.1, 0.3)
        arrays = {"X": x.astype(np.float32), "y": (clean ^ flipped).astype(np.int8), **more}
        np.savez(folder / name, **arrays)
        return folder / name

    return write


@pytest.fixture
def pool(tmp_path: Path) -> PoolWriter:
    """Writes pools beside the test's other files."""
    return pool_writer(tmp_path)


@pytest.fixture(scope="module")
def shared_pool(tmp_path_factory: pytest.TempPathFactory) -> PoolWriter:
    """Writes pools for the tests of a file."""
    return pool_writer(tmp_path_factory.mktemp("shared"))


LONG = ("test_bounds.py", "test_docs.py", "test_estimator.py", "test_extras.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files that stand last come after the longest: one that is left over at the end runs
    alone."""
    items.sort(key=lambda item: item.nodeid > "tests/flows" and item.path.name not in LONG)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """What was imported is no garbage: each collection would look through it again."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 100)  # a fifteenth as often, which takes half of the time
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests of one file run in one process, those that share a Prefect server in one, too.

    By the names of tests, as marks of groups are lost between pytest 9.2 and xdist 3.8.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            folder = file.rpartition("/")[0]
            return folder if folder.endswith("under_prefect") else file

    return ByFile(config, log)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Results that differ are named, not shown: thousands of files take pytest minutes to print."""
    if op == "==" and _are_files(left) and _are_files(right):
        differing = sorted(k for k in left.keys() | right.keys() if left.get(k) != right.get(k))
        return [f"{len(differing)} of {len(left)} files differ", *differing[:20]]
    return None


def _are_files(value: object) -> TypeGuard[dict[str, bytes]]:
    return isinstance(value, dict) and any(isinstance(one, bytes) for one in value.values())
