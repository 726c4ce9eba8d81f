"""The order in which labels are checked, and what checked labels say, against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import beta

from pipeline.decision import review


def plurality(votes: NDArray[np.int64]) -> NDArray[np.integer[Any]]:
    return votes.argmax(axis=1)


@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(1, 6), st.booleans())
def test_moved_verdicts_by_changing_one_label_at_a_time(
    seed: int, c: int, k: int, plain: bool
) -> None:
    rng = np.random.default_rng(seed)
    n = 12
    label = rng.integers(0, c, n)
    lists = np.array([rng.permutation(np.delete(np.arange(n), i))[:k] for i in range(n)])
    lists[rng.random((n, k)) < 0.1] = -1
    found = dict(
        zip(
            *map(
                np.ndarray.tolist,
                review.verdicts_moved(lists, label[lists], c, None if plain else plurality),
            ),
            strict=True,
        )
    )
    for row in range(n):
        moved = 0
        for other in lists:
            votes = np.bincount(label[other[other >= 0]], minlength=c)
            if row not in other:
                continue
            besides = [v if g != label[row] else -1 for g, v in enumerate(votes)]
            after = votes.copy()
            after[label[row]] -= 1
            after[int(np.argmax(besides))] += 1
            moved += after.argmax() != votes.argmax()
        assert found.get(row, 0) == moved


def test_no_verdict_rests_on_votes_that_are_not_there() -> None:
    votes = np.array([[0, 0, 0], [1, 0, 0], [0, 2, 1]])
    for verdict in (None, plurality):
        assert not review.sensitive(votes, verdict)[votes == 0].any()


def test_usefulness_counts_the_row_itself() -> None:
    assert review.usefulness(np.array([0.0, 0.5]), np.array([0, 3])).tolist() == [1.0, 2.0]


def test_the_first_of_parts_are_the_first_of_all() -> None:
    row = np.arange(1000)
    value = np.repeat(np.arange(10.0), 100)
    for drawn in (value, None):
        whole = row[review.first(row, drawn, 40, 3, "rows")]
        kept = np.concatenate(
            [
                p[review.first(p, None if drawn is None else drawn[p], 40, 3, "rows")]
                for p in np.array_split(row, 7)
            ]
        )
        again = kept[review.first(kept, None if drawn is None else drawn[kept], 40, 3, "rows")]
        assert whole.tolist() == again.tolist()


@given(
    st.lists(st.integers(0, 50), unique=True),
    st.lists(st.integers(0, 50), unique=True),
    st.lists(st.integers(0, 50), unique=True),
    st.sampled_from([0.0, 0.2, 0.5, 1.0]),
)
def test_an_order_holds_each_row_once(
    useful: list[int], suspects: list[int], rows: list[int], share: float
) -> None:
    parts = [np.array(p, np.int64) for p in (useful, suspects, rows)]
    order = review.interleaved(*parts, share)
    assert sorted(order.tolist()) == sorted({*useful, *suspects, *rows})
    for at, part in enumerate(parts):  # each is gone through in its own order, unless met before
        others = {row for other in parts[:at] + parts[at + 1 :] for row in other.tolist()}
        fresh = [row for row in part.tolist() if row not in others]
        assert [row for row in order.tolist() if row in fresh] == fresh


def test_every_fifth_place_is_random() -> None:
    order = review.interleaved(np.arange(0, 80), np.arange(100, 110), np.arange(200, 210), 0.2)
    assert np.flatnonzero(order >= 100).tolist() == list(range(4, 100, 5))
    assert [row // 100 for row in order.tolist() if row >= 100] == [1, 2] * 10


def test_a_draw_counts_up_to_its_first_gap() -> None:
    place = np.array([-1, 2, 0, -1, 1, 3])
    answered = np.array([True, True, True, True, False, True])
    assert review.answered_draws(place, answered).tolist() == [2]
    answered[4] = True
    assert review.answered_draws(place, answered).tolist() == [2, 4, 1, 5]
    assert review.answered_draws(np.full(3, -1), np.ones(3, bool)).tolist() == []


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_groups_are_of_one_pair_connected_and_bounded(seed: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    row = rng.permutation(40)[:25]
    pair = rng.integers(0, 2, 25)
    neighbor = rng.integers(-1, 40, (25, 3))
    group = review.alike(row, pair, neighbor, most)
    for name in np.unique(group):
        members = np.flatnonzero(group == name)
        assert members.min() == name  # the first to be looked at leads
        assert len(members) <= most
        assert len(set(pair[members])) == 1
        reached, todo = {int(name)}, [int(name)]
        while todo:
            near = set(neighbor[todo.pop()].tolist())
            fresh = [int(m) for m in members if int(row[m]) in near and int(m) not in reached]
            reached.update(fresh)
            todo += fresh
        assert reached == set(members.tolist())


@pytest.mark.parametrize(("hits", "n"), [(71, 80), (0, 20), (20, 20), (3, 40)])
def test_intervals_hold_what_they_say(hits: int, n: int) -> None:
    low, high = review.share_interval(hits, n)
    assert 0 <= low <= hits / n <= high <= 1
    assert (low == 0) == (hits == 0)
    assert (high == 1) == (hits == n)
    ends = beta(hits + 0.5, n - hits + 0.5).ppf([0.025, 0.975])
    assert low == pytest.approx(ends[0] if hits else 0.0)
    assert high == pytest.approx(ends[1] if hits < n else 1.0)


def test_intervals_cover_at_the_stated_rate() -> None:
    rng = np.random.default_rng(0)
    for share in (0.05, 0.3, 0.9):
        ends = np.array([review.share_interval(h, 60) for h in range(61)])
        drawn = ends[rng.binomial(60, share, 4000)]
        assert ((drawn[:, 0] <= share) & (share <= drawn[:, 1])).mean() > 0.92
    assert review.share_interval(0, 0) == (0.0, 1.0)
