"""Lists made better by local joins, against sets of candidates and sorting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import generators, pools

from pipeline.graph.carving import Cells, carve
from pipeline.graph.local_join import (
    GrowingLists,
    join_all,
    join_cells,
    join_groups,
    join_near,
    near,
)
from pipeline.knn.distance import rank_lists
from pipeline.knn.lists import ABSENT
from pipeline.knn.quantized import AXES, Quantized
from pipeline.knn.threads import Threads

Rows = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]


THREADS = st.sampled_from([Threads(1), Threads(3)])


def in_bytes(x: Rows) -> Quantized:
    """Small integers in bytes, which are believed to the last."""
    code = np.zeros((len(x), AXES), np.int8)
    code[:, : x.shape[1]] = x
    return Quantized(code, np.array([1, 1e-6, 1e-6], np.float32))


@st.composite
def grids(draw: st.DrawFn, most_rows: int = 60) -> Rows:
    """Rows of small integers, many of them tied, of which float32 makes no error."""
    rng = draw(generators())
    n, d = draw(st.integers(2, most_rows)), draw(st.integers(1, 5))
    return rng.integers(0, 9, (n, d)).astype(np.float32)


@st.composite
def rough(draw: st.DrawFn) -> tuple[Rows, GrowingLists]:
    """Rows and any true lists of them, some followed before."""
    x, rng = draw(grids()), draw(generators())
    width = draw(st.integers(1, 6))
    found = GrowingLists.none(len(x), width)
    table = squares(x)
    for i in range(len(x)):
        others = np.delete(np.arange(len(x)), i)
        chosen = rng.permutation(others)[: rng.integers(0, width + 1)]
        chosen = chosen[np.argsort(table[i, chosen], kind="stable")]
        found.index[i, : len(chosen)] = chosen
        found.far[i, : len(chosen)] = table[i, chosen]
    found.joined[:] = rng.integers(0, 2, found.joined.shape)
    return x, found


def squares(x: Rows) -> npt.NDArray[np.float64]:
    wide = x[:, None].astype(np.float64) - x[None]
    return np.asarray(np.square(wide).sum(axis=-1))


def copy(found: GrowingLists) -> GrowingLists:
    return found.of(np.arange(len(found.index)))


def listed(index: Int32) -> list[list[int]]:
    return [[j for j in row if j != ABSENT] for row in index.tolist()]


def check(
    x: Rows, before: GrowingLists, after: GrowingLists, candidates: Sequence[set[int]]
) -> None:
    """Lists are the nearest of what they were and of the candidates, without repetition."""
    table, width = squares(x), before.index.shape[1]
    for i, (old, new) in enumerate(zip(listed(before.index), listed(after.index), strict=True)):
        pool = (set(old) | candidates[i]) - {i}
        assert after.index[i].tolist() == new + [ABSENT] * (width - len(new))
        assert len(set(new)) == len(new)
        assert set(new) <= pool
        assert table[i, new].tolist() == sorted(table[i, sorted(pool)])[:width]
        assert after.far[i, : len(new)].tolist() == table[i, new].tolist()


def cells_of(rows: Int32, sizes: Sequence[int]) -> Cells:
    start = np.minimum(np.concatenate([[0], np.cumsum(sizes)]), len(rows))
    return Cells(rows, np.unique(np.append(start, len(rows))))


@given(rough(), generators(), st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_rows_of_a_cell_meet(
    given: tuple[Rows, GrowingLists], rng: np.random.Generator, most: int
) -> None:
    x, found = given
    before = copy(found)
    cells = cells_of(
        rng.permutation(len(x)).astype(np.int32), rng.integers(1, most + 1, len(x)).tolist()
    )
    join_cells(x, cells, found)
    parts = [cells.row[a:b] for a, b in zip(cells.start[:-1], cells.start[1:], strict=True)]
    candidates = {i: set(part.tolist()) for part in parts for i in part.tolist()}
    check(x, before, found, [candidates[i] for i in range(len(x))])


@given(rough(), generators(), st.integers(1, 6), st.integers(0, 4), THREADS)
@settings(max_examples=100, deadline=None)
def test_groups_meet_the_neighbors_of_all_their_rows(
    given: tuple[Rows, GrowingLists],
    rng: np.random.Generator,
    forward: int,
    backward: int,
    threads: Threads,
) -> None:
    x, found = given
    groups = cells_of(rng.permutation(len(x)).astype(np.int32), rng.integers(1, 9, len(x)).tolist())
    check_groups(x, groups, min(forward, found.index.shape[1]), backward, found, threads)


def test_more_groups_than_a_byte_counts_are_told_apart() -> None:
    x = np.random.default_rng(0).integers(0, 40, (600, 3)).astype(np.float32)
    found = GrowingLists.none(len(x), 4)
    join_cells(x, cells_of(np.arange(600, dtype=np.int32), [20] * 30), found)
    pairs = cells_of(np.arange(600, dtype=np.int32), [2] * 300)
    check_groups(x, pairs, 4, 2, found, Threads(2))


def check_groups(
    x: Rows, groups: Cells, forward: int, backward: int, found: GrowingLists, threads: Threads
) -> None:
    """Rows of a group have met what all of them list and are listed by."""
    before = copy(found)
    join_groups(x, groups, forward, backward, found, threads)
    back = reference.listing(before.index, forward, backward)
    candidates: list[set[int]] = [set() for _ in x]
    for a, b in zip(groups.start[:-1], groups.start[1:], strict=True):
        rows = groups.row[a:b].tolist()
        union = set(rows)
        for i in rows:
            union |= {j for j in before.index[i, :forward].tolist() if j != ABSENT} | set(back[i])
        for i in rows:
            candidates[i] = union
    check(x, before, found, candidates)


@given(rough(), st.integers(1, 6), st.integers(0, 4), THREADS)
@settings(max_examples=150, deadline=None)
def test_neighbors_are_those_listed_then_those_listing_new_ones_first(
    given: tuple[Rows, GrowingLists], forward: int, backward: int, threads: Threads
) -> None:
    _, found = given
    forward = min(forward, found.index.shape[1])
    joins = near(found, forward, backward, threads=threads)
    expected = reference.near_by_age(found.index, found.joined, forward, backward)
    for i, (new, old) in enumerate(expected):
        assert joins.index[i, : joins.count[i]].tolist() == new + old
        assert joins.n_new[i] == len(new)


def test_no_rows_have_no_neighbors() -> None:
    none = near(GrowingLists.none(0, 4), 4, 2)
    assert none.index.shape == (0, 6)


@given(rough(), st.integers(1, 6), st.integers(0, 4), generators(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_neighbors_neighbors_meet_unless_both_links_are_old(
    given: tuple[Rows, GrowingLists],
    forward: int,
    backward: int,
    rng: np.random.Generator,
    bounded: bool,
) -> None:
    x, found = given
    forward = min(forward, found.index.shape[1])
    before = copy(found)
    quantized = in_bytes(x) if bounded else Quantized.none(len(x))
    near_age = reference.near_by_age(found.index, found.joined, forward, backward)
    candidates: list[set[int]] = []
    for new, old in near_age:
        reached = set(new + old)
        for j in new:
            reached |= set(near_age[j][0] + near_age[j][1])
        for j in old:
            reached |= set(near_age[j][0])
        candidates.append(reached)
    some = np.sort(rng.permutation(len(x))[: rng.integers(1, len(x) + 1)])
    joins = near(found, forward, backward)
    part = found.of(some)
    join_near(x, quantized, joins, some, part)
    alone = before.of(some)
    join_near(x, quantized, near(before, forward, backward, some), some, alone)
    within = copy(before)
    join_near(x, quantized, joins, some, within)
    join_near(x, quantized, joins, np.arange(len(x)), found)
    check(x, before, found, candidates)
    assert np.array_equal(part.index, found.index[some])
    assert np.array_equal(alone.index, part.index)
    assert np.array_equal(within.index[some], part.index)
    left = np.setdiff1d(np.arange(len(x)), some)
    assert np.array_equal(within.index[left], before.index[left])
    followed = found.joined[:, :forward].astype(bool)
    stayed = np.array(
        [
            [j in set(row) for j in now]
            for row, now in zip(
                before.index[:, :forward].tolist(), found.index[:, :forward].tolist(), strict=True
            )
        ]
    )
    assert (followed <= stayed).all()  # what came in has yet to be followed


@given(rough(), generators())
@settings(max_examples=60, deadline=None)
def test_joining_all_rows_gives_exact_lists(
    given: tuple[Rows, GrowingLists], rng: np.random.Generator
) -> None:
    x, found = given
    rows = np.sort(rng.permutation(len(x))[: rng.integers(1, len(x) + 1)])
    lists = GrowingLists.none(len(rows), found.index.shape[1])
    join_all(x, rows, lists)
    table = squares(x)
    for i, row in zip(rows, listed(lists.index), strict=True):
        others = np.delete(table[i], i)
        assert table[i, row].tolist() == sorted(others)[: found.index.shape[1]]


def test_cells_of_rows_far_from_the_origin_lose_nothing() -> None:
    rng = np.random.default_rng(0)
    x = (rng.integers(0, 50, (400, 4)) + 2.0**20).astype(np.float32)
    found = GrowingLists.none(len(x), 7)
    join_cells(x, carve(x, 400, 0), found)
    assert np.array_equal(found.far, np.sort(squares(x) + np.diag([np.inf] * 400))[:, :7])


@given(pools(), st.integers(1, 8), generators())
@settings(max_examples=100, deadline=None)
def test_ranked_lists_are_by_distance_and_lot(x: Rows, k: int, rng: np.random.Generator) -> None:
    place = np.stack([rng.permutation(np.r_[np.arange(len(x)), ABSENT, ABSENT]) for _ in range(9)])
    query, row = x[rng.integers(0, len(x), 9)], rng.permutation(1000)[: len(x)]
    index, distance = rank_lists(query, x, place, row, k)
    table = reference.distances(query, x)
    pairs = [[(float(d), int(r)) for d, r in zip(far, row, strict=True)] for far in table]
    exact = [sorted(some, key=reference.by_lot)[:k] for some in pairs]
    assert reference.as_lists(index, distance) == exact
    assert np.isinf(distance[index == ABSENT]).all()
    to = rng.permutation(9)
    moved = rank_lists(query, x, place, row, k, to=to)
    assert np.array_equal(moved[0][to], index)
    assert np.array_equal(moved[1][to], distance)
