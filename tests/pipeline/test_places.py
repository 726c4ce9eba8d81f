"""Row numbers are looked up as in a dictionary, by either kind of table."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import generators

from pipeline.knn.lists import ABSENT
from pipeline.knn.places import distinct, places

FIRST = st.sampled_from([0, 300, 2**40])
"""Numbers from here on: a table with a place for each, or one of open addresses."""


@given(generators(), st.integers(0, 40), st.integers(0, 60), FIRST)
@settings(max_examples=100, deadline=None)
def test_places_are_found(
    rng: np.random.Generator, n_known: int, n_wanted: int, first: int
) -> None:
    known = rng.permutation(first + np.arange(100))[:n_known]
    wanted = np.append(first + rng.integers(0, 100, n_wanted), ABSENT)
    place = {row: at for at, row in enumerate(known.tolist())}
    assert places(known, wanted).tolist() == [place.get(row, ABSENT) for row in wanted.tolist()]


@given(generators(), st.integers(0, 3000), st.integers(1, 2000), FIRST)
@settings(max_examples=60, deadline=None)
def test_distinct_rows_are_those_of_a_set(
    rng: np.random.Generator, n: int, n_known: int, first: int
) -> None:
    row = np.append(first + rng.integers(0, n_known, n), [ABSENT, ABSENT])
    assert distinct(row.reshape(2, -1) if n % 2 == 0 else row).tolist() == sorted(
        set(row.tolist()) - {ABSENT}
    )
