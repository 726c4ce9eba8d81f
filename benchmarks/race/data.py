"""The pools of the race, their queries, and the exact neighbors of 2,000 rows of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.knn.exact import nearest
from pipeline.simulate import flip, sheets

N_TRUTH = 2000
SEED = 0


@dataclass(frozen=True)
class Pool:
    """A pool by kind and size; `queries` rows more of the same kind are kept apart."""

    kind: str
    n: int
    queries: int = 0

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.n}"


def features(kind: str, n: int, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """(row, feature) float32 and clean labels (row,) int8.

    Raises
    ------
    FileNotFoundError
        Fashion-MNIST is asked for and its folder is not given.
    """
    if kind.startswith("connected"):
        n_features, n_intrinsic = map(int, kind.split("-")[1:])
        return connected(n, n_features, n_intrinsic)
    if kind.startswith("clusters"):
        return unequal(n, *map(int, kind.split("-")[1:]))
    if kind.startswith("tails"):
        return heavy(n, *map(int, kind.split("-")[1:]))
    if kind == "sheets":
        x, y, _ = sheets(n, SEED)
        return x, y
    if kind.startswith("gauss"):
        x = np.random.default_rng(SEED).normal(size=(n, int(kind.split("-")[1])))
        return x.astype(np.float32), (x[:, 0] > 0).astype(np.int8)
    if folder is None or not (folder / "fashion_mnist.npz").exists():
        raise FileNotFoundError("needs --data FOLDER with fashion_mnist.npz")
    with np.load(folder / "fashion_mnist.npz") as held:
        return held["X"][:n].astype(np.float32), (held["y"][:n] % 2).astype(np.int8)


def connected(n: int, n_features: int, n_intrinsic: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows on one curved surface: a random two-layer network of Gaussian coordinates, plus noise.

    Most data are like this rather than in clusters that lie apart: no cut leaves all neighbors
    together. Returns (row, feature) float32 and clean labels (row,) int8.
    """
    rng = np.random.default_rng([SEED, n_features, n_intrinsic])
    hidden = 3 * n_features // 4
    first = rng.normal(size=(n_intrinsic, hidden)) / np.sqrt(n_intrinsic) * 1.5
    shift = rng.normal(size=hidden)
    second = rng.normal(size=(hidden, n_features)) / np.sqrt(hidden) * 1.5
    x = np.empty((n, n_features), np.float32)
    for a in range(0, n, 100_000):
        z = rng.normal(size=(min(100_000, n - a), n_intrinsic))
        noise = 0.03 * rng.normal(size=(len(z), n_features))
        x[a : a + len(z)] = np.tanh(np.tanh(z @ first + shift) @ second) + noise
    return x, (x[:, 0] > np.median(x[:, 0])).astype(np.int8)


def unequal(n: int, n_features: int, n_intrinsic: int) -> tuple[np.ndarray, np.ndarray]:
    """300 flat clusters of unequal size (a thousandfold) and density (tenfold), some of them in
    each other's way; as `connected` returns it."""
    rng = np.random.default_rng([SEED, n_features, n_intrinsic, 1])
    size = rng.pareto(1.2, 300) + 0.05
    cluster = rng.choice(300, n, p=size / size.sum())
    center, spread = 3.0 * rng.normal(size=(300, n_features)), np.exp(0.7 * rng.normal(size=300))
    span = spread[:, None, None] * rng.normal(size=(300, n_intrinsic, n_features))
    x = np.empty((n, n_features), np.float32)
    for c in range(300):
        rows = np.flatnonzero(cluster == c)
        x[rows] = center[c] + rng.normal(size=(len(rows), n_intrinsic)) @ span[c]
    return x, (cluster % 2).astype(np.int8)


def heavy(n: int, n_features: int, n_intrinsic: int) -> tuple[np.ndarray, np.ndarray]:
    """A curved surface whose coordinates have heavy tails (Student's t of 3 degrees), one row in
    fifty repeated; as `connected` returns it."""
    rng = np.random.default_rng([SEED, n_features, n_intrinsic, 2])
    bend, slope = rng.normal(size=(2, n_intrinsic, n_features))
    x = np.empty((n, n_features), np.float32)
    for a in range(0, n, 100_000):
        z = rng.standard_t(3, (min(100_000, n - a), n_intrinsic))
        x[a : a + len(z)] = z @ slope + np.sin(z @ bend)
    again = rng.permutation(n)[: n // 50]
    x[again] = x[rng.integers(0, n, len(again))]
    return x, (x[:, 0] > np.median(x[:, 0])).astype(np.int8)


def write(pool: Pool, results: Path, folder: Path | None) -> Path:
    """The folder of a pool: pool.npz, queries.npz and truth.npz, made once."""
    made = results / "data" / f"{pool.name}-{pool.queries}"
    if (made / "truth.npz").exists():
        return made
    x, clean = features(pool.kind, pool.n + pool.queries, folder)
    made.mkdir(parents=True, exist_ok=True)
    train, query = x[: pool.n], x[pool.n :]
    np.savez(made / "pool.npz", X=train, y=flip(clean[: pool.n], 0.3, 0.1, SEED))
    np.savez(made / "queries.npz", X=query)
    truth = {}
    for name, asked, own in (("pool", train, True), ("queries", query, False)):
        rows = np.sort(np.random.default_rng(1).permutation(len(asked))[:N_TRUTH])
        exact = nearest(asked[rows], train, 100, exclude=rows if own else None)[1]
        truth |= {f"{name}_row": rows, f"{name}_distance": exact}
    np.savez(made / "truth.npz", **truth)
    return made
