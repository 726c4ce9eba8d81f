"""Given labels of many kinds for any number of classes: of the class alone, and of the features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int = NDArray[np.int64]
Floats = NDArray[np.float64]
KINDS = ("uniform 0.2", "uniform 0.4", "class", "slope", "boundary")
"""`uniform`: to all other classes alike; `class`: a rate and a direction per class; `slope`: the
rate grows along a random direction of the features; `boundary`: it grows with the share of other
classes among 30 neighbors. The last two send a label to the class most frequent nearby, otherwise
to a random one."""
LEVEL = 0.2
"""Mean rate of the last three."""


def class_matrix(kind: str, classes: int, seed: int) -> Floats:
    """(true, given) matrix of the first three kinds."""
    rng = np.random.default_rng([23, classes, seed])
    off = np.zeros((classes, classes))
    for row in range(classes):
        others = np.delete(np.arange(classes), row)
        if kind.startswith("uniform"):
            off[row, others] = float(kind.split()[1]) / len(others)
        elif classes == 2:
            off[row, others] = LEVEL * (1.5, 0.5)[row]
        else:
            share = LEVEL * rng.uniform(0.5, 1.5)
            off[row, others] = share * rng.dirichlet(np.full(len(others), 0.5))
    return np.asarray(off + np.diag(1.0 - off.sum(axis=1)))


def flipped(y: Int, matrix: Floats, rng: np.random.Generator) -> Int:
    """(row,) given labels by a (true, given) matrix; takes a number of `rng` a row."""
    step = np.cumsum(matrix, axis=1)[y]
    return np.asarray((rng.random(len(y))[:, None] >= step).sum(axis=1).clip(0, len(matrix) - 1))


def corrupted(kind: str, x: NDArray[np.float32], near: Int, y: Int, seed: int) -> Int:
    """(row,) given labels; ``near`` is (row, rank) neighbors without the row itself."""
    classes, rng = int(y.max()) + 1, np.random.default_rng([31, KINDS.index(kind), len(y), seed])
    if kind not in ("slope", "boundary"):
        return flipped(y, class_matrix(kind, classes, seed), rng)
    around = y[near[:, :30]]
    share = np.stack([(around == c).mean(axis=1) for c in range(classes)], axis=1)
    share += 1e-3 * rng.random(share.shape)
    share[np.arange(len(y)), y] = -1.0
    if kind == "slope":
        z = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9) @ rng.normal(size=x.shape[1])
        rate = 2.0 * LEVEL * _ranks(z)
    else:
        rate = np.minimum(0.9, 3.0 * LEVEL * _ranks(share.max(axis=1)) ** 2)
    return np.where(rng.random(len(y)) < rate, share.argmax(axis=1), y)


def _ranks(value: Floats) -> Floats:
    return np.asarray(np.argsort(np.argsort(value, kind="stable"), kind="stable") / len(value))
