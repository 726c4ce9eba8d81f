"""What Hypothesis draws: small pools with ties, and lists of neighbours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from pipeline.merge import ABSENT, Neighbours


@st.composite
def pools(draw: st.DrawFn, most_rows: int = 60) -> npt.NDArray[np.float32]:
    """(row, feature) float32: continuous or on a grid, wherever, at whatever scale."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, most_rows)), draw(st.integers(1, 5))
    x = rng.normal(size=(n, d))
    if draw(st.booleans()):
        x = np.round(x)
    x = x * 10.0 ** draw(st.integers(-6, 6)) + draw(st.sampled_from([0.0, 1.0, 1e4]))
    return x.astype(np.float32)


@st.composite
def candidate_lists(draw: st.DrawFn) -> tuple[npt.NDArray[np.int64], Neighbours, int]:
    """Homes, their lists, number of homes; a row has one distance to a home wherever listed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_homes, n_lists = draw(st.integers(1, 6)), draw(st.integers(0, 15))
    k, n_rows = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    table = np.round(rng.random((n_homes, n_rows)) * draw(st.sampled_from([2, 1000])))
    label = rng.integers(0, 2, n_rows).astype(np.int8)
    home = rng.integers(0, n_homes, n_lists)
    lists = Neighbours(
        np.full((n_lists, k), ABSENT, np.int64),
        np.full((n_lists, k), np.inf, np.float32),
        np.full((n_lists, k), ABSENT, np.int8),
    )
    for i, place in enumerate(home):
        chosen = rng.permutation(n_rows)[: rng.integers(0, k + 1)]
        chosen = np.array(sorted(chosen, key=lambda r: (table[place, r], r)), dtype=np.int64)
        lists.row[i, : len(chosen)] = chosen
        lists.distance[i, : len(chosen)] = table[place, chosen]
        lists.label[i, : len(chosen)] = label[chosen]
    return home, lists, n_homes
