"""Neighbor lists made better by local joins: rows that are probably near are compared with each
other, and each row keeps the nearest.

Probably near are the rows of a cell of a carving, those of a group and of their lists, and a row's
neighbors and their neighbors (Dong, Charikar & Li 2011). Distances are squared and of float32, so
the last places of a list may go to rows that are a rounding error farther; for exact lists, a few
more than k of these finalists are ranked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from pipeline.arrays import Bools, Float32, Int8, Int32, Int64, Integers, UInt8
from pipeline.graph.carving import Cells
from pipeline.knn.distance import prefetch
from pipeline.knn.lists import ABSENT
from pipeline.knn.quantized import AXES, Quantized, most
from pipeline.knn.threads import ALONE, PIECE_ROWS, Threads

SPARE = 2
"""Places of a list beyond k: a search in float32 may misplace the last ones."""
_CHUNK = 2048
"""Candidates compared by one matrix product."""
_GLANCE = 16
"""Values looked at together before any is looked at alone."""
_AHEAD = 16
"""Candidates between the one that is compared and the one that is fetched."""
_PIECE_CELLS, _PIECE_GROUPS = 16, 255
"""Cells, and groups, that one thread joins before it takes others: a byte tells groups apart."""
_QUERIES = 128
"""Rows that are compared with all rows together."""
_LINKED = 16
"""Pieces at most, of the links of all lists, or of rows that are joined if they are few."""
_STAMPS = 255
"""Rows whose candidates are told apart by marks before all marks are cleared."""


@dataclass
class GrowingLists:
    """Lists being built; changed in place."""

    index: Int32
    """(row, width) rows, nearest first, none twice, self excluded; ABSENT at the end"""
    far: Float32
    """(row, width) squared distances; inf where ABSENT"""
    joined: UInt8
    """(row, width) 1 where `join_near` has followed the neighbor already"""

    @classmethod
    def none(cls, n_rows: int, width: int, threads: Threads = ALONE) -> GrowingLists:
        """Lists without any neighbor."""
        return cls(
            threads.full((n_rows, width), ABSENT, np.int32),
            threads.full((n_rows, width), np.inf, np.float32),
            threads.full((n_rows, width), 0, np.uint8),
        )

    def widened(self, width: int, threads: Threads = ALONE) -> GrowingLists:
        """Copies of these lists with room for `width` neighbors each, at least as many as now."""
        here = self.index.shape[1]
        wide = GrowingLists.none(len(self.index), max(width, here), threads)

        def copy(a: int, b: int) -> None:
            wide.index[a:b, :here], wide.far[a:b, :here] = self.index[a:b], self.far[a:b]
            wide.joined[a:b, :here] = self.joined[a:b]

        threads.over(len(self.index), copy)
        return wide

    def of(self, rows: Integers) -> GrowingLists:
        """Copies of the lists of some rows."""
        return GrowingLists(self.index[rows], self.far[rows], self.joined[rows])


@dataclass(frozen=True)
class Near:
    """The neighbors by which rows are joined: listed ones, then listing ones; new ones first."""

    index: Int32
    """(row, most) rows, none twice; ABSENT at the end. Undefined for rows that were not wanted"""
    count: Int32
    """(row,) how many there are"""
    n_new: Int32
    """(row,) how many of them, the first ones, no join has followed yet"""
    forward: int
    """How many of the first neighbors of a list are taken"""


def join_cells(x: Float32, cells: Cells, lists: GrowingLists, threads: Threads = ALONE) -> None:
    """Compare all rows of each cell with each other.

    One row of the cell is made the origin, so that products of float32 lose little: nothing where
    features are small integers.

    x : (row, feature) float32
    """

    def join(a: int, b: int) -> None:
        start = cells.start[a : b + 1]
        _join_cells(x, cells.row, start, lists.index, lists.far, lists.joined)

    threads.over(len(cells.start) - 1, join, _PIECE_CELLS)


def join_all(x: Float32, rows: Int64, lists: GrowingLists, threads: Threads = ALONE) -> None:
    """Compare some rows with all rows.

    lists : lists of `rows`, in their order
    """
    queries = rows.astype(np.int32)

    def join(a: int, b: int) -> None:
        _join_all(x, queries[a:b], lists.index[a:b], lists.far[a:b], lists.joined[a:b])

    threads.over(len(queries), join, _QUERIES)


def join_groups(
    x: Float32,
    groups: Cells,
    forward: int,
    backward: int,
    lists: GrowingLists,
    threads: Threads = ALONE,
) -> None:
    """Compare the rows of each group with the first `forward` neighbors of all rows of the group,
    and with up to `backward` rows that list them, as lists were before."""
    listed = np.ascontiguousarray(lists.index[:, :forward])
    all_rows = np.ones(len(listed), np.bool_)
    old = np.zeros_like(lists.joined)
    source, target, start = _links_of(listed, old, listed.shape[1], all_rows, threads)
    listing, bits = np.full((len(listed), backward), ABSENT, np.int32), _piece_bits(len(listed))

    def fill(a: int, b: int) -> None:
        links = slice(start[a >> bits, 0], start[a >> bits, -1])
        _listing(source[links], target[links], listing)

    threads.over(len(listed), fill, 1 << bits)

    def join(a: int, b: int) -> None:
        start = groups.start[a : b + 1]
        _join_groups(x, groups.row, start, listed, listing, lists.index, lists.far, lists.joined)

    threads.over(len(groups.start) - 1, join, _PIECE_GROUPS)


def near(
    lists: GrowingLists,
    forward: int,
    backward: int,
    rows: Int64 | None = None,
    threads: Threads = ALONE,
) -> Near:
    """The first `forward` neighbors of each row and up to `backward` rows more that have it among
    their first `forward`, by rank and row.

    rows : (any,) whose neighbors' neighbors are asked for; other rows than these and their
        neighbors may be left without any. None: all rows
    """
    wanted = np.full(len(lists.index), rows is None)
    if rows is not None:
        wanted[rows] = True
        first = _near(lists, forward, backward, wanted, threads).index[rows]
        wanted[first[first != ABSENT]] = True
    return _near(lists, forward, backward, wanted, threads)


def _near(
    lists: GrowingLists, forward: int, backward: int, wanted: Bools, threads: Threads
) -> Near:
    """The same for the rows that are wanted."""
    n = len(wanted)
    source, target, start = _links_of(lists.index, lists.joined, forward, wanted, threads)
    bits = _piece_bits(n)
    made = Near(
        np.empty((n, forward + backward), np.int32),
        np.zeros(n, np.int32),
        np.zeros(n, np.int32),
        forward,
    )

    def fill(a: int, b: int) -> None:
        _fill_near(
            *(lists.index, lists.joined, forward, backward, wanted),
            *(source, target, start[a >> bits], a, b),
            *(made.index, made.count, made.n_new),
        )

    threads.over(n, fill, 1 << bits)
    return made


def _piece_bits(n_rows: int) -> int:
    """Binary digits of the number of a row in its piece."""
    return (-(-n_rows // _LINKED) - 1).bit_length()


def _links_of(
    index: Int32, joined: UInt8, forward: int, wanted: Bools, threads: Threads
) -> tuple[Int32, Int32, Int64]:
    """Links from rows to the wanted rows that they list among their first `forward`: source and
    target, sorted by piece of the target, age, rank and source; and (piece, age and rank + 1) where
    the links of each piece, age and rank begin, and those of the piece end."""
    bits = _piece_bits(len(index))
    n_pieces = max(1, -(-len(index) >> bits))
    count = np.zeros((n_pieces, n_pieces, 2 * forward), np.int64)
    threads.over(
        len(index),
        lambda a, b: _count_links(index, joined, wanted, a, b, bits, count[a >> bits]),
        1 << bits,
    )
    end = np.cumsum(count.sum(axis=0)).reshape(count.shape[1:])
    start = np.concatenate([np.append(0, end[:-1, -1])[:, None], end], axis=1)
    place = start[:, :-1] + np.cumsum(count, axis=0) - count
    source, target = np.empty(end[-1, -1], np.int32), np.empty(end[-1, -1], np.int32)

    def fill(a: int, b: int) -> None:
        _fill_links(index, joined, wanted, a, b, bits, place[a >> bits], source, target)

    threads.over(len(index), fill, 1 << bits)
    return source, target, start


def join_near(
    x: Float32,
    quantized: Quantized,
    near: Near,
    rows: Int64,
    lists: GrowingLists,
    threads: Threads = ALONE,
) -> None:
    """Compare rows with their neighbors' neighbors, but those that two old links lead to, which an
    earlier join has compared. Links that are followed are marked as joined.

    Parameters
    ----------
    x : (row, feature) float32
    quantized : the same rows, by which most that are too far are left out
    rows : (any,) the rows that are compared
    lists : of all rows, or of `rows` in their order
    """
    lists.joined[:, : near.forward] = 1
    place = rows if len(lists.index) == len(x) else np.arange(len(rows))

    def join(a: int, b: int) -> None:
        _join_near(
            *(x, quantized.code, quantized.believed, near.index, near.count, near.n_new),
            *(rows[a:b], place[a:b], lists.index, lists.far, lists.joined),
        )

    threads.over(len(rows), join, min(PIECE_ROWS, len(rows) // _LINKED + 1))


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[untyped-decorator]
def _insert(index: Int32, far: Float32, joined: UInt8, row: int, distance: float) -> None:
    """Put a row in its place in one list; the last falls out."""
    at = len(index) - 1
    while at > 0 and far[at - 1] > distance:
        far[at], index[at], joined[at] = far[at - 1], index[at - 1], joined[at - 1]
        at -= 1
    far[at], index[at], joined[at] = distance, row, 0


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[untyped-decorator]
def _offer(
    value: Float32,
    own: float,
    i: int,
    candidate: Int32,
    index: Int32,
    far: Float32,
    joined: UInt8,
    hit: Int32,
) -> None:
    """Offer candidates to the list of row i; value: squared distances less `own`; hit: room."""
    n, width = len(candidate), len(index)
    limit = far[width - 1] - own
    for a in range(0, n, _GLANCE):
        b = min(n, a + _GLANCE)
        if b == a + _GLANCE:
            below = 0
            for u in range(_GLANCE):
                below += value[a + u] < limit
            if below == 0:
                continue
        n_hits = 0
        for q in range(a, b):
            hit[n_hits] = q  # overwritten if it is not: a branch would cost more
            n_hits += value[q] < limit
        for u in range(n_hits):
            q = hit[u]
            if value[q] < limit:
                c = candidate[q]
                listed = c == i
                for v in range(width):
                    listed |= index[v] == c
                if not listed:
                    _insert(index, far, joined, c, max(value[q] + own, np.float32(0.0)))
                    limit = far[width - 1] - own


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[untyped-decorator]
def _move(x: Float32, rows: Int32, center: Float32, moved: Float32, norm: Float32) -> None:
    """Rows less a center, and their squares."""
    for p in range(len(rows)):
        if p + _AHEAD < len(rows):
            prefetch(x, rows[p + _AHEAD])
        row, to, square = x[rows[p]], moved[p], np.float32(0.0)
        for f in range(len(center)):
            value = row[f] - center[f]
            to[f] = value
            square += value * value
        norm[p] = square


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[untyped-decorator]
def _compare(
    x: Float32,
    rows: Int32,
    candidate: Int32,
    lists: Int32,
    index: Int32,
    far: Float32,
    joined: UInt8,
    a: Float32,
    b: Float32,
    product: Float32,
) -> None:
    """Offer all candidates to the lists numbered `lists`, those of `rows`; a, b, product: room."""
    m = len(rows)
    center = x[rows[m // 2]]
    own, norm = np.empty(m, np.float32), np.empty(_CHUNK, np.float32)
    hit = np.empty(_GLANCE, np.int32)
    _move(x, rows, center, a, own)
    for s in range(0, len(candidate), _CHUNK):
        part = candidate[s : s + _CHUNK]
        n = len(part)
        _move(x, part, center, b, norm)
        value = product[: m * n].reshape(m, n)
        np.dot(a[:m], b[:n].T, value)
        for p in range(m):
            ahead = lists[min(p + 2, m - 1)]
            prefetch(index, ahead)
            prefetch(far, ahead)
            prefetch(joined, ahead)
            for q in range(n):
                value[p, q] = norm[q] - np.float32(2.0) * value[p, q]
            i = lists[p]
            _offer(value[p], own[p], rows[p], part, index[i], far[i], joined[i], hit)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _join_cells(
    x: Float32, row: Int32, start: Int64, index: Int32, far: Float32, joined: UInt8
) -> None:
    largest = np.diff(start).max()
    a, b = np.empty((largest, x.shape[1]), np.float32), np.empty((_CHUNK, x.shape[1]), np.float32)
    product = np.empty(largest * _CHUNK, np.float32)
    for c in range(len(start) - 1):
        rows = row[start[c] : start[c + 1]]
        if len(rows) > 1:
            _compare(x, rows, rows, rows, index, far, joined, a, b, product)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _join_all(x: Float32, rows: Int32, index: Int32, far: Float32, joined: UInt8) -> None:
    m = len(rows)
    a, b = np.empty((m, x.shape[1]), np.float32), np.empty((_CHUNK, x.shape[1]), np.float32)
    everything, lists = np.arange(len(x)).astype(np.int32), np.arange(m).astype(np.int32)
    product = np.empty(m * _CHUNK, np.float32)
    _compare(x, rows, everything, lists, index, far, joined, a, b, product)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _listing(source: Int32, target: Int32, listing: Int32) -> None:
    """For each row the rows that list it, in the order of the links."""
    for e in range(len(target)):
        mine, at = listing[target[e]], 0
        while at < len(mine) and mine[at] != ABSENT:
            at += 1
        if at < len(mine):
            mine[at] = source[e]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _join_groups(
    x: Float32,
    row: Int32,
    start: Int64,
    listed: Int32,
    listing: Int32,
    index: Int32,
    far: Float32,
    joined: UInt8,
) -> None:
    largest = np.diff(start).max()
    a, b = np.empty((largest, x.shape[1]), np.float32), np.empty((_CHUNK, x.shape[1]), np.float32)
    product = np.empty(largest * _CHUNK, np.float32)
    met = np.zeros(len(x), np.uint8)  # a byte: it stays in the cache
    candidate = np.empty(largest * (1 + listed.shape[1] + listing.shape[1]), np.int32)
    for c in range(len(start) - 1):
        rows, stamp = row[start[c] : start[c + 1]], np.uint8(c + 1)
        n = 0
        for i in rows:
            met[i] = stamp
            candidate[n] = i
            n += 1
        for i in rows:
            for lists in (listed, listing):
                for j in lists[i]:
                    if j == ABSENT:
                        break
                    if met[j] != stamp:
                        met[j] = stamp
                        candidate[n] = j
                        n += 1
        _compare(x, rows, candidate[:n], rows, index, far, joined, a, b, product)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _fill_near(
    index: Int32,
    joined: UInt8,
    forward: int,
    backward: int,
    wanted: Bools,
    source: Int32,
    target: Int32,
    start: Int64,
    first: int,
    stop: int,
    lists: Int32,
    count: Int32,
    n_new: Int32,
) -> None:
    """The neighbors by which the rows of a range are joined."""
    n_back = np.zeros(stop - first, np.int32)
    for old in range(2):
        for i in range(first, stop):
            if not wanted[i]:
                continue
            mine, listing, n = lists[i], index[i], count[i]
            for r in range(forward):
                if listing[r] != ABSENT and joined[i, r] == old:
                    mine[n] = listing[r]
                    n += 1
            count[i] = n
        for e in range(start[old * forward], start[(old + 1) * forward]):
            if e + _AHEAD < len(target):
                prefetch(index, target[e + _AHEAD])
            i, j = source[e], target[e]
            if n_back[j - first] >= backward:
                continue
            listing, listed = index[j], 0
            for s in range(forward):
                listed += listing[s] == i
            if listed == 0:
                lists[j, count[j]] = i
                count[j] += 1
                n_back[j - first] += 1
        if old == 0:
            n_new[first:stop] = count[first:stop]
    for i in range(first, stop):
        if wanted[i]:
            lists[i, count[i] :] = ABSENT


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _count_links(
    index: Int32, joined: UInt8, wanted: Bools, first: int, stop: int, bits: int, count: Int64
) -> None:
    """Links of the rows of a range, by piece, age and rank."""
    forward = count.shape[1] // 2
    for i in range(first, stop):
        for r in range(forward):
            j = index[i, r]
            if j != ABSENT and wanted[j]:
                count[j >> bits, joined[i, r] * forward + r] += 1


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _fill_links(
    index: Int32,
    joined: UInt8,
    wanted: Bools,
    first: int,
    stop: int,
    bits: int,
    place: Int64,
    source: Int32,
    target: Int32,
) -> None:
    """The links of the rows of a range, from the places on that are theirs."""
    forward = place.shape[1] // 2
    for i in range(first, stop):
        for r in range(forward):
            j = index[i, r]
            if j != ABSENT and wanted[j]:
                piece, rank = j >> bits, joined[i, r] * forward + r
                at = place[piece, rank]
                source[at], target[at] = i, j
                place[piece, rank] = at + 1


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[untyped-decorator]
def _join_near(
    x: Float32,
    code: Int8,
    believed: Float32,
    near: Int32,
    count: Int32,
    n_new: Int32,
    rows: Int64,
    place: Int64,
    index: Int32,
    far: Float32,
    joined: UInt8,
) -> None:
    width = index.shape[1]
    met, stamp = np.zeros(len(x), np.uint8), np.uint8(0)  # a byte: it stays in the cache
    candidate = np.empty(near.shape[1] * (near.shape[1] + 1) + 1, np.uint32)
    least = np.empty(len(candidate), np.float32)
    for p in range(len(rows)):
        i, own = rows[p], place[p]
        if stamp == _STAMPS:
            met[:] = 0
            stamp = np.uint8(0)
        stamp += np.uint8(1)
        if p + 1 < len(rows):
            for h in range(count[rows[p + 1]]):
                prefetch(near, near[rows[p + 1], h])
        met[i] = stamp
        for j in index[own]:
            if j != ABSENT:
                met[j] = stamp
        n = 0
        for h in range(count[i]):
            j = np.uint32(near[i, h])  # that no place is counted from the end is thus known
            candidate[n] = j
            n += met[j] != stamp  # overwritten if it was seen: a branch would cost more
            met[j] = stamp
        for h in range(count[i]):
            j = np.uint32(near[i, h])
            listed = near[j]
            for r in range(count[j] if h < n_new[i] else n_new[j]):
                c = np.uint32(listed[r])
                candidate[n] = c
                n += met[c] != stamp
                met[c] = stamp
        limit = far[own, width - 1]
        allowed, n_near = most(believed, limit), 0
        for q in range(n if code.shape[1] else 0):
            if q + _AHEAD < n:
                prefetch(code, candidate[q + _AHEAD])
            c, steps = candidate[q], np.int32(0)
            for f in range(AXES):
                step = np.int32(np.int8(code[i, f] - code[c, f]))  # a byte overflows
                steps = np.int32(steps + np.int32(step * step))
            candidate[n_near], least[n_near] = c, steps
            n_near += steps <= allowed
        if not code.shape[1]:
            n_near = n
            least[:n] = 0
        for q in range(n_near):
            if q + _AHEAD < n_near:
                prefetch(x, candidate[q + _AHEAD])
            if least[q] > allowed:
                continue
            c = candidate[q]
            d = np.float32(0.0)
            for f in range(x.shape[1]):
                apart = x[i, f] - x[c, f]
                d += apart * apart
            if d < limit:
                _insert(index[own], far[own], joined[own], c, d)
                limit = far[own, width - 1]
                allowed = most(believed, limit)
