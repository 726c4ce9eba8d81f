"""Seeded pools that papers describe, whose truth is known."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.simulate import Sample


def reeve_kaban(n: int, p0: float, p1: float, seed: int) -> Sample:
    """The example of §5 of Reeve & Kabán 2019, on which plain kNN is inconsistent.

    x is uniform on [0, 1]; eta is 3x/2 up to 2m/3, m on the plateau up to (2m+1)/3 and (3x-1)/2
    above, with ``m = (2 - 3 p0 - p1) / (4 (1 - p0 - p1))``. Where p0 and p1 differ, m lies on the
    other side of 1/2 than the given labels' average there.

    Returns
    -------
    x : (row, 1) float32; y : (row,) int8 clean labels; eta : (row,) float64, P(y = 1 | x)
    """
    m = (2.0 - 3.0 * p0 - p1) / (4.0 * (1.0 - p0 - p1)) if p0 + p1 < 1.0 else -1.0
    if not (0.0 <= p0 <= 1.0 and 0.0 <= p1 <= 1.0 and 0.0 <= m <= 1.0):
        raise ValueError(f"p0={p0}, p1={p1}: need rates with p0 + p1 < 1 and a plateau in [0, 1]")
    rng = np.random.default_rng([seed, 4])
    x = rng.random((n, 1)).astype(np.float32)
    at = x[:, 0].astype(np.float64)
    eta = np.clip(1.5 * at, None, m) + np.clip(1.5 * at - (m + 0.5), 0.0, None)
    return x, (rng.random(n) < eta).astype(np.int8), eta


def gao(n: int, seed: int) -> Sample:
    """The synthetic study of Gao, Yang & Zhou, Fig. 1: uniform on the unit square.

    ``eta = (1 - sin(2 pi x1) sin(2 pi x2)) / 2``.

    Returns
    -------
    x : (row, 2) float32; y : (row,) int8 clean labels; eta : (row,) float64, P(y = 1 | x)
    """
    rng = np.random.default_rng([seed, 5])
    x = rng.random((n, 2)).astype(np.float32)
    eta = (1.0 - np.prod(np.sin(2.0 * np.pi * x.astype(np.float64)), axis=1)) / 2.0
    return x, (rng.random(n) < eta).astype(np.int8), eta


def cube(n: int, seed: int) -> Sample:
    """The test of Bax, Weng & Tian 2019: uniform on [-1, 1]³, octants of two classes in turn.

    Class 1 where an even number of coordinates is negative; the paper flips each label with
    probability 0.1 (`flip`).

    Returns
    -------
    x : (row, 3) float32; y : (row,) int8 clean labels; eta : (row,) float64, which is y
    """
    x = np.random.default_rng([seed, 6]).uniform(-1.0, 1.0, (n, 3)).astype(np.float32)
    y = ((x < 0).sum(axis=1) % 2 == 0).astype(np.int8)
    return x, y, y.astype(np.float64)


def bags(
    y: npt.NDArray[np.integer], cluster: npt.NDArray[np.integer], c: int, noise: float, seed: int
) -> npt.NDArray[np.bool_]:
    """(row, c) bool candidate sets of Errandonea et al., section 4.1.

    Each wrong class joins a row's set with a probability of the row's class and cluster, drawn
    uniformly from [0, 0.8]; the row's class is always in it. With probability ``noise`` the class
    is first replaced by a uniform one. ``y`` (row,) classes; ``cluster`` (row,) from 0 (the paper
    has five).
    """
    rng = np.random.default_rng([seed, 7])
    joins = rng.uniform(0.0, 0.8, (int(cluster.max()) + 1, c))
    moved = rng.random(len(y)) < noise
    true = np.where(moved, rng.integers(0, c, len(y)), y)
    candidate: npt.NDArray[np.bool_] = rng.random((len(y), c)) < joins[cluster, true][:, None]
    candidate[np.arange(len(y)), true] = True
    return candidate
