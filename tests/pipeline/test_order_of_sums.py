"""Distances so near the middle of two float32 values that the order of their sum decides."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from pipeline.knn.distance import pair_distance, rank_lists
from pipeline.knn.exact import nearest
from pipeline.knn.lists import Neighbors, merge

Rows = npt.NDArray[np.float32]
WIDTHS = (4, 5, 8, 11, 16, 23, 32, 64, 130)


def undecided(n: int, d: int, seed: int = 0) -> Rows:
    """(n, d) rows whose distance from the origin is the middle of two float32 values, as nearly as
    float64 can tell: three features make up what the others leave."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)).astype(np.float32)
    for row in rows:
        known = sum((Fraction(float(value)) ** 2 for value in row[3:]), Fraction(0))
        near = np.float32(np.sqrt(float(known)) + rng.random() + 0.5)
        middle = (Fraction(float(near)) + Fraction(float(np.nextafter(near, np.float32(9e9))))) / 2
        left = middle**2 - known
        for place in range(3):
            value = np.float32(np.sqrt(float(left)))
            while Fraction(float(value)) ** 2 > left:
                value = np.nextafter(value, np.float32(0))
            row[place] = value
            left -= Fraction(float(value)) ** 2
        rng.shuffle(row)
    return rows


def in_order(apart: Rows) -> Rows:
    """The distances by the documented order: eight lanes, halves folded, then the rest."""
    square = np.square(apart.astype(np.float64))
    whole = apart.shape[1] // 8 * 8
    lanes = np.zeros((len(apart), 8))
    for start in range(0, whole, 8):
        lanes += square[:, start : start + 8]
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    total = lanes[:, 0]
    for feature in range(whole, apart.shape[1]):
        total = total + square[:, feature]
    return np.sqrt(total).astype(np.float32)


def by_each_kernel(x: Rows) -> list[Rows]:
    """The distance of each row from the origin, by all kernels that tell one."""
    origin, every = np.zeros((1, x.shape[1]), np.float32), np.arange(len(x))
    none = np.zeros(len(x), np.int64)
    ranked = [rank_lists(x, origin, none[:, None], none[:1], 1)[1][:, 0]]
    ranked.append(rank_lists(origin, x, every[None], every, len(x))[1][0])
    found, distance = nearest(origin, np.concatenate([x, x + 100.0]), len(x))
    back = np.empty(len(x), np.float32)
    back[found[0]] = distance[0]
    order = np.argsort(in_order(x), kind="stable")
    ranked[1] = ranked[1][np.argsort(order)]
    return [
        pair_distance(x, origin, every, none),
        pair_distance(origin, x, none, every),
        *ranked,
        back,
    ]


@pytest.mark.parametrize("d", WIDTHS)
def test_every_kernel_sums_in_one_order(d: int) -> None:
    x = undecided(600, d)
    expected = in_order(x)
    for distance in by_each_kernel(x):
        assert np.array_equal(distance, expected)


def test_the_order_decides_such_distances() -> None:
    x = undecided(600, 32)
    assert (in_order(x) != in_order(np.ascontiguousarray(x[:, ::-1]))).any()


def test_no_row_is_twice_in_a_merged_list() -> None:
    """One list by pairs, one by ranking: a row with two distances would stand in both places."""
    x = undecided(600, 32)
    origin, every = np.zeros((1, 32), np.float32), np.arange(600)
    label = np.zeros((2, 400), np.int8)
    by_pairs, by_rank = nearest(origin, x, 400), rank_lists(origin, x, every[None], every, 400)
    row, distance = (np.concatenate(both) for both in zip(by_pairs, by_rank, strict=True))
    (merged,) = merge(np.zeros(2, np.int64), Neighbors(row, distance, label), 1).row.tolist()
    assert len(set(merged)) == 400


def digest() -> str:
    """Of the distances of all widths."""
    every = np.concatenate([np.concatenate(by_each_kernel(undecided(60, d))) for d in WIDTHS])
    return blake2b(every.tobytes(), digest_size=16).hexdigest()


@pytest.mark.parametrize("cpu", ["generic", "core2", "haswell"])
def test_every_cpu_sums_in_one_order(cpu: str, tmp_path: Path) -> None:
    """Compiled for CPUs with vectors of two and of four doubles, with and without fused sums."""
    code = "import test_order_of_sums as t; print(t.digest())"
    env = {
        **os.environ,
        "NUMBA_CPU_NAME": cpu,
        "NUMBA_CPU_FEATURES": "+avx2,+fma" if cpu == "haswell" else "",
        "NUMBA_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    told = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert told.stdout.strip() == digest()
