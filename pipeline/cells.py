"""Search within a block for rows from outside it: small cells, of which the nearest are scanned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from pipeline.audit import row_recall
from pipeline.distance import Float32, pair_distance, rank_lists
from pipeline.merge import ABSENT
from pipeline.partition import fit_centroids, nearest_blocks
from pipeline.search import nearest

CELL_ROWS = 256
"""Rows to a cell, about."""
_PAYS = 16
"""Rows to a query up to which dividing a block costs less than searching all of it."""
_SAMPLED = 24
"""Rows to a cell that centres are fitted to."""
_TRIED = 256
"""Queries searched exactly, to choose how many cells are scanned."""
_SPARE = 4
"""Finalists beyond k: a scan in float32 may misplace the last ones."""

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cells:
    """The rows of one block in the order of their cells."""

    row: Int64
    """(row,) number in the block."""
    x: Float32
    """(row, feature)"""
    radius: Float32
    """(row,) distance from the cell's centre, ascending within a cell."""
    start: Int64
    """(cell + 1,) first row of each cell."""
    centroid: Float32
    """(cell, feature)"""


def nearest_in_block(query: Float32, x: Float32, k: int, recall: float) -> tuple[Int64, Float32]:
    """The k nearest rows of a block for each query: exactly, or where there are many of both by
    as many cells as a share `recall` of the true neighbours takes.

    Parameters and results are those of ``search.nearest``.
    """
    if recall < 1.0 and len(x) > 16 * CELL_ROWS and len(query) * _PAYS > len(x):
        cells = divide(x, 0)
        n_cells = cells_enough(query, cells, k, recall)
        if n_cells < len(cells.centroid):
            return search(query, cells, k, n_cells)
    return nearest(query, x, k)


def divide(x: Float32, seed: int) -> Cells:
    """Cells of about `CELL_ROWS` rows; x : (row, feature) float32, at least one row."""
    n_cells = max(1, len(x) // CELL_ROWS)
    drawn = np.random.default_rng([seed, 7]).permutation(len(x))[: n_cells * _SAMPLED]
    centroid = fit_centroids(x[np.sort(drawn)], n_cells, seed)
    cell = nearest_blocks(x, centroid, 1)[0][:, 0]
    radius = pair_distance(x, centroid, np.arange(len(x)), cell)
    row = np.lexsort((radius, cell))
    start = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=len(centroid)))])
    return Cells(row, np.ascontiguousarray(x[row]), radius[row], start, centroid)


def search(query: Float32, cells: Cells, k: int, n_cells: int) -> tuple[Int64, Float32]:
    """About the k nearest rows of each query: those of the `n_cells` cells of nearest centre.

    Parameters
    ----------
    query : (query, feature) float32, finite

    Returns
    -------
    index : (query, k) int64 rows of the block, nearest first, ties by row; ABSENT where fewer were
        scanned
    distance : (query, k) float32, exact; inf where ABSENT
    """
    near, to_centre = nearest_blocks(query, cells.centroid, n_cells)
    place = np.full((len(query), k + _SPARE), ABSENT, np.int64)
    order = np.argsort(near[:, 0], kind="stable")  # neighbours in a row read the same cells
    _scan(query, order, near, to_centre, cells.start, cells.x, cells.radius, place)
    return rank_lists(query, cells.x, place, cells.row, k)


def cells_enough(query: Float32, cells: Cells, k: int, recall: float) -> int:
    """Fewest cells, in steps of about one half, whose scan finds a share of the k nearest.

    All cells where none do.

    Parameters
    ----------
    query : (query, feature) float32; of many, evenly spread ones are searched exactly
    recall : share of true neighbours wanted
    """
    tried = query[np.linspace(0, len(query) - 1, min(len(query), _TRIED)).astype(np.int64)]
    _, exact = nearest(tried, cells.x, k)
    n_cells = 2
    while n_cells < len(cells.centroid):
        if row_recall(search(tried, cells, k, n_cells)[1], exact).mean() >= recall:
            return n_cells
        n_cells += n_cells // 2
    return len(cells.centroid)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def _scan(
    query: Float32,
    order: Int64,
    near: npt.NDArray[np.int32],
    to_centre: Float32,
    start: Int64,
    x: Float32,
    radius: Float32,
    place: Int64,
) -> None:
    """Places in `x` of the nearest rows of the cells named; finite features only.

    By the triangle inequality a row is no nearer than the difference of its radius and the query's
    distance from their centre: rows for which that is too much are passed over.
    """
    width = place.shape[1]
    far = np.empty(width, np.float32)
    for q in order:
        far[:] = np.inf
        reach = np.float32(np.inf)
        for c in range(near.shape[1]):
            centre = to_centre[q, c]
            for r in range(start[near[q, c]], start[near[q, c] + 1]):
                if radius[r] < centre - reach:
                    continue
                if radius[r] > centre + reach:
                    break
                d = np.float32(0.0)
                for f in range(x.shape[1]):
                    apart = query[q, f] - x[r, f]
                    d += apart * apart
                if d < far[width - 1]:
                    at = width - 1
                    while at > 0 and far[at - 1] > d:
                        far[at] = far[at - 1]
                        place[q, at] = place[q, at - 1]
                        at -= 1
                    far[at] = d
                    place[q, at] = r
                    reach = np.sqrt(far[width - 1])
