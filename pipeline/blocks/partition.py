"""Spatial blocks: centers from a sample, the home of each row, and the regions it is copied to.

A region is the blocks whose rows are searched together. A copy of a row is in every other region
that is about as near as its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Bools, Float32, Int32, Int64
from pipeline.knn.exact import nearest

MAX_COPIES = 8
"""Blocks that a row can be in at most, and nearest centers that `nearest_blocks` keeps."""

_ROUNDS = 30
_LLOYD = 8


@dataclass(frozen=True)
class Halo:
    """Which regions a row is copied to: the nearest ones, at most `copies` with its own, that have
    a center at most (1 + eps) times as far as that of its home block. Queries go to such blocks."""

    eps: float
    copies: int


def nearest_blocks(x: Float32, centroid: Float32, width: int = MAX_COPIES) -> tuple[Int32, Float32]:
    """The `width` nearest centers of each row, nearest first, ties by block; exact, so that a row
    has the same home whatever rows come with it.

    Parameters
    ----------
    x : (row, feature) float32
    centroid : (block, feature) float32

    Returns
    -------
    block : (row, min(width, blocks)) int32
    distance : the same shape, float32
    """
    block, distance = nearest(x, centroid, min(width, len(centroid)))
    return block.astype(np.int32), distance


def nearest_regions(block: Int32, distance: Float32, region: Int32) -> tuple[Int32, Float32]:
    """The regions of each row's nearest blocks, each as far as its nearest block.

    Parameters
    ----------
    block, distance : (row, width) as `nearest_blocks` gives them
    region : (block,) the region that each is of

    Returns
    -------
    region : (row, width), nearest first; repeated ones are at the end, infinitely far
    distance : the same shape, float32
    """
    of = region[block]
    again = np.zeros(of.shape, np.bool_)
    for place in range(1, of.shape[1]):
        again[:, place] = (of[:, :place] == of[:, place : place + 1]).any(axis=1)
    if not again.any():
        return of, distance
    order = np.argsort(again, axis=1, kind="stable")
    far = np.where(again, np.float32(np.inf), distance)
    return np.take_along_axis(of, order, axis=1), np.take_along_axis(far, order, axis=1)


def fit_regions(centroid: Float32, rows: Int64, n_regions: int, seed: int) -> Int32:
    """Regions of blocks that are near each other, with about equally many rows: blocks are halved
    again and again between two means.

    Parameters
    ----------
    centroid : (block, feature) float32
    rows : (block,) rows of each, in proportion
    n_regions : regions wanted; a block at least is in each

    Returns
    -------
    (block,) int32, numbers from 0 without gaps
    """
    rng = np.random.default_rng([seed, 0x9A28])
    region = np.zeros(len(centroid), np.int32)
    left, number = [(np.arange(len(centroid)), min(n_regions, len(centroid)))], 0
    while left:
        blocks, parts = left.pop()
        if parts == 1:
            region[blocks] = number
            number += 1
            continue
        side = _sides(centroid[blocks], rng)
        order = blocks if side is None else blocks[np.argsort(side, kind="stable")]
        before, fewer = np.cumsum([0, *rows[order].tolist()]), parts // 2
        cut = int(np.abs(before - before[-1] * fewer / parts).argmin())
        cut = min(max(cut, fewer), len(blocks) - (parts - fewer))
        left += [(order[cut:], parts - fewer), (order[:cut], fewer)]
    return region


def in_halo(distance: Float32, halo: Halo) -> Bools:
    """(row, width) which of a row's nearest regions hold it; column 0, its home, always."""
    inside = distance <= (1.0 + halo.eps) * distance[:, :1]
    inside[:, halo.copies :] = False
    inside[:, 0] = True
    return inside


def fit_centroids(sample: Float32, n_blocks: int, seed: int) -> Float32:
    """Centers of blocks of about equal size, from a uniform sample of the rows.

    A tree of 2-means splits, largest leaf first; then cells of the centers that came out much
    larger than the mean are split again and much smaller ones given up.

    Parameters
    ----------
    sample : (row, feature) float32
    n_blocks : blocks wanted; at most one in four sampled rows is made a center

    Returns
    -------
    (block, feature) float32; about `n_blocks`, fewer where rows coincide
    """
    rng = np.random.default_rng([seed, 0x9A27])
    n_blocks = max(1, min(n_blocks, len(sample) // 4))
    leaves = [sample]
    while len(leaves) < n_blocks:
        largest = max(range(len(leaves)), key=lambda i: len(leaves[i]))
        halves = _split(leaves[largest], rng)
        if halves is None:
            break
        leaves[largest : largest + 1] = halves
    centroid = np.stack([leaf.mean(axis=0) for leaf in leaves])
    for _ in range(_ROUNDS):
        evened = _even_out(sample, centroid, n_blocks, rng)
        if evened is None:
            break
        centroid = evened
    return centroid


def _split(rows: Float32, rng: np.random.Generator) -> list[Float32] | None:
    """Two halves by 2-means, none below a quarter; None where all rows coincide."""
    side = _sides(rows, rng)
    if side is None:
        return None
    order = np.argsort(side, kind="stable")
    cut = int(np.clip((side <= 0).sum(), len(rows) // 4, len(rows) - len(rows) // 4))
    return [rows[order[:cut]], rows[order[cut:]]] if 0 < cut < len(rows) else None


def _sides(rows: Float32, rng: np.random.Generator) -> Float32 | None:
    """(row,) how far each is beyond the middle between two means, on the line through them; None
    where all rows coincide."""
    first = rows[rng.integers(len(rows))]
    far = np.einsum("ij,ij->i", rows - first, rows - first)
    if not far.max() > 0:
        return None
    a, b = first, rows[int(far.argmax())]
    for _ in range(_LLOYD):
        side = (rows - (a + b) / 2) @ (b - a)
        right = side > 0
        if right.all() or not right.any():
            break
        a, b = rows[~right].mean(axis=0), rows[right].mean(axis=0)
    return np.asarray((rows - (a + b) / 2) @ (b - a), np.float32)


def _even_out(
    sample: Float32, centroid: Float32, n_blocks: int, rng: np.random.Generator
) -> Float32 | None:
    """Split cells above 1.4 times the mean size and drop those below a fifth; None if even."""
    home = nearest_blocks(sample, centroid, 1)[0][:, 0]
    size = np.bincount(home, minlength=len(centroid))
    mean = len(sample) / n_blocks
    large = np.flatnonzero(size > 1.4 * mean)
    small = size < 0.2 * mean if len(centroid) > 1 else np.zeros(1, bool)
    split = {int(b): _split(sample[home == b], rng) for b in large}
    made = [np.median(half, axis=0) for halves in split.values() if halves for half in halves]
    gone = small | np.isin(np.arange(len(centroid)), [b for b, halves in split.items() if halves])
    if not gone.any():
        return None
    kept = centroid[~gone]
    return np.concatenate([kept, np.stack(made)]) if made else kept


def share_together(a: tuple[Int32, Float32], b: tuple[Int32, Float32], halo: Halo) -> float:
    """Share of pairs that are together in some region: the ceiling of recall under a halo.

    a, b : `nearest_regions` of the two rows of each pair
    """
    both = in_halo(a[1], halo)[:, :, None] & in_halo(b[1], halo)[:, None, :]
    same = a[0][:, :, None] == b[0][:, None, :]
    return float((same & both).any(axis=(1, 2)).mean())


def share_probed(query: tuple[Int32, Float32], home: Int32, probed: Halo) -> float:
    """Share of pairs whose query probes the block that the row is at home in.

    query : `nearest_blocks` of the first of each pair
    home : (pair,) block of the second
    """
    same = query[0] == home[:, None]
    return float((same & in_halo(query[1], probed)).any(axis=1).mean())


def spread(region: Int32, distance: Float32, halo: Halo) -> tuple[Int64, Int32, Bools]:
    """Copies of rows to send to regions, or of queries to blocks.

    Returns
    -------
    (copy,) row number, region, and whether it is the row's home
    """
    inside = in_halo(distance, halo)
    row, place = np.nonzero(inside)
    return row, region[row, place], place == 0
