"""Pairs of annotators: counts against a loop, and who copies found among simulated ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pipeline.noise.annotator_pairs import AlikePair, alike, pair_counts

Votes = tuple[np.ndarray, np.ndarray, np.ndarray]
NAMES = ("ann", "bob", "cyd", "dan", "eve", "fay")


def votes(seed: int, copied: float, n: int = 1200, c: int = 3) -> Votes:
    """Three labels a row of six annotators, of whom the third answers by chance; the last has as
    large a share of the second's labels."""
    rng = np.random.default_rng(seed)
    true, skill = rng.integers(0, c, n), np.array([0.9, 0.7, 1 / c, 0.8, 0.6, 0.7])
    right = rng.random((n, 6)) < skill
    label = np.where(right, true[:, None], (true[:, None] + rng.integers(1, c, (n, 6))) % c)
    label[:, 5] = np.where(rng.random(n) < copied, label[:, 1], label[:, 5])
    there = np.argsort(rng.random((n, 6)), axis=1).argsort(axis=1) < 3
    there[:, 5] |= there[:, 1]
    row, who = np.nonzero(there)
    return np.searchsorted(row, np.arange(n + 1)), who.astype(np.int32), label[there]


def found(start: np.ndarray, who: np.ndarray, label: np.ndarray) -> list[AlikePair]:
    """Pairs by the counts of two parts of the rows."""
    at, given = len(start) // 3, np.zeros((6, 3))
    np.add.at(given, (who, label), 1)
    parts = [
        pair_counts(some - some[0], who[some[0] :], label[some[0] :], 6)
        for some in (start[: at + 1], start[at:])
    ]
    return alike(NAMES, parts, given)


def test_counts_are_those_of_a_loop() -> None:
    start, who, label = votes(0, 0.5, n=40)
    shared, equal = np.zeros((2, 36), np.int64)
    for first, end in itertools.pairwise(start):
        for a, b in itertools.combinations(range(first, end), 2):
            low, high = sorted((who[a], who[b]))
            shared[low * 6 + high] += 1
            equal[low * 6 + high] += label[a] == label[b]
    counts = pair_counts(start, who, label, 6)
    order = np.argsort(counts["pair"])
    assert np.array_equal(counts["pair"][order], np.flatnonzero(shared))
    assert np.array_equal(counts["shared"][order], shared[shared > 0])
    assert np.array_equal(counts["equal"][order], equal[shared > 0])


@pytest.mark.parametrize("copied", [0.0, 0.8, 1.0])
def test_who_copies_is_found(copied: float) -> None:
    for seed in range(8):
        pairs = found(*votes(seed, copied))
        assert [(one.first, one.second) for one in pairs] == [("bob", "fay")] * (copied > 0)
        assert all(one.agreement > one.expected + 0.1 for one in pairs)
        assert all(one.expected == pytest.approx(0.53, abs=0.15) for one in pairs)


def test_single_labels_and_few_annotators_have_no_pairs() -> None:
    n, label = 300, np.arange(300) % 3
    assert found(np.arange(n + 1), (np.arange(n) % 6).astype(np.int32), label) == []
    three = (np.arange(3 * n) % 3).astype(np.int32)
    assert found(3 * np.arange(n + 1), three, np.repeat(label, 3)) == []


def test_of_many_independent_annotators_none_are_named() -> None:
    n, per, c = 20_000, 12, 3
    rng = np.random.default_rng(1)
    true, skill = rng.integers(0, c, n), rng.uniform(0.45, 0.95, 250)
    who = np.sort(np.argpartition(rng.random((n, 250)), per, axis=1)[:, :per], axis=1)
    wrong = (true[:, None] + rng.integers(1, c, who.shape)) % c
    label = np.where(rng.random(who.shape) < skill[who], true[:, None], wrong).ravel()
    given = np.zeros((250, c))
    np.add.at(given, (who.ravel(), label), 1)
    counts = pair_counts(per * np.arange(n + 1), who.ravel().astype(np.int32), label, 250)
    assert alike(range(250), [counts], given) == []
