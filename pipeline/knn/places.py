"""Look-up of row numbers: the place of each among others, and the distinct ones."""

from __future__ import annotations

import numpy as np
from numba import njit

from pipeline.arrays import Bools, Int32, Int64
from pipeline.knn.lists import ABSENT

_MOST_SPANNED, _SPANNED = 1 << 24, 8
"""Places of a table that has one for each number: at most, and to a number looked up (measured)."""


def places(known: Int64, wanted: Int64) -> Int32:
    """Where each wanted number is among the known ones, which are distinct; ABSENT where it is not.

    known : (row,), at least 0
    wanted : any shape
    """
    place = np.empty(wanted.size, np.int32)
    span = int(known.max(initial=0)) + 1
    if span <= _spanned(len(known) + wanted.size):
        _places_spanned(known, wanted.ravel(), span, place)
    else:
        _places(known, wanted.ravel(), place)
    return place.reshape(wanted.shape)


def _spanned(n: int) -> int:
    """Numbers up to which a table with a place for each is quicker than one of open addresses,
    where n are looked up."""
    return min(_MOST_SPANNED, _SPANNED * n)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _places_spanned(known: Int64, wanted: Int64, span: int, place: Int32) -> None:
    table = np.full(span, ABSENT, np.int32)
    for p in range(len(known)):
        table[known[p]] = p
    for q in range(len(wanted)):
        number = wanted[q]
        place[q] = table[number] if 0 <= number < span else ABSENT


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _places(known: Int64, wanted: Int64, place: Int32) -> None:
    """By a table of open addresses, twice as long as there are numbers."""
    bits = 1
    while 1 << bits < 2 * len(known):
        bits += 1
    shift, mask = np.uint64(64 - bits), np.int64((1 << bits) - 1)
    factor = np.uint64(0x9E3779B97F4A7C15)
    table = np.full(1 << bits, ABSENT, np.int32)
    for p in range(len(known)):
        at = np.int64((np.uint64(known[p]) * factor) >> shift)
        while table[at] != ABSENT:
            at = (at + 1) & mask
        table[at] = p
    for q in range(len(wanted)):
        number = wanted[q]
        at = np.int64((np.uint64(number) * factor) >> shift)
        while table[at] != ABSENT and known[table[at]] != number:
            at = (at + 1) & mask
        place[q] = table[at]


def distinct(row: Int64) -> Int64:
    """The different numbers in an array of any shape, ascending; `ABSENT` is none."""
    flat, done = row.ravel(), 0
    span = int(flat.max(initial=0)) + 1
    if span <= _spanned(len(flat)):
        return np.flatnonzero(_listed(flat, span))
    table = np.full(1 << 10, ABSENT, np.int64)
    while True:
        done = _gather(flat, done, table)
        numbers = table[table != ABSENT]
        if done == len(flat):
            return np.sort(numbers)
        table = np.full(4 * len(table), ABSENT, np.int64)
        _gather(numbers, 0, table)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _listed(row: Int64, span: int) -> Bools:
    """(span,) which numbers there are."""
    listed = np.zeros(span, np.bool_)
    for number in row:
        if number != ABSENT:
            listed[number] = True
    return listed


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _gather(row: Int64, start: int, table: Int64) -> int:
    """Put numbers from `start` on into a table of open addresses until half of it is full; up to
    which number."""
    bits = 1
    while 1 << bits < len(table):
        bits += 1
    shift, mask = np.uint64(64 - bits), np.int64(len(table) - 1)
    factor, n = np.uint64(0x9E3779B97F4A7C15), (table != ABSENT).sum()
    for q in range(start, len(row)):
        number = row[q]
        if number == ABSENT:
            continue
        at = np.int64((np.uint64(number) * factor) >> shift)
        while table[at] != ABSENT and table[at] != number:
            at = (at + 1) & mask
        if table[at] == ABSENT:
            if 2 * n == len(table):
                return q
            table[at], n = number, n + 1
    return len(row)
