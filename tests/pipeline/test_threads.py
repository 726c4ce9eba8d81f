"""Libraries that are kept from threads of their own."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pipeline.knn.exact import nearest
from pipeline.knn.threads import one_thread


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


def blas_threads() -> list[int]:
    return [of["num_threads"] for of in threadpool_info() if of["user_api"] == "blas"]
