"""Normal scores of features of heavy tails."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.blocks.curves import SHARE, Curves, curves


def amounts(n: int, seed: int, spread: float = 1.5) -> npt.NDArray[np.float32]:
    """Two columns of heavy tails, the second half of zeros; a normal one, and one of few values."""
    rng = np.random.default_rng(seed)
    heavy = np.exp(spread * rng.normal(size=(n, 2)))
    heavy[:, 1] *= rng.random(n) < 0.5
    few = rng.choice([0, 1, 2, 50], n, p=[0.6, 0.2, 0.15, 0.05])
    return np.column_stack([heavy[:, 0], rng.normal(size=n), heavy[:, 1], few]).astype(np.float32)


def score_of(value: float, knot: list[float], score: list[float]) -> float:
    """The value of a curve, knot by knot."""
    for end in (0, -1):
        if (value < knot[0], value > knot[-1])[end]:
            slope = (score[-1] - score[0]) / (knot[-1] - knot[0])
            return score[end] + slope * (value - knot[end])
    for at in range(len(knot) - 1):
        if value == knot[at]:
            return score[at]
        if knot[at] < value < knot[at + 1]:
            part = (value - knot[at]) / (knot[at + 1] - knot[at])
            return score[at] + part * (score[at + 1] - score[at])
    return score[-1]


@settings(deadline=None)  # the first compiles
@given(st.integers(0, 10**6), st.integers(20, 300))
def test_curves_are_those_of_knots_and_rise(seed: int, n: int) -> None:
    x = amounts(n, seed)
    found = curves(x)
    if found is None:
        return
    new = amounts(50, seed + 1, 2.5)
    new[0], new[1] = -10.0, 1e4
    after = found.apply(new)
    for place, knot, score in zip(*found, strict=True):
        expected = [score_of(float(v), knot.tolist(), score.tolist()) for v in new[:, place]]
        assert np.allclose(after[:, place], expected, rtol=1e-5, atol=1e-6)
        order = np.argsort(new[:, place], kind="stable")
        assert (np.diff(after[order, place]) >= 0).all()
    others = [at for at in range(x.shape[1]) if at not in found.place]
    assert np.array_equal(after[:, others], new[:, others])


def test_normal_scores_are_of_heavy_tails_alone() -> None:
    x = amounts(4001, 0)
    found = curves(x)
    assert found is not None
    assert found.place.tolist() == [0, 2]  # neither the normal column nor that of few values
    after, deviation = found.apply(x), x.std(axis=0, dtype=np.float64)
    for share in (0.1, 0.5, 0.9):  # van der Waerden's, in the column's own deviations
        score = np.quantile(after[:, 0], share) / deviation[0]
        assert abs(score - NormalDist().inv_cdf(share)) < 0.01
    zero = after[x[:, 2] == 0, 2]
    assert np.ptp(zero) == 0
    ranks = SHARE[(x[:, 2] == 0).mean() >= SHARE]
    mean = np.mean([NormalDist().inv_cdf(max(share, 0.5 / len(x))) for share in ranks])
    assert abs(zero[0] / deviation[2] - mean) < 1e-5
    assert curves(np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)) is None


def test_a_row_has_the_same_scores_whatever_stands_beside_it() -> None:
    x = amounts(500, 1)
    found = curves(x)
    assert isinstance(found, Curves)
    whole, before = found.apply(x), x.copy()
    assert np.array_equal(
        whole, np.concatenate([found.apply(x[at : at + 7]) for at in range(0, 500, 7)])
    )
    assert np.array_equal(x, before)
