"""The k nearest neighbours within one block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.distance import Float32, list_distance
from pipeline.merge import ABSENT
from pipeline.search import nearest

BUILDERS = ("auto", "pynndescent", "exact")

_EXACT_PAIR_NS = (2.0, 0.06)
"""Cost of exact search per pair of rows: constant and per feature, ns·core (measured)."""

_EXACT_SECONDS = 30.0
"""Core seconds of exact search below which compiling pynndescent does not pay."""

_EXACT_ROWS = 2000
"""Blocks up to this many rows are searched exactly: no slower, and always right."""


@dataclass(frozen=True)
class NeighbourParams:
    """How lists are built."""

    k: int = 30
    """Length of the lists, the row itself excluded."""
    builder: str = "pynndescent"
    """`pynndescent` or `exact`."""
    effort: int = 0
    """Each step up adds search trees and candidates to pynndescent."""
    seed: int = 0


def choose_builder(builder: str, n_rows: int, n_features: int) -> str:
    """What `auto` stands for: exact search where it costs less than compiling pynndescent."""
    if builder != "auto":
        return builder
    return "exact" if exact_seconds(n_rows, n_features) <= _EXACT_SECONDS else "pynndescent"


def exact_seconds(n_rows: int, n_features: int) -> float:
    """About how many core seconds exact search of a whole pool takes."""
    return n_rows**2 * (_EXACT_PAIR_NS[0] + _EXACT_PAIR_NS[1] * n_features) * 1e-9


def build_lists(x: Float32, params: NeighbourParams) -> tuple[npt.NDArray[np.int64], Float32, int]:
    """Neighbour lists of all rows of a block among the rows of that block.

    Parameters
    ----------
    x : (row, feature) float32, finite

    Returns
    -------
    index : (row, k) rows of the block, nearest first, ties by row, self excluded, ABSENT at the
        end where the block has no more rows
    distance : (row, k) float32, the exact distance of each; inf where ABSENT
    n_repaired : rows whose list pynndescent left short and exact search completed
    """
    if params.builder == "exact" or len(x) <= max(_EXACT_ROWS, params.k + 1):
        index, distance = nearest(x, x, params.k, exclude=np.arange(len(x)))
        return index, distance, 0
    from pipeline import descent  # compiled: only those who need it pay for the import

    raw = descent.build(x, params.k + 1, seed=params.seed, effort=params.effort)
    index, distance = _without_self(raw, list_distance(x, x, raw), params.k)
    short = np.flatnonzero(index[:, -1] == ABSENT)
    if len(short):
        index[short], distance[short] = nearest(x[short], x, params.k, exclude=short)
    return index, distance, len(short)


def _without_self(
    index: npt.NDArray[Any], distance: Float32, k: int
) -> tuple[npt.NDArray[np.int64], Float32]:
    """Lists by (distance, row) without the row itself, cut to k; repeated rows become ABSENT."""
    index = index.astype(np.int64)
    distance = np.where(index == np.arange(len(index))[:, None], np.float32(np.inf), distance)
    order = np.lexsort((index, distance), axis=1)
    index = np.take_along_axis(index, order, axis=1)
    distance = np.take_along_axis(distance, order, axis=1)
    index[np.isinf(distance)] = ABSENT
    return np.ascontiguousarray(index[:, :k]), np.ascontiguousarray(distance[:, :k])
