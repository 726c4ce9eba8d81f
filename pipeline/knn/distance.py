"""Euclidean distances with one exact value for each pair, whoever asks.

Squares are summed in one fixed order: `LANES` partial sums, feature f in number f modulo `LANES`,
folded in halves; then the features that are left over, one by one. A compiler that may choose the
order chooses it by kernel and by CPU, and beyond some 1e8 pairs two sums of one pair round to
different float32 values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from pipeline.arrays import Float32, Int64, Integers
from pipeline.knn.lists import ABSENT
from pipeline.knn.lots import lot
from pipeline.knn.threads import ALONE, LINE, Threads

_READ, _KEEP, _DATA = 0, 3, 1
"""What for, how long, and into which cache."""


def _fetch(typing: Any, table: Any, row: Any) -> Any:
    """Ask for the lines of memory of a row of an array, for compiled code; changes no result."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = context.cast(builder, args[1], signature.args[1], types.intp)
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        first = builder.bitcast(array.data, byte)
        stride = cgutils.unpack_tuple(builder, array.strides)[0]
        at = builder.gep(first, [builder.mul(place, stride)])
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        lines = ir.Constant(stride.type, 0), stride, ir.Constant(stride.type, LINE)
        with cgutils.for_range_slice(builder, *lines, inc=True) as (offset, _):
            line = builder.gep(at, [offset])
            builder.call(fetch, [line, word(_READ), word(_KEEP), word(_DATA)])
        return context.get_dummy_value()

    return types.void(table, row), generate


prefetch = intrinsic(_fetch)


LANES = 8
"""Partial sums of one distance; a power of two."""
_AHEAD = 6
"""Rows between the one whose distance is summed and the one that is fetched."""


def pair_distance(a: Float32, b: Float32, i: Integers, j: Integers) -> Float32:
    """The float32 nearest to the Euclidean distance of rows i of `a` and j of `b`.

    Accumulated in float64 in one order and rounded once: every builder's finalists get their
    distance here, and ties are really ties. Compiled, because the same in NumPy writes and reads
    every difference several times.

    Parameters
    ----------
    a, b : (row, feature) float32
    i, j : (pair,) row numbers

    Returns
    -------
    (pair,) float32
    """
    out = np.empty(len(i), np.float32)
    _fill(np.ascontiguousarray(a), np.ascontiguousarray(b), i, j, out)
    return out


def list_distance(query: Float32, x: Float32, index: Integers) -> Float32:
    """(query, k) distances of each query to the rows of `x` its list names; inf where ABSENT.

    Parameters
    ----------
    query : (query, feature) float32
    x : (row, feature) float32
    index : (query, k) rows of `x`, or ABSENT
    """
    out = np.full(index.shape, np.inf, np.float32)
    i, place = np.nonzero(index != ABSENT)
    out[i, place] = pair_distance(query, x, i, index[i, place])
    return out


def rank_lists(
    query: Float32,
    x: Float32,
    place: Integers,
    row: Int64,
    k: int,
    threads: Threads = ALONE,
    to: Int64 | None = None,
) -> tuple[Int64, Float32]:
    """The k nearest of the rows listed for each query, by exact distance, ties by lot.

    Parameters
    ----------
    query : (query, feature) float32
    x : (place, feature) float32
    place : (query, any) places in `x`, each once in a list, or ABSENT
    row : (place,) the number that each place is known by
    to : (query,) where in the results each query goes, a permutation; None: as they are given

    Returns
    -------
    index : (query, k) row numbers, nearest first; ABSENT at the end where the list is short
    distance : (query, k) float32, inf where ABSENT
    """
    index = threads.full((len(place), k), ABSENT, np.int64)
    distance = threads.full((len(place), k), np.inf, np.float32)
    query, x = np.ascontiguousarray(query), np.ascontiguousarray(x)

    def rank(a: int, b: int) -> None:
        own = slice(a, b) if to is None else to[a:b]
        near, far = index[own], distance[own]  # views, or copies that are filled and put back
        _rank(query[a:b], x, place[a:b], row, near, far)
        if to is not None:
            index[own], distance[own] = near, far

    threads.over(len(place), rank)
    return index, distance


def _sum_in_lanes(typing: Any, p: Any, q: Any, stop: Any) -> Any:
    """Sum of (p[f] - q[f])² over f < stop, a multiple of `LANES`; p, q: contiguous float32.

    Written as vectors of `LANES` doubles, which LLVM turns into the widest instructions of the CPU
    without a change of the order, or of any rounding.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.VectorType(ir.DoubleType(), LANES)
        total = cgutils.alloca_once_value(builder, ir.Constant(wide, [0.0] * LANES))
        first, stop = ir.Constant(args[2].type, 0), args[2]
        step = ir.Constant(args[2].type, LANES)
        with cgutils.for_range_slice(builder, first, stop, step, inc=True) as (feature, _):
            p, q = (
                _load(builder, context.make_array(kind)(context, builder, value).data, feature)
                for kind, value in zip(signature.args[:2], args[:2], strict=True)
            )
            apart = builder.fsub(p, q)
            square = builder.fmul(apart, apart)
            builder.store(builder.fadd(builder.load(total), square), total)
        return _folded(builder, builder.load(total))

    return types.float64(p, q, types.intp), generate


def _load(builder: Any, base: Any, at: Any) -> Any:
    """`LANES` floats from an address on, as doubles."""
    narrow, wide = (ir.VectorType(kind, LANES) for kind in (ir.FloatType(), ir.DoubleType()))
    pointer = builder.bitcast(builder.gep(base, [at]), narrow.as_pointer())
    return builder.fpext(builder.load(pointer, align=4), wide)


def _folded(builder: Any, vector: Any) -> Any:
    """Sum of a vector: its second half added to its first, until one number is left."""
    while (width := vector.type.count) > 1:
        nothing = ir.Constant(vector.type, ir.Undefined)
        halves = (
            builder.shuffle_vector(
                vector,
                nothing,
                ir.Constant(ir.VectorType(ir.IntType(32), width // 2), list(places)),
            )
            for places in (range(width // 2), range(width // 2, width))
        )
        vector = builder.fadd(*halves)
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


_in_lanes = intrinsic(_sum_in_lanes)


@njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator]
def one_distance(p: Float32, q: Float32) -> np.float32:
    whole = len(p) - len(p) % LANES
    total = _in_lanes(p, q, whole) if whole else 0.0
    for f in range(whole, len(p)):
        total += (np.float64(p[f]) - np.float64(q[f])) ** 2
    return np.float32(math.sqrt(total))


@njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator]
def insert(d: np.float32, r: int, filled: int, index: Int64, distance: Float32) -> int:
    """Put a row into a list of which `filled` places are taken, if it is near enough; how many are
    taken then."""
    at = filled
    while at > 0 and (
        d < distance[at - 1] or (d == distance[at - 1] and lot(r) < lot(index[at - 1]))
    ):
        at -= 1
    if at == len(index):
        return filled
    filled = min(len(index), filled + 1)
    for later in range(filled - 1, at, -1):
        distance[later] = distance[later - 1]
        index[later] = index[later - 1]
    distance[at], index[at] = d, r
    return filled


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _rank(
    query: Float32, x: Float32, place: Integers, row: Int64, index: Int64, distance: Float32
) -> None:
    for i in range(len(place)):
        n_ranked = 0
        for q in range(place.shape[1]):
            if q + _AHEAD < place.shape[1]:
                prefetch(x, place[i, q + _AHEAD])
            p = place[i, q]
            if p == ABSENT:
                continue
            d = one_distance(query[i], x[p])
            n_ranked = insert(d, row[p], n_ranked, index[i], distance[i])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _fill(a: Float32, b: Float32, i: Integers, j: Integers, out: Float32) -> None:
    for pair in range(len(i)):
        out[pair] = one_distance(a[i[pair]], b[j[pair]])
