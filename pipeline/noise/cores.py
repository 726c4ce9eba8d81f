"""The core of a class: rows of it amid rows of it, by votes that uneven mistakes do not move."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from pipeline.knn.lists import ABSENT
from pipeline.knn.rows import nearest_rows

NEAR = 20
"""Anchors around a row that must all be likeliest of its class."""
AMONG = 4000
"""Anchors among which these are searched at most."""


def near_anchors(x: NDArray[np.floating]) -> NDArray[np.int64]:
    """The nearest anchors of each, among at most `AMONG` of them, evenly spaced.

    Each dense column counts by its standard deviation, so that units do not matter.

    Parameters
    ----------
    x : (anchor, feature), dense or CSR, finite

    Returns
    -------
    (anchor, rank) int64 places of anchors, nearest first, itself left out; ABSENT where there are
    no more
    """
    n = x.shape[0]
    among = np.linspace(0, n - 1, min(n, AMONG)).astype(np.int64)
    own = np.searchsorted(among, np.arange(n))
    own[among[np.minimum(own, len(among) - 1)] != np.arange(n)] = ABSENT
    k = min(NEAR, len(among) - 1)
    if not issparse(x):
        spread = x.std(axis=0, dtype=np.float64)
        x = np.ascontiguousarray(x / np.where(spread > 0, spread, 1.0), np.float32)
    nearest, _ = nearest_rows(x, x[among], k, exclude=own)
    return np.where(nearest == ABSENT, ABSENT, among[nearest])


def in_core(chance: NDArray[np.float64], near: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(anchor,) which anchors are likelier of the class than not, as are all those near them.

    Where classes overlap this is seldom so; where a class is by itself it is, however many of its
    labels are wrong, as long as they are fewer than half.
    """
    surely = chance >= 0.5
    return np.asarray(surely & (surely[near] | (near == ABSENT)).all(axis=1))
