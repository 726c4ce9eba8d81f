"""What Hypothesis draws: small pools with ties, and lists of neighbors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from pipeline.knn.lists import ABSENT, Neighbors
from pipeline.knn.lots import lots

Candidates = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32]]


@st.composite
def generators(draw: st.DrawFn) -> np.random.Generator:
    """A seeded generator."""
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1)))


@st.composite
def pools(draw: st.DrawFn, most_rows: int = 60) -> npt.NDArray[np.float32]:
    """(row, feature) float32: continuous, on a grid or mostly repeated; wherever, any scale."""
    rng = draw(generators())
    n, d = draw(st.integers(1, most_rows)), draw(st.integers(1, 5))
    x = rng.normal(size=(n, d))
    kind = draw(st.sampled_from(["continuous", "grid", "repeated"]))
    if kind == "grid":
        x = np.round(x)
    if kind == "repeated":
        x = x[rng.integers(0, min(n, 4), n)]
    x = x * 10.0 ** draw(st.integers(-12, 12)) + draw(st.sampled_from([0.0, 1.0, 1e4]))
    return x.astype(np.float32)


@st.composite
def candidates(draw: st.DrawFn) -> Candidates:
    """Loose (group, row, distance), in any order, repeated and tied."""
    rng = draw(generators())
    n = draw(st.integers(0, 80))
    group, row = rng.integers(0, draw(st.integers(1, 6)), n), rng.integers(0, 15, n)
    table = np.round(rng.random((6, 15)) * draw(st.sampled_from([0, 2, 1000])))
    return group, row, table[group, row].astype(np.float32)


@st.composite
def candidate_lists(draw: st.DrawFn) -> tuple[npt.NDArray[np.int64], Neighbors, int]:
    """Homes, their lists, number of homes; a row has one distance to a home wherever listed."""
    rng = draw(generators())
    n_homes, n_lists = draw(st.integers(1, 6)), draw(st.integers(0, 15))
    k, n_rows = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    table = np.round(rng.random((n_homes, n_rows)) * draw(st.sampled_from([2, 1000])))
    label = rng.integers(0, 2, n_rows).astype(np.int8)
    home = rng.integers(0, n_homes, n_lists)
    lists = Neighbors(
        np.full((n_lists, k), ABSENT, np.int64),
        np.full((n_lists, k), np.inf, np.float32),
        np.full((n_lists, k), ABSENT, np.int8),
    )
    for i, place in enumerate(home):
        chosen = rng.permutation(n_rows)[: rng.integers(0, k + 1)]
        chosen = chosen[np.lexsort((lots(chosen), table[place, chosen]))]
        lists.row[i, : len(chosen)] = chosen
        lists.distance[i, : len(chosen)] = table[place, chosen]
        lists.label[i, : len(chosen)] = label[chosen]
    return home, lists, n_homes


@st.composite
def near_blocks(draw: st.DrawFn) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """(row, width) distinct blocks of each row and their distances, ascending."""
    rng = draw(generators())
    n, width = draw(st.integers(1, 30)), draw(st.integers(1, 8))
    block = np.stack([rng.permutation(12)[:width] for _ in range(n)]).astype(np.int32)
    scale = draw(st.sampled_from([0, 1, 4]))
    distance = np.sort(np.round(1 + scale * rng.random((n, width)), 1), axis=1)
    return block, distance.astype(np.float32)


@st.composite
def chunk_sizes(draw: st.DrawFn, most: int = 40) -> list[int]:
    """Lengths of the chunks a stream comes in."""
    return draw(st.lists(st.integers(1, most), min_size=1, max_size=8))
