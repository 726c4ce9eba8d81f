"""Libraries that are kept from threads and warnings of their own."""

from __future__ import annotations

import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble._hist_gradient_boosting import binning
from threadpoolctl import threadpool_info, threadpool_limits

from pipeline.blocks.logits import fit_forests
from pipeline.knn.exact import nearest
from pipeline.knn.threads import Threads, one_thread


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_one_thread_lasts_until_the_last_has_left(order: tuple[int, ...]) -> None:
    """As parts of a worker of several threads, which begin and end whenever they do."""
    leave, left = [threading.Event() for _ in order], [threading.Event() for _ in order]
    entered = threading.Semaphore(0)

    def work(i: int) -> list[int]:
        with one_thread():
            entered.release()
            leave[i].wait(30)
            counts = blas_threads()
        left[i].set()
        return counts

    with threadpool_limits(3, user_api="blas"), ThreadPoolExecutor(len(order)) as threads:
        before = blas_threads()
        done = []
        for i in range(len(order)):
            done.append(threads.submit(work, i))
            entered.acquire(timeout=30)
        for i in order:
            leave[i].set()
            left[i].wait(30)
        assert [set(part.result()) for part in done] == [{1}] * len(order)
        assert blas_threads() == before
    assert set(before) == {3}


def test_searches_beside_each_other_leave_libraries_their_threads() -> None:
    x = np.random.default_rng(0).normal(size=(900, 6)).astype(np.float32)
    with threadpool_limits(3, user_api="blas"), ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda _: nearest(x, x, 5), range(12)))
        assert set(blas_threads()) == {3}


def test_fits_beside_each_other_leave_warnings_as_they_were(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """Each of scikit-learn's sets the filters of the process anew, and gives back those it came
    upon."""
    find = binning._find_binning_thresholds

    def slowly(*args: Any, **more: Any) -> Any:
        time.sleep(0.005)
        return find(*args, **more)

    monkeypatch.setattr(binning, "_find_binning_thresholds", slowly)
    x, before = np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32), warnings.filters
    held = list(before)
    assert fit_forests(x, (x[:, 0] > 0).astype(np.int64), 0, Threads(2)) is not None
    assert warnings.filters is before
    assert before == held
    assert not recwarn.list


def blas_threads() -> list[int]:
    return [of["num_threads"] for of in threadpool_info() if of["user_api"] == "blas"]


def test_a_call_is_made_beside_a_block_or_when_its_result_is_taken() -> None:
    begun = threading.Barrier(2, timeout=60)
    with Threads(2).beside(begun.wait) as result:
        here = begun.wait()
    assert {here, result()} == {0, 1}
    calls: list[int] = []
    with Threads(1).beside(lambda: calls.append(1)) as taken:
        assert not calls
    taken()
    assert calls == [1]
    with pytest.raises(ZeroDivisionError), Threads(2).beside(lambda: 2):
        1 // 0  # noqa: B018
    with Threads(2).beside(lambda: 1 // 0) as never:
        pass
    with pytest.raises(ZeroDivisionError):
        never()
