"""Segments where labels are worst: what is planted is found, and noise is not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier
from strategies import generators

from pipeline.noise.segments import best_split, inside, sample_rows, worst_segments

ONE = np.zeros(4000, np.int64)
"""All rows are likely of one class."""


def planted(
    seed: int, high: float, n: int = 4000
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Site (0 or 1), age in whole years, and three columns that tell nothing; suspects are more
    frequent among old rows of site 1."""
    rng = np.random.default_rng(seed)
    site, age = rng.integers(0, 2, n), rng.integers(20, 80, n)
    x = np.column_stack([rng.normal(size=(n, 2)), site, age, rng.normal(size=n)])
    rate = np.where((site == 1) & (age > 60), high, 0.04)
    return x.astype(np.float32), rng.random(n) < rate


def test_the_planted_segment_is_named_and_counted_on_other_rows() -> None:
    x, suspect = planted(0, 0.31)
    (found, *_) = worst_segments(x, suspect, ONE)
    assert sorted(found.bounds) == [(2, 0.0, None), (3, 60.0, None)]
    other, wrong = x[2000:], suspect[2000:]
    here = (other[:, 2] == 1) & (other[:, 3] > 60)
    assert found.share == pytest.approx(wrong[here].mean())
    assert found.elsewhere == pytest.approx(wrong[~here].mean())
    assert found.size == pytest.approx(here.mean())
    assert found.interval[0] < 0.31 < found.interval[1]
    assert worst_segments(x, suspect, ONE) == worst_segments(x.copy(), suspect.copy(), ONE)


def test_a_segment_that_is_a_class_is_told_only_where_the_class_is_worse() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 3)).astype(np.float32)
    likely = (x[:, 0] > 0).astype(np.int64)
    for more in (0.0, 0.3):
        rate = np.where(likely == 1, 0.3, 0.1) + more * (likely * (x[:, 1] > 0.5))
        told = worst_segments(x, rng.random(4000) < rate, likely)
        assert bool(told) == bool(more)
        assert all(1 in [feature for feature, *_ in segment.bounds] for segment in told)


def test_power_and_false_alarms() -> None:
    found = dict.fromkeys((0.04, 0.2), 0)
    for high in found:
        for seed in range(40):
            found[high] += bool(worst_segments(*planted(seed, high), ONE))
    assert found[0.04] <= 2
    assert found[0.2] >= 38


@given(generators(), st.integers(4, 80), st.integers(1, 5))
@settings(deadline=None)
def test_splits_are_those_of_a_tree(rng: np.random.Generator, n: int, fewest: int) -> None:
    x = rng.integers(0, rng.integers(2, 30), (n, 3)).astype(np.float32)
    suspect = rng.random(n) < 0.3
    ratio, feature, cut = best_split(x, suspect, fewest)
    tree = DecisionTreeClassifier(
        criterion="entropy", max_depth=1, min_samples_leaf=fewest, random_state=0
    ).fit(x, suspect)
    bits = tree.tree_.impurity * tree.tree_.weighted_n_node_samples
    gain = bits[0] - bits[1:].sum() if len(bits) > 1 else 0.0
    assert ratio == pytest.approx(2 * np.log(2) * gain, abs=1e-9)
    if ratio > 1e-9:
        left = x[:, feature] <= cut
        assert cut in x[:, feature]
        assert min(left.sum(), n - left.sum()) >= fewest


@given(generators(), st.integers(1, 40))
def test_bounds_are_kept_row_by_row(rng: np.random.Generator, n: int) -> None:
    x = rng.integers(0, 5, (n, 3)).astype(np.float32)
    bounds = ((0, 1.0, None), (2, None, 3.0), (1, 0.0, 4.0))
    wanted = [row[0] > 1 and row[2] <= 3 and 0 < row[1] <= 4 for row in x.tolist()]
    assert inside(x, bounds).tolist() == wanted
    assert inside(x, ()).all()


def test_few_rows_or_one_verdict_tell_nothing() -> None:
    x, suspect = planted(0, 0.9)
    assert worst_segments(x[:60], suspect[:60], ONE[:60]) == ()
    assert worst_segments(x, np.zeros_like(suspect), ONE) == ()
    assert worst_segments(x, np.ones_like(suspect), ONE) == ()
    assert sample_rows(32) == 1 << 15
    assert sample_rows(1 << 16) == 64
