"""Labels that mean another class where somebody gives them: a loop, and what is not told."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import generators

from pipeline.knn.lists import wilson
from pipeline.noise.meanings import FEWEST, Meaning, other_meanings


@given(generators(), st.integers(2, 4), st.floats(0.3, 1.0))
def test_meanings_are_those_of_a_loop(
    rng: np.random.Generator, n_classes: int, sure: float
) -> None:
    n = int(rng.integers(0, 800))
    group, label = rng.integers(-1, 3, n), rng.integers(0, n_classes, n)
    likely = np.where(group == 1, (label + 1) % n_classes, label)
    likely = np.where(rng.random(n) < sure, likely, rng.integers(0, n_classes, n))
    expected = []
    for who in range(3):
        for code in range(n_classes):
            own, others = (label == code) & (group == who), (label == code) & (group != who)
            for means in set(range(n_classes)) - {code}:
                if min(own.sum(), others.sum()) < FEWEST:
                    continue
                here, there = (likely[rows] == means for rows in (own, others))
                low, high = wilson(here.mean(), len(here))[0], wilson(there.mean(), len(there))[1]
                if low > 0.5 > high:
                    expected.append(Meaning(who, code, means, len(here), here.mean()))
    assert other_meanings(group, label, likely) == expected


def test_a_group_that_guesses_and_a_rare_class_tell_nothing() -> None:
    rng = np.random.default_rng(0)
    group, likely = rng.integers(0, 4, (2, 8000)) % np.array([[4], [2]])
    guessed = np.where(group == 1, rng.integers(0, 2, 8000), likely)
    assert other_meanings(group, guessed, likely) == []
    seldom = np.where(rng.random(8000) < 0.05, 1, 0)  # and neighbors say 0 of nearly all
    assert other_meanings(group, seldom, np.zeros(8000, np.int64)) == []
    found = other_meanings(group, np.where(group == 1, 1 - likely, likely), likely)
    assert [(one.group, one.given, one.means) for one in found] == [(1, 0, 1), (1, 1, 0)]
