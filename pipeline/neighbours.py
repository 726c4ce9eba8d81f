"""The k nearest neighbours within one block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.audit import row_recall
from pipeline.distance import Float32, rank_lists
from pipeline.merge import ABSENT
from pipeline.refine import refine, spatial_order
from pipeline.search import nearest

BUILDERS = ("auto", "pynndescent", "exact")

_EXACT_PAIR_NS = (2.0, 0.06)
"""Cost of exact search per pair of rows: constant and per feature, ns·core (measured)."""

_EXACT_SECONDS = 30.0
"""Core seconds of exact search below which compiling pynndescent does not pay."""

_EXACT_ROWS = 2000
"""Blocks up to this many rows are searched exactly: no slower, and always right."""

_ROUGH = 0.5
"""Recall of the trees' lists below which refining them costs more than descent."""
_LONGER = 1.5
"""Lists that descent builds, over k: it finds more of the nearest among more."""
_PASSES = 4
_MARGIN = 0.9
"""Share of what may be missed that is used up: measured recalls scatter."""
_TRIED = 100
"""Rows searched exactly to measure the recall of a block."""
_EXPONENTS = 30
"""Powers of two by which the largest feature may be off 1."""
_SPARE = 2
"""Places beyond k: a search in float32 may misplace the last ones."""


@dataclass(frozen=True)
class NeighbourParams:
    """How lists are built."""

    k: int = 30
    """Length of the lists, the row itself excluded."""
    builder: str = "pynndescent"
    """`pynndescent` or `exact`."""
    seed: int = 0
    recall: float = 0.99
    """Share of the neighbours within a block that pynndescent's lists are refined to."""


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
    n_repaired : rows whose list was left short and exact search completed
    """
    if params.builder == "exact" or len(x) <= max(_EXACT_ROWS, params.k + 1):
        index, distance = nearest(x, x, params.k, exclude=np.arange(len(x)))
        return index, distance, 0
    order = spatial_order(x)
    ordered = np.ascontiguousarray(x[order])
    index, distance = rank_lists(
        ordered, ordered, _lists_of_recall(ordered, params), order, params.k
    )
    back = np.argsort(order)
    index, distance = index[back], distance[back]
    short = np.flatnonzero(index[:, -1] == ABSENT)
    if len(short):
        index[short], distance[short] = nearest(x[short], x, params.k, exclude=short)
    return index, distance, len(short)


def _lists_of_recall(x: Float32, params: NeighbourParams) -> npt.NDArray[np.int32]:
    """Lists that hold the share of true neighbours wanted, by the exact ones of some rows, or as
    many as `_PASSES` find.

    Where the leaves of search trees hold most neighbours, refining them is several times cheaper
    than nearest-neighbour descent; where they do not, as in many dimensions, descent comes first.

    x : (row, feature) float32, in spatial order
    """
    from pipeline import descent  # compiled: only those who need it pay for the import

    x = _of_unit_size(x)
    tried = np.linspace(0, len(x) - 1, _TRIED).astype(np.int64)
    _, exact = nearest(x[tried], x, params.k, exclude=tried)

    def recall(lists: npt.NDArray[np.int32], k: int) -> float:
        _, distance = rank_lists(x[tried], x, lists[tried], np.arange(len(x)), k)
        return float(row_recall(distance, exact[:, :k]).mean())

    base = base_length(params.k)
    lists = descent.build(x, base, seed=params.seed, rounds=0)
    if recall(lists, min(base, params.k)) < _ROUGH:
        longer = min(round(_LONGER * params.k), len(x) - 2)
        lists = descent.build(x, longer, seed=params.seed)
    for _ in range(_PASSES):
        if lists.shape[1] > params.k and recall(lists, params.k) >= params.recall:
            break
        lists = refine(x, lists, max(base, params.k + _SPARE))
    return lists


def _of_unit_size(x: Float32) -> Float32:
    """The rows; times a power of two where their squares would leave the range of float32."""
    exponent = int(np.frexp(np.abs(x).max(initial=0.0))[1])
    return x if abs(exponent) <= _EXPONENTS else np.ldexp(x, -exponent)


def base_length(k: int) -> int:
    """Length of the trees' lists: once refined, they hold about .995 of the k nearest neighbours of
    rows on surfaces of 8 dimensions."""
    return 12 + -(-k // 3)


def recall_wanted(target: float, meet: float, attempt: int) -> float:
    """Recall that lists within blocks need where a share `meet` of all neighbours is in them; each
    attempt after the first leaves half of what the one before could miss."""
    miss = (1.0 - target) / 2.0**attempt
    return min(1.0, (1.0 - _MARGIN * miss) / max(meet, 1.0 - miss))
