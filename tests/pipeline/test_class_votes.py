"""Votes by class: equal to counting row by row, whatever is missing, and additive in the sizes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.decision.class_votes import (
    CANDIDATES,
    NONE,
    class_losses,
    class_votes,
    contradicted,
    vote_sizes,
)


@given(
    st.integers(2, 60) | st.just(500),  # of which lists have more than are kept
    st.integers(1, 12),
    st.sampled_from([(1,), (2, 5), (4, 8, 16), (3, 40)]),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_votes_are_counts(n_classes: int, n_rows: int, sizes: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    near = rng.integers(-1, n_classes + 1, (n_rows, sizes[-1]))  # both ends are missing labels
    own = rng.integers(-1, n_classes, n_rows)
    votes = class_votes(near, own, n_classes, sizes)
    assert votes.votes.shape == (*votes.code.shape, len(sizes))
    for i in range(n_rows):
        code = votes.code[i][votes.code[i] != NONE].tolist()
        assert code == sorted(set(code))
        for g, k in enumerate(sizes):
            counted = Counter(b for b in near[i, :k].tolist() if 0 <= b < n_classes)
            assert votes.total[i, g] == counted.total()
            assert {b: int(v) for b, v in zip(code, votes.votes[i, :, g], strict=False)} == {
                b: counted.get(b, 0) for b in code
            }
        if own[i] == -1:
            assert votes.own[i] == NONE
        else:
            assert votes.code[i, votes.own[i]] == own[i]
        present = Counter(b for b in near[i].tolist() if 0 <= b < n_classes)
        if n_classes <= CANDIDATES:
            assert code == list(range(n_classes))
        else:
            left_out = [present[b] for b in present if b not in code]
            kept = [present[b] for b in code if b != own[i]]
            assert not left_out or (len(code) == CANDIDATES and max(left_out) <= min(kept))


def test_a_thousand_classes_take_no_more_room_than_candidates() -> None:
    near = np.random.default_rng(0).integers(0, 1000, (50, 100))
    votes = class_votes(near, near[:, 0], 1000, vote_sizes(100))
    assert votes.code.shape == (50, CANDIDATES)
    assert votes.votes.dtype == np.uint16


@given(st.integers(2, 60), st.integers(1, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_rows_are_contradicted_by_most_of_their_neighbors(c: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    near, own = rng.integers(0, c, (n, 9)), rng.integers(-1, c, n)
    shares = []
    for k in (3, 9):
        first = [min(set(row), key=lambda b: (-row.count(b), b)) for row in near[:, :k].tolist()]
        wrong = [a != b for a, b in zip(first, own.tolist(), strict=True) if b >= 0]
        shares.append(sum(wrong) / max(1, len(wrong)))
    found = contradicted(class_votes(near, own, c, (3, 9)))
    kept = c if c <= CANDIDATES else 10
    assert found == pytest.approx(min(max(min(shares), 0.05), 0.9 * (1 - 1 / kept)))


def test_sizes_fit_the_lists() -> None:
    assert vote_sizes(50) == (4, 8, 16, 32)
    assert vote_sizes(3) == (3,)
    with pytest.raises(ValueError, match="ascending sizes up to 5"):
        class_votes(np.zeros((2, 5), int), np.zeros(2, int), 2, (4, 8))


@given(st.integers(2, 40), st.integers(1, 12), st.integers(1, 9), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_losses_are_those_of_each_class(n_classes: int, n_rows: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    near = rng.integers(-1, n_classes + 1, (n_rows, k))
    own = rng.integers(-1, n_classes, n_rows)
    grid = tuple(sorted({1, k, (k + 1) // 2}))
    expected = [
        sum(
            (size * (label == c) - row[:size].count(c)) ** 2
            for row, label in zip(near.tolist(), own.tolist(), strict=True)
            if label >= 0
            for c in range(n_classes)
        )
        for size in grid
    ]
    assert class_losses(near, own, n_classes, grid).tolist() == expected
