"""PL A-kNN against Algorithm 2 line by line; masks, votes, its own choice of c1 and T, features."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.study.beside import most_voted, predict_aknn, preprocess
from benchmarks.study.pools import bags
from pipeline.diagnostics.neighborhood import mean_distance
from pipeline.methods.partial_features import (
    PIPELINES,
    Preprocessing,
    density_scaled,
    least_reach,
    smoothed,
)
from pipeline.methods.partial_labels import (
    AdaptiveParams,
    agreement,
    choose,
    disambiguate,
    pack,
    predict,
    reordered,
    unpack,
)

SEED = st.integers(0, 2**32 - 1)


def algorithm_2(
    sets: list[set[int]],
    n_classes: int,
    n: int,
    params: AdaptiveParams,
    start: set[int] | None = None,
) -> tuple[int, int, int, int]:
    """Algorithm 2 of appendix D, with M exact: label, neighbors used, labels left, neighbors among
    which the label came closest; from all labels or from those given."""
    a = params.c1 * math.sqrt(math.log(n) + math.log(n_classes / params.delta))
    left, k = set(range(n_classes)) if start is None else set(start), 0
    tau = [0] * n_classes
    m: dict[tuple[int, int], Fraction] = {}
    while len(left) > 1 and k < min(params.most_neighbors, len(sets)):
        k += 1
        for y in sets[k - 1]:
            tau[y] += 1
        m1, m2 = sorted((tau[y] for y in left), reverse=True)[:2]
        for y in list(left):
            ahead = tau[y] - m2
            m[k, y] = -Fraction(ahead * abs(ahead), k)  # orders as M(k, y) does
            if (m1 - tau[y]) / k >= a / math.sqrt(k):
                left.remove(y)
    seen = {at: value for at, value in m.items() if at[1] in left}
    best = min(seen, key=lambda at: (seen[at], at)) if seen else (0, min(left))
    return best[1], k, len(left), best[0]


def random_bags(seed: int, n: int, n_classes: int) -> NDArray[np.bool_]:
    rng = np.random.default_rng(seed)
    candidate = rng.random((n, n_classes)) < rng.uniform(0.05, 0.7, n_classes)
    candidate[np.arange(n), rng.integers(0, n_classes, n)] = True
    return candidate


@given(SEED, st.integers(2, 130), st.integers(1, 40), st.sampled_from([0.05, 0.2, 0.5, 2.0]))
@settings(max_examples=150, deadline=None)
def test_against_the_print(seed: int, n_classes: int, length: int, c1: float) -> None:
    rng = np.random.default_rng(seed)
    candidate = random_bags(seed, 50, n_classes)
    neighbor = np.stack([rng.permutation(50)[:length] for _ in range(12)])
    params = AdaptiveParams(c1, 0.1, 30)
    found = predict(neighbor, pack(candidate), n_classes, 50, params)
    for q, row in enumerate(neighbor):
        sets = [set(np.flatnonzero(candidate[j]).tolist()) for j in row]
        want = algorithm_2(sets, n_classes, 50, params)
        said = found.label[q], found.n_neighbors[q], found.n_labels[q], found.n_closest[q]
        assert said == want


@given(SEED, st.integers(2, 130), st.sampled_from([0.05, 0.3, 2.0]))
@settings(max_examples=80, deadline=None)
def test_the_likeliest_of_the_own_candidates(seed: int, n_classes: int, c1: float) -> None:
    rng = np.random.default_rng(seed)
    candidate, own = random_bags(seed, 50, n_classes), random_bags(seed + 1, 12, n_classes)
    neighbor = np.stack([rng.permutation(50)[:25] for _ in range(12)])
    params = AdaptiveParams(c1, 0.1, 20)
    args = n_classes, 50, params
    answer = predict(neighbor, pack(candidate), *args)
    found = disambiguate(neighbor, pack(candidate), pack(own), answer, *args)
    for q, row in enumerate(neighbor):
        said, mine = int(answer.label[q]), set(np.flatnonzero(own[q]).tolist())
        assert found.in_candidates[q] == (said in mine)
        if said in mine:
            assert (found.label[q], found.quality[q]) == (said, 1.0)
            continue
        sets = [set(np.flatnonzero(candidate[j]).tolist()) for j in row]
        label = algorithm_2(sets, n_classes, 50, params, mine)[0]
        used = candidate[row[: answer.n_closest[q]]]
        lead = max(0, int(used[:, said].sum()) - int(used[:, label].sum()))
        assert found.label[q] == label
        assert np.isclose(found.quality[q], math.exp(-(lead**2) / (2 * max(1, len(used)))))


@given(SEED, st.integers(2, 130))
@settings(max_examples=50, deadline=None)
def test_bits_are_moved_to_the_codes_of_their_classes(seed: int, n_classes: int) -> None:
    place = np.random.default_rng(seed).permutation(n_classes)
    candidate = random_bags(seed, 20, n_classes)
    wide = np.pad(pack(candidate), ((0, 0), (0, 2)))
    moved = reordered(wide, place)
    assert np.array_equal(unpack(moved, n_classes)[:, place], candidate)
    assert np.array_equal(moved, pack(candidate[:, np.argsort(place)]))


@given(SEED, st.integers(2, 9))
@settings(max_examples=40, deadline=None)
def test_rows_without_candidates_are_passed_over(seed: int, n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    candidate = random_bags(seed, 40, n_classes)
    candidate[rng.random(40) < 0.4] = False
    neighbor = rng.permutation(40)[None]
    kept = neighbor[:, candidate[neighbor[0]].any(axis=1)]
    ends = np.concatenate([kept, np.full((1, 3), -1), neighbor], axis=1)
    mask, params = pack(candidate), AdaptiveParams(0.4, 0.1, 100)
    runs = [predict(lists, mask, n_classes, 40, params) for lists in (neighbor, kept, ends)]
    for run in runs[1:]:
        for name in ("label", "n_neighbors", "n_labels"):
            assert getattr(run, name) == getattr(runs[0], name)


@given(SEED, st.integers(1, 200))
@settings(deadline=None)
def test_masks_round_trip(seed: int, n_classes: int) -> None:
    candidate = random_bags(seed, 20, n_classes)
    mask = pack(candidate)
    assert mask.dtype == np.uint64
    assert np.array_equal(unpack(mask, n_classes), candidate)
    for row, sets in zip(mask.tolist(), candidate, strict=True):
        value = sum(word << (64 * at) for at, word in enumerate(row))
        assert value == sum(1 << int(c) for c in np.flatnonzero(sets))


@given(SEED, st.integers(2, 12))
@settings(max_examples=50, deadline=None)
def test_baselines_by_loops(seed: int, n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    candidate = random_bags(seed, 60, n_classes)
    neighbor = np.stack([rng.permutation(60)[:30] for _ in range(10)])
    sizes = np.array([1, 4, 10, 30])
    votes = most_voted(neighbor, pack(candidate), n_classes, sizes)
    params = AdaptiveParams(0.2, 0.1, 30)
    adaptive = predict_aknn(neighbor, pack(candidate), n_classes, 60, params)
    a = params.margin(60, n_classes)
    for q, row in enumerate(neighbor):
        count = np.cumsum(candidate[row], axis=0)
        assert votes[q].tolist() == [int(np.argmax(count[k - 1])) for k in sizes]
        over = [
            k for k in range(1, 31) if count[k - 1].max() / k - 1 / n_classes >= a / math.sqrt(k)
        ]
        assert adaptive[q] == np.argmax(count[(over or [30])[0] - 1])


@given(SEED, st.integers(2, 80))
@settings(max_examples=30, deadline=None)
def test_agreement_counts_hits_and_adds_up(seed: int, n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    candidate = random_bags(seed, 30, n_classes)
    candidate[3] = False
    neighbor = np.stack([rng.permutation(30)[:20] for _ in range(30)])
    mask, stops = pack(candidate), np.array([1, 2, 5, 17, 20])
    margins = np.array([AdaptiveParams(c1).margin(30, n_classes) for c1 in (0.1, 0.3)])
    hits = agreement(neighbor, mask, mask, n_classes, margins, stops)
    for at, c1 in enumerate((0.1, 0.3)):
        for stop, found in zip(stops.tolist(), hits[at], strict=True):
            alone = predict(neighbor, mask, n_classes, 30, AdaptiveParams(c1, 0.1, stop)).label
            assert found == candidate[np.arange(30), alone].sum()
    halves = [
        agreement(neighbor[p], mask, mask[p], n_classes, margins, stops)
        for p in (slice(None, 11), slice(11, None))
    ]
    assert np.array_equal(sum(halves), hits)


def test_choice_averages_over_cells() -> None:
    hits = np.zeros((4, 5), np.int64)
    hits[0, 0] = 10
    hits[2:, 2:] = 9
    assert choose(hits, (0.1, 0.2, 0.3, 0.4), (1, 2, 3, 4, 5)) == AdaptiveParams(0.4, 0.1, 4)


def test_it_converges_where_labels_are_aligned() -> None:
    """One wrong label is in three of four bags; the true one in all: errors vanish as n grows."""
    errors = []
    for n in (200, 2_000, 20_000):
        rng = np.random.default_rng(n)
        x, query = np.sort(rng.random(n)), rng.random(300)
        y, truth = (4 * x).astype(int), (4 * query).astype(int)
        candidate = np.eye(4, dtype=bool)[y] | (
            np.eye(4, dtype=bool)[(y + 1) % 4] & (rng.random(n) < 0.75)[:, None]
        )
        neighbor = np.argsort(np.abs(query[:, None] - x), axis=1)[:, : n // 10]
        params = AdaptiveParams(0.5, 1 / n, n // 10)
        errors.append((predict(neighbor, pack(candidate), 4, n, params).label != truth).mean())
    assert errors[0] > errors[2]
    assert errors[2] < 0.02


def test_bags_follow_their_description() -> None:
    rng = np.random.default_rng(0)
    y, cluster = rng.integers(0, 6, 60_000), rng.integers(0, 5, 60_000)
    clean = bags(y, cluster, 6, 0.0, 1)
    assert clean[np.arange(len(y)), y].all()
    assert np.array_equal(clean, bags(y, cluster, 6, 0.0, 1))
    for label in range(6):
        for part in range(5):
            rate = clean[(y == label) & (cluster == part)].mean(axis=0)
            wrong = np.delete(rate, label)
            assert wrong.max() < 0.85
            assert np.ptp(wrong) < 0.1
    noisy = bags(y, cluster, 6, 0.5, 1)
    assert 0.5 < noisy[np.arange(len(y)), y].mean() < 0.85


@pytest.mark.parametrize("how", [*PIPELINES.values(), Preprocessing(0.4, 7, n_smooth=3)])
def test_features_row_by_row(how: Preprocessing) -> None:
    rng = np.random.default_rng(3)
    train, test = rng.normal(1, 2, (150, 5)).astype(np.float32), rng.normal(1, 2, (20, 5))
    found = preprocess(train, test.astype(np.float32), how)

    def first(x: NDArray[np.float64]) -> NDArray[np.float64]:
        x = np.sign(x) * np.abs(x) ** (1 / 3) if how.cube_root else x - train.mean(axis=0)
        return x / np.linalg.norm(x)

    def near(
        x: NDArray[np.float64], pool: list[NDArray[np.float64]], k: int
    ) -> list[tuple[float, int]]:
        far = [
            (float(np.linalg.norm(x - other)), j) for j, other in enumerate(pool) if other is not x
        ]
        return sorted(far)[:k]

    def smooth(x: NDArray[np.float64], pool: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        lists = near(x, pool, how.n_smooth)
        sigma = np.median([d for d, _ in lists])
        weight = np.exp([-(d**2) / (2 * sigma**2) for d, _ in lists])
        mean = sum(w * pool[j] for w, (_, j) in zip(weight / weight.sum(), lists, strict=True))
        out = (1 - how.alpha) * x + how.alpha * mean
        return out / np.linalg.norm(out)

    own = [first(row) for row in train.astype(float)]
    own = [smooth(row, own) for row in own]
    query = [smooth(first(row), own) for row in test]
    for rows, result in ((own, found[0]), (query, found[1])):
        want = [x / np.mean([d for d, _ in near(x, own, how.n_density)]) for x in rows]
        np.testing.assert_allclose(result, want, rtol=2e-4, atol=1e-5)


def test_features_of_copies_are_finite() -> None:
    train = np.repeat(np.random.default_rng(0).normal(size=(4, 3)), 60, axis=0).astype(np.float32)
    train[0] = train.mean(axis=0)
    for rows in preprocess(train, train[:5], PIPELINES["averaged"]):
        assert np.isfinite(rows).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 4))
@settings(max_examples=40, deadline=None)
def test_lists_that_end_count_as_shorter_ones(seed: int, length: int, spare: int) -> None:
    rng = np.random.default_rng(seed)
    train = rng.normal(size=(30, 3)).astype(np.float32)
    near = rng.integers(0, 30, (8, length))
    away = np.sort(rng.choice([0.0, 0.5, 1.0, 2.0], (8, length)), axis=1).astype(np.float32)
    ended = np.pad(near, ((0, 0), (0, spare)), constant_values=-1)
    beyond = np.pad(away, ((0, 0), (0, spare)), constant_values=np.inf)
    short = smoothed(train[:8], train, near, away, 0.25)
    assert np.allclose(smoothed(train[:8], train, ended, beyond, 0.25), short, rtol=1e-6)
    assert np.allclose(mean_distance(beyond), mean_distance(away))


def test_rows_among_copies_take_the_least_reach() -> None:
    mean = np.array([0.0, 0.5, 2.0])
    assert least_reach(mean) == 0.5
    assert least_reach(np.zeros(2)) == 1.0
    scaled = density_scaled(np.ones((3, 2), np.float32), mean, least_reach(mean))
    assert scaled.tolist() == [[2.0, 2.0], [2.0, 2.0], [0.5, 0.5]]


def test_bad_input_says_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="c1 > 0"):
        AdaptiveParams(c1=0.0)
    with pytest.raises(ValueError, match="training rows"):
        preprocess(
            np.zeros((20, 2), np.float32), np.zeros((2, 2), np.float32), PIPELINES["averaged"]
        )
