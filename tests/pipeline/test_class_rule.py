"""The corrected vote of many classes: equal to the dense one, whatever is left out."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.blocks.sampling import in_sample
from pipeline.decision.class_rule import decide, decide_weighed, share_of
from pipeline.decision.class_votes import CANDIDATES, vote_sizes
from pipeline.decision.quality import FLOOR, SHRINK, Reach, Weights, correction
from pipeline.decision.tempering import softened
from pipeline.noise.simplex import posterior_of_candidates, posterior_simplex


@given(st.integers(3, 12), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_candidates_that_are_all_classes_get_the_simplex_answer(c: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = 0.6 * np.eye(c) + 0.4 * rng.dirichlet(np.ones(c), c)
    share = rng.multinomial(20, np.ones(c) / c, 8) / 20
    code = np.tile(np.arange(c), (8, 1))
    found = posterior_of_candidates(code, share, matrix)
    assert np.allclose(found, posterior_simplex(share, matrix), atol=1e-6)
    fewer = np.where(code == c - 1, -1, code)
    found = posterior_of_candidates(fewer, share, matrix)
    assert np.allclose(found.sum(axis=1), 1)
    assert (found[:, -1] == 0).all()
    assert (posterior_of_candidates(np.full_like(code, -1), share, matrix) == 0).all()


@given(st.integers(3, 60), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_plain_vote_is_the_commonest_label(c: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    near = rng.integers(0, c, (15, 30))
    found = decide(near, c, 20, None)
    for row, predicted in zip(near[:, :20].tolist(), found.predicted.tolist(), strict=True):
        assert predicted == min(range(c), key=lambda label: (-row.count(label), label))
    there = found.code >= 0
    assert ((found.chance > 0) == there).all()  # 20 labels make no candidate sure or impossible
    assert (found.chance < 1.0).all()
    assert np.allclose(found.chance.sum(axis=1), 1.0)
    own = near[:, 0]
    assert np.allclose(share_of(near, 20, own), (near[:, :20] == own[:, None]).mean(axis=1))


@given(st.integers(3, 40), st.booleans(), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_a_weighed_vote_is_its_definition(c: int, reaching: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    near, sizes = rng.integers(-1, c, (6, 20)), vote_sizes(20)
    near[:, 0] = rng.integers(0, c, 6)
    floor = FLOOR * min(1.0, CANDIDATES / c)
    matrix = 0.6 * np.eye(c) + 0.4 * rng.dirichlet(np.ones(c), c)
    by = correction(matrix, rng.integers(1, 9, c))
    weights, far = Weights(rng.random(len(sizes)), rng.normal(size=(1, c))), np.zeros(6)
    distance = rng.exponential(2.0, 6).astype(np.float32)
    if reaching:
        scale = Reach.of(rng.exponential(2.0, 50).astype(np.float32))
        bias = np.vstack([weights.bias, rng.normal(size=(1, c))])
        weights, far = Weights(np.append(weights.weight, 0.5), bias, scale), scale.scores(distance)
    found = decide_weighed(near, by, weights, reach=distance)
    assert np.allclose(found.chance.sum(axis=1), 1)
    for i, row in enumerate(near.tolist()):
        there = [code for code in found.code[i].tolist() if code >= 0]
        score = []
        for code in there:
            shares: list[float] = []
            total = float(np.dot([1.0, far[i]][: len(weights.bias)], weights.bias[:, code]))
            for size, weight in zip(sizes, weights.weight[: len(sizes)], strict=True):
                listed = [label for label in row[:size] if label >= 0]
                kept = [label for label in listed if label in there]
                clean = sum(by.inverse[label, code] for label in kept) + SHRINK * by.prior[code]
                share = clean / (len(listed) + SHRINK)
                bent = 0.5 * (share + np.hypot(share, floor))
                shares.append(float(np.log(bent + floor)))
                total += float(weight) * shares[-1]
            score.append(total + 0.5 * far[i] * np.mean(shares))
        assert found.predicted[i] == there[int(np.argmax(score))]
        chance = np.exp(np.array(score) - max(score))
        assert np.allclose(found.chance[i][: len(there)], chance / chance.sum())


def test_a_softened_matrix_of_no_part_decides_like_the_plain_vote() -> None:
    rng = np.random.default_rng(0)
    near = rng.integers(0, 6, (500, 15))
    matrix = 0.7 * np.eye(6) + 0.3 * rng.dirichlet(np.ones(6), 6)
    plain, none = decide(near, 6, 15, None), decide(near, 6, 15, softened(matrix, np.ones(6), 0.0))
    assert np.allclose(share_of(near, 15, plain.predicted), share_of(near, 15, none.predicted))


def test_a_thousand_classes_decide_by_candidates() -> None:
    rng = np.random.default_rng(1)
    near = np.where(
        rng.random((40, 50)) < 0.7, np.arange(40)[:, None], rng.integers(0, 1000, (40, 50))
    )
    matrix = 0.8 * np.eye(1000) + 0.2 / 1000
    found = decide(near, 1000, 50, matrix)
    assert found.code.shape == (40, CANDIDATES)
    assert np.array_equal(found.predicted, np.arange(40))


def test_a_sample_is_told_row_by_row() -> None:
    rows = np.arange(100_000)
    drawn = in_sample(rows, 100_000, 20_000, 3, 7)
    assert abs(int(drawn.sum()) - 20_000) < 600
    assert np.array_equal(drawn[500:600], in_sample(rows[500:600], 100_000, 20_000, 3, 7))
    assert in_sample(rows, 20_000, 20_000, 3, 7).all()
