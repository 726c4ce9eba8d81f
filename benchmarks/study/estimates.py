"""Four estimators of the noise rates on the same neighbor lists."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from bqlearn.metrics import anchor_transition_matrix
from cleanlab.count import estimate_py_and_noise_matrices_from_probabilities
from numpy.typing import NDArray

from benchmarks.study.lists import Anchors
from pipeline.noise.extrema import minmax

K_MINMAX, K_PEERS = 100, 50
"""Neighbors of `minmax` (the row itself included) and of the peers' leave-one-out chances."""
METHODS = ("minmax", "crossfit", "cleanlab", "biquality")


def leave_one_out(
    near: NDArray[np.int64], given: NDArray[np.integer], classes: int
) -> NDArray[np.float64]:
    """(row, class) shares of given labels among each row's K_PEERS nearest others."""
    labels = given[near[:, 1 : K_PEERS + 1]]
    return np.stack([(labels == c).mean(axis=1) for c in range(classes)], axis=1)


def cleanlab_matrix(chances: NDArray[np.float64], given: NDArray[np.integer]) -> Any:
    """(true, given) row-stochastic matrix by cleanlab, whose own has columns that add up to 1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = estimate_py_and_noise_matrices_from_probabilities(given.astype(np.int64), chances)
    return np.asarray(answer[1]).T


def estimate(anchors: Anchors, given: NDArray[np.int8]) -> dict[str, Any]:
    """(p0, p1) of every method, and what `crossfit` says about its own."""
    near = anchors.near
    chances = leave_one_out(near, given, 2)
    k = min(K_MINMAX, near.shape[1])
    plain = minmax(given[near[:, :k]].mean(axis=1), k)
    peers = {
        "cleanlab": cleanlab_matrix(chances, given[near[:, 0]]),
        "biquality": anchor_transition_matrix(chances),
    }
    ours = anchors.rates(given)
    found = {name: [float(m[0, 1]), float(m[1, 0])] for name, m in peers.items()}
    told = ours.diagnostics
    return {
        "minmax": [plain.p0, plain.p1],
        "crossfit": [ours.p0, ours.p1],
        **found,
        "support": ours.support,
        "reason": ours.reason,
        "intervals": [list(ours.p0_interval), list(ours.p1_interval)],
        "sides": [told.get("p0"), told.get("p1")],
        "range": told.get("range"),
    }
