"""Counts of given labels among neighbors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import generators

from pipeline.decision.votes import counts, extremes_with_self, k_grid, share_of_ones
from pipeline.knn.lists import ABSENT

Labels = npt.NDArray[np.int8]


@st.composite
def labels(draw: st.DrawFn) -> Labels:
    """(row, rank) in {0, 1}."""
    rng = draw(generators())
    shape = draw(st.integers(1, 20)), draw(st.integers(1, 40))
    return (rng.random(shape) < draw(st.sampled_from([0, 0.3, 1]))).astype(np.int8)


@given(labels())
@settings(max_examples=100, deadline=None)
def test_counts_are_brute_force(label: Labels) -> None:
    grid = k_grid(label.shape[1])
    assert counts(label, grid).tolist() == reference.counts(label, grid)


@given(labels())
@settings(max_examples=60, deadline=None)
def test_counts_grow_with_k_by_at_most_the_labels_added(label: Labels) -> None:
    grid = (0, *k_grid(label.shape[1]))
    steps = np.diff(counts(label, grid[1:]), axis=1, prepend=0)
    assert (steps >= 0).all()
    assert (steps <= np.diff(grid)).all()


@given(labels())
@settings(max_examples=60, deadline=None)
def test_counts_of_the_other_label_are_the_rest(label: Labels) -> None:
    grid = k_grid(label.shape[1])
    other = counts((1 - label).astype(np.int8), grid)
    assert (counts(label, grid) + other == np.array(grid)).all()


def test_counts_do_not_overflow_their_labels() -> None:
    assert counts(np.ones((1, 1000), np.int8), (1000,)).tolist() == [[1000]]


def test_no_rows_have_no_counts() -> None:
    assert counts(np.empty((0, 7), np.int8), (5, 7)).shape == (0, 2)


@given(labels(), generators())
@settings(max_examples=100, deadline=None)
def test_algorithm_2_counts_the_row_itself_first(label: Labels, rng: np.random.Generator) -> None:
    own = rng.integers(0, 2, len(label)).astype(np.int8)
    grid = tuple(range(1, label.shape[1] + 2))
    with_self = reference.counts(np.column_stack([own, label]), grid)
    expected = [
        [extreme(row[g] for row in with_self) for g in range(len(grid))] for extreme in (min, max)
    ]
    assert extremes_with_self(own, label, grid).tolist() == expected


@pytest.mark.parametrize(
    ("k", "grid"),
    [(1, (1,)), (4, (4,)), (5, (5,)), (6, (5, 6)), (30, (5, 10, 15, 20, 25, 30))],
)
def test_grid_is_every_fifth_k_and_k_itself(k: int, grid: tuple[int, ...]) -> None:
    assert k_grid(k) == grid


@given(labels(), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_empty_places_count_for_nothing(label: Labels, seed: int) -> None:
    length = np.random.default_rng(seed).integers(0, label.shape[1] + 1, len(label))
    label[np.arange(label.shape[1]) >= length[:, None]] = ABSENT
    grid = k_grid(label.shape[1])
    there = [row[:n].astype(int) for row, n in zip(label, length, strict=True)]
    assert counts(label, grid).tolist() == [[int(row[:k].sum()) for k in grid] for row in there]
    expected = [row.mean() if len(row) else np.nan for row in there]
    assert np.array_equal(share_of_ones(label), expected, equal_nan=True)


def test_short_list_of_ones_alone_has_a_share_of_one() -> None:
    label = np.array([[1] * 144 + [ABSENT] * 56], np.int8)
    assert share_of_ones(label).tolist() == [1.0]
