"""The test whether mistakes depend on the features: what it sees, and that it seldom cries wolf."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeline.knn.exact import nearest
from pipeline.noise.extrema import crossfit
from pipeline.noise.regions import RegionTest, region_test
from pipeline.noise.transition import transition_matrix

Drawn = tuple[npt.NDArray[np.float32], npt.NDArray[np.float64], npt.NDArray[np.float64]]


def class_of(n: int, difference: float, seed: int) -> Drawn:
    """Rows of one class in two regions, told apart by feature 2, with wrong labels of two rates."""
    rng = np.random.default_rng(seed)
    side = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 4)).astype(np.float32)
    x[:, 2] += 6 * side
    rate = 0.2 + difference * (side - 0.5)
    return x, (rng.random(n) < rate).astype(np.float64), np.ones(n)


def test_power_and_false_alarms_of_two_regions() -> None:
    """Rates that differ by 0.1 between two regions of 2,000 rows, purity known."""
    alarms = {0.0: 0, 0.1: 0}
    for difference in alarms:
        for seed in range(60):
            x, wrong, trials = class_of(4000, difference, seed)
            test = region_test(x, np.ones(4000), wrong, trials)
            alarms[difference] += test is not None and test.disagree
    assert alarms[0.0] <= 3
    assert alarms[0.1] >= 48


def test_the_telling_feature_is_named() -> None:
    x, wrong, trials = class_of(4000, 0.2, 1)
    test = region_test(x, np.ones(4000), wrong, trials)
    assert test is not None
    assert test.disagree
    for region in (test.regions[0], test.regions[-1]):
        feature, low, high = region["bounds"][0]
        assert feature == 2
        assert (-np.inf if low is None else low) < (np.inf if high is None else high)
    assert test.regions[0]["bounds"][0][2] < 6 < 12
    low, high = test.span
    assert low < 0.1 < 0.3 < high
    rows = sum(region["rows"] for region in test.regions)
    assert 1900 <= rows <= 2000
    assert json.loads(json.dumps(test.to_json(), allow_nan=False)) == test.to_json()


def test_bounds_hold_the_rows_counted() -> None:
    x, wrong, trials = class_of(3000, 0.2, 2)
    test = region_test(x, np.ones(3000), wrong, trials)
    assert isinstance(test, RegionTest)
    for region in test.regions:
        inside = np.arange(3000) % 2 == 1
        for feature, low, high in region["bounds"]:
            inside &= low is None or x[:, feature] > low
            inside &= high is None or x[:, feature] <= high
        assert inside.sum() == region["rows"]
        assert wrong[inside].mean() == pytest.approx(region["rate"])


def test_few_rows_are_not_tested() -> None:
    x, wrong, trials = class_of(239, 0.2, 0)
    assert region_test(x, np.ones(239), wrong, trials) is None
    assert region_test(x, np.zeros(239), wrong, trials) is None


def pool(n: int, difference: float, seed: int):  # type: ignore[no-untyped-def]
    """Two classes of two clouds each; class 1's mistakes differ between its clouds."""
    rng = np.random.default_rng(seed)
    cloud = rng.integers(0, 4, n)
    y = cloud // 2
    x = rng.normal(size=(n, 3)).astype(np.float32)
    x[:, 0] += 8 * (cloud % 2)
    x[:, 1] += 8 * y
    rate = np.where(y == 1, 0.2 + difference * (cloud % 2 - 0.5), 0.15)
    given = np.where(rng.random(n) < rate, 1 - y, y)
    index, _ = nearest(x, x, 199, exclude=np.arange(n))
    return x, np.column_stack([np.arange(n), index]), given


def test_rates_that_depend_on_the_features_are_weak_at_most() -> None:
    x, near, given = pool(4000, 0.2, 0)
    told = crossfit(near, given[near].astype(np.int8), 4000, x=x[near[:, 0]])
    assert told.support == "weak"
    assert "depend on the features: in one region of class 1" in told.reason
    assert told.p1_interval[0] < 0.1 < 0.3 < told.p1_interval[1]
    regions = told.diagnostics["regions"]
    assert regions[1]["disagree"]
    assert not regions[0]["disagree"]
    silent = crossfit(near, given[near].astype(np.int8), 4000)
    assert (silent.p0, silent.p1) == (told.p0, told.p1)
    x, near, given = pool(4000, 0.0, 0)
    even = crossfit(near, given[near].astype(np.int8), 4000, x=x)
    assert even.support == "supported", even.reason


def test_classes_that_vary_are_weak_in_a_matrix() -> None:
    x, near, given = pool(4000, 0.3, 1)
    label = np.where(given == 0, 0, 1 + (x[:, 1] > 100))
    label[::9] = 2
    found = transition_matrix(near, label[near], 4000, 3, x=x)
    assert len(found.regions) == 3
    assert found.class_support[1] != "supported"


def overlapping(seed: int, uneven: bool) -> tuple[Any, Any, Any, Any]:
    """Four clouds that overlap; mistakes by class, or more of them in half of class 1."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, 6000)
    x = (rng.normal(size=(6000, 6)) + 3.5 * np.eye(6)[truth]).astype(np.float32)
    share = np.where(truth == 1, 0.25, 0.05)
    if uneven:
        share = np.where((truth == 1) & (x[:, 5] > 0), 0.35, 0.05)
    given = np.where(rng.random(6000) < share, (truth + rng.integers(1, 4, 6000)) % 4, truth)
    rows = np.sort(rng.choice(6000, 1600, replace=False))
    return x, truth, given, rows


@pytest.mark.parametrize("uneven", [False, True])
def test_overlap_is_no_alarm_and_uneven_mistakes_are_averaged(uneven: bool) -> None:
    alarms, errors = [], []
    for seed in range(5):
        x, truth, given, rows = overlapping(seed, uneven)
        near, _ = nearest(x[rows], x, 200)
        found = transition_matrix(near, given[near], 6000, 4, x=x[rows])
        alarms.append([test is not None and test.disagree for test in found.regions])
        real = np.bincount(given[truth == 1], minlength=4) / (truth == 1).sum()
        errors.append(np.abs(found.matrix[1] - real).sum())
    told = np.array(alarms)
    assert told[:, [0, 2, 3]].sum() <= 1
    assert told[:, 1].sum() >= 4 if uneven else not told[:, 1].any()
    assert np.mean(errors) < 0.12


@pytest.mark.parametrize("seed", range(3))
def test_a_rare_class_among_many_that_overlaps_is_no_alarm(seed: int) -> None:
    """Three classes without a wrong label: where the rare one lies, the others are likelier."""
    rng = np.random.default_rng(seed)
    n = 6000
    truth = (rng.random(n) < 0.05).astype(np.int64)
    x = rng.normal(size=(n, 12)).astype(np.float32)
    x[truth == 1, :3] += 2
    truth[(truth == 0) & (x[:, 0] > 0.7)] = 2
    index, _ = nearest(x, x, 199, exclude=np.arange(n))
    near = np.column_stack([np.arange(n), index])
    found = transition_matrix(near, truth[near], n, 3, x=x)
    assert not any(test is not None and test.disagree for test in found.regions)


def test_intervals_of_many_classes_hold_mistakes_at_the_boundary() -> None:
    """Their upper ends allow for mistakes that pass for overlap, as those of two classes do."""
    rng = np.random.default_rng(0)
    n = 5000
    truth = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    x = (rng.normal(size=(n, 6)) + 3.5 * np.eye(6)[truth]).astype(np.float32)
    index, _ = nearest(x, x, 199, exclude=np.arange(n))
    alike = (truth[index[:, :25]] == truth[:, None]).mean(axis=1) - 0.02 * rng.random(n)
    last = alike.argsort().argsort() / n
    wrong = rng.random(n) < 0.03 + 0.5 * np.clip(1 - last / 0.4, 0, 1)
    given = np.where(wrong, (truth + rng.integers(1, 4, n)) % 4, truth)
    near = np.column_stack([np.arange(n), index])
    found = transition_matrix(near, given[near], n, 4, x=x)
    assert found.interval is not None
    real = np.array([np.bincount(given[truth == a], minlength=4) for a in range(4)])
    right = np.diag(real / real.sum(axis=1, keepdims=True))
    low, high = (np.diag(found.interval[:, :, end]) for end in (0, 1))
    assert ((low <= right) & (right <= high)).all()
    assert (found.standard_errors < (high - low) / (2 * 1.96)).all()  # by class alone
