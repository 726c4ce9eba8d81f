"""Algorithm 2 on Fashion-MNIST, even against odd classes flipped at (0.3, 0.1), against a twin that
computes every distance.

    python benchmarks/algorithm2.py fashion_mnist.npz
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from flows.train import train
from pipeline.simulate import flip

K, SEED = 30, 0


def twin(x: np.ndarray, y: np.ndarray, k: int) -> tuple[float, float]:
    """Steps 1 and 2 of Algorithm 2 by brute force in float64, the row itself first."""
    values, norm = x.astype(np.float64), np.square(x.astype(np.float64)).sum(axis=1)
    low, high = 1.0, 0.0
    for start in range(0, len(x), 500):
        rows = np.arange(start, min(start + 500, len(x)))
        squared = norm[rows, None] + norm - 2.0 * values[rows] @ values.T
        squared[np.arange(len(rows)), rows] = -1.0
        distance = np.sqrt(np.maximum(squared, 0)).astype(np.float32)
        distance[np.arange(len(rows)), rows] = -1.0
        near = np.argsort(distance, axis=1, kind="stable")[:, :k]
        eta = y[near].mean(axis=1)
        low, high = min(low, eta.min()), max(high, eta.max())
    return low, 1.0 - high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=int, default=60_000)
    args = parser.parse_args()
    with np.load(args.file) as data:
        x, y = data["X"][: args.rows].astype(np.float32), (data["y"][: args.rows] % 2).astype("i1")
    given = flip(y, 0.3, 0.1, SEED)
    start = time.perf_counter()
    expected = twin(x, given, K)
    print(f"brute force: p0, p1 = {expected}, {time.perf_counter() - start:.0f} s")
    with tempfile.TemporaryDirectory() as work:
        np.savez(Path(work) / "pool.npz", X=x, y=given)
        for builder in ("exact", "pynndescent"):
            told = train.fn(
                f"{work}/pool.npz",
                f"{work}/{builder}",
                noise="minmax",
                builder=builder,
                k=K,
                target_recall=0.95,
            )
            found = told["p0"], told["p1"]
            off = max(abs(a - b) for a, b in zip(found, expected, strict=True))
            print(
                f"{builder}: p0, p1 = {found}, off by {off:.2g} (1/k = {1 / K:.3f}), recall "
                f"{told['recall']:.4f}, {sum(told['seconds'].values()):.0f} s, "
                f"{told['n_blocks']} blocks, equal: {found == expected}"
            )


if __name__ == "__main__":
    main()
