"""Annotators: one pass against a loop, laws of the rounds, and simulated skills found again."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from strategies import generators

from benchmarks.study.beside import consensus_of
from pipeline.knn.exact import nearest
from pipeline.knn.lists import nearness
from pipeline.noise.annotator_kernels import (
    ALPHA,
    CANDIDATES,
    DAMPED,
    HALVED,
    LEAST,
    MIXED,
)
from pipeline.noise.annotator_matrices import (
    TYPICAL,
    Agreement,
    PriorMatrix,
    change,
    known_share,
    maximize,
    started,
)
from pipeline.noise.annotator_verdicts import verdicts_on
from pipeline.noise.annotators import (
    CERTAIN,
    EDGES,
    NEAR,
    Expected,
    RowLabels,
    Skills,
    expect,
)


class Drawn(NamedTuple):
    """Rows, their neighbors and what annotators say."""

    near: np.ndarray
    weight: np.ndarray
    labels: RowLabels
    skills: Skills


def ragged(rows: list[list[tuple[int, int]]]) -> RowLabels:
    """Lists of (annotator, label) as arrays."""
    start = np.cumsum([0, *map(len, rows)])
    flat = np.array([pair for row in rows for pair in row], np.int32).reshape(-1, 2)
    return RowLabels(start, flat[:, 0].copy(), flat[:, 1].copy())


def listed(labels: RowLabels) -> list[list[tuple[int, int]]]:
    """The same the other way round."""
    pairs = list(zip(labels.annotator.tolist(), labels.label.tolist(), strict=True))
    return [pairs[a:b] for a, b in zip(labels.start, labels.start[1:], strict=False)]


def drawn(rng: np.random.Generator, c: int, n: int = 12, n_annotators: int = 4) -> Drawn:
    who = [rng.permutation(n_annotators)[: rng.integers(0, 4)] for _ in range(n)]
    rows = [[(int(j), int(rng.integers(c))) for j in some] for some in who]
    rows[0] = [(CERTAIN, 0), *rows[0]]
    weight = rng.random((n, 5)) * (rng.random((n, 5)) < 0.8)
    matrix = rng.dirichlet(np.ones(c), (n_annotators, c))
    sure = np.where(rng.random((c, len(EDGES))) < 0.5, np.nan, rng.random((c, len(EDGES))))
    skills = Skills(matrix, rng.dirichlet(np.ones(c)), sure)
    return Drawn(rng.integers(0, n, (n, 5)), weight, ragged(rows), skills)


def twin(case: Drawn) -> tuple[np.ndarray, Expected]:
    """(row, class) chances that are said and sums, in plain NumPy."""
    rows, skills = listed(case.labels), case.skills
    n_annotators, c, _ = skills.matrix.shape
    like = np.ones((len(rows), c))
    for row, some in enumerate(rows):
        for j, b in some:
            like[row] *= (
                np.where(np.arange(c) == b, 1, np.exp(-30))
                if j == CERTAIN
                else (np.maximum(skills.matrix[j, :, b], LEAST))
            )
        like[row] /= like[row].sum()
    sums, share = Expected.none(n_annotators, c), (skills.prior + LEAST)
    share, posterior = share / share.sum(), np.zeros((len(rows), c))
    for row, some in enumerate(rows):
        f = share
        for _ in range(MIXED):
            each = f * like[case.near[row]]
            f = ALPHA * share + case.weight[row] @ (each / each.sum(axis=1, keepdims=True))
            f = f / f.sum()
        top = int(f.argmax())
        level = int(np.flatnonzero(f[top] >= EDGES)[-1])
        if not np.isnan(chance := skills.sure[top, level]):
            chance = np.clip(chance, 1e-6, 1 - 1e-6)
            f = f * (1 - chance) / max(1 - f[top], LEAST)
            f[top] = chance
            f = np.maximum(f, LEAST) / np.maximum(f, LEAST).sum()
        q, said, half = (
            f * like[row] ** power for power in (1.0, DAMPED if len(some) > 1 else 1.0, HALVED)
        )
        q, half, posterior[row] = q / q.sum(), half / half.sum(), said / said.sum()
        sums.prior[:] += q
        sums.sure[top, level] += 1, q[top], q[top] * (1 - q[top])
        for j, b in some:
            if j == CERTAIN:
                for _, other in some[1:]:
                    sums.checked[b, other] += 1
            else:
                sums.counts[j, :, b] += q
                sums.right[j] += 1, q[b], q[b] * (1 - q[b]), half[b]
    return posterior, sums


@settings(max_examples=30, deadline=None)
@given(generators(), st.integers(2, 5))
def test_a_pass_is_that_of_a_loop(rng: np.random.Generator, c: int) -> None:
    case = drawn(rng, c)
    judged, sums = expect(np.arange(12), *case[:2], case.labels, case.skills)
    posterior, expected = twin(case)
    assert judged.certainty == pytest.approx(posterior.max(axis=1))
    assert posterior[np.arange(12), judged.consensus] == pytest.approx(posterior.max(axis=1))
    for name, value in vars(expected).items():
        assert getattr(sums, name) == pytest.approx(value), name
    counted = [[b for j, b in row if j != CERTAIN] for row in listed(case.labels)]
    assert judged.n_annotations.tolist() == [len(row) for row in counted]
    assert judged.n_agreeing.tolist() == [
        row.count(int(b)) for row, b in zip(counted, judged.consensus, strict=True)
    ]


def test_of_many_classes_those_that_are_said_are_looked_at() -> None:
    rng, c = np.random.default_rng(0), CANDIDATES + 8
    matrix = np.full((4, c, c), 0.2 / (c - 1)) + np.eye(c) * (0.8 - 0.2 / (c - 1))
    rows = [[(j, int(rng.integers(c))) for j in range(3)] for _ in range(30)]
    near = rng.integers(0, 30, (30, 20))
    skills = started(matrix[0], 4, np.full(c, 1 / c))
    judged, sums = expect(np.arange(30), near, np.ones((30, 20)), ragged(rows), skills)
    for row, b in enumerate(judged.consensus):
        assert any(b == label for i in (row, *near[row]) for _, label in rows[i])
    assert sums.counts.sum() == pytest.approx(90)


@settings(max_examples=15, deadline=None)
@given(generators())
def test_blocks_add_up_and_the_order_of_annotations_does_not_matter(
    rng: np.random.Generator,
) -> None:
    case = drawn(rng, 3)
    whole, sums = expect(np.arange(12), *case[:2], case.labels, case.skills)
    shuffled = ragged([[row[i] for i in rng.permutation(len(row))] for row in listed(case.labels)])
    parts = [
        expect(np.arange(12)[some], case.near[some], case.weight[some], shuffled, case.skills)
        for some in (slice(5), slice(5, None))
    ]
    assert np.array_equal(np.concatenate([p[0].consensus for p in parts]), whole.consensus)
    assert np.concatenate([p[0].certainty for p in parts]) == pytest.approx(whole.certainty)
    for name in vars(sums):
        assert getattr(parts[0][1], name) + getattr(parts[1][1], name) == pytest.approx(
            getattr(sums, name)
        )


class Pool(NamedTuple):
    """A simulated pool."""

    true: np.ndarray
    near: np.ndarray
    weight: np.ndarray
    labels: RowLabels
    matrix: np.ndarray


def simulated(
    skills: list[float],
    per_row: int,
    c: int = 3,
    n: int = 900,
    seed: int = 0,
    apart: float = 2.2,
) -> Pool:
    """Clouds of c classes, and annotators who err alike for all other classes."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, c, n)
    x = (rng.normal(size=(n, 2)) + apart * np.column_stack([true, true == 1])).astype(np.float32)
    neighbor, distance = nearest(x, x, 30, exclude=np.arange(n))
    matrix = np.stack(
        [np.full((c, c), (1 - s) / (c - 1)) + np.eye(c) * (s - (1 - s) / (c - 1)) for s in skills]
    )
    who = [rng.permutation(len(skills))[:per_row] for _ in range(n)]
    rows = [
        [(int(j), int(rng.choice(c, p=matrix[j, true[i]]))) for j in some]
        for i, some in enumerate(who)
    ]
    return Pool(true, neighbor, nearness(distance[:, :NEAR]), ragged(rows), matrix)


def consensus(pool: Pool, given: np.ndarray | None = None) -> tuple:
    c = pool.matrix.shape[1]
    given = pool.matrix.mean(axis=0) if given is None else given
    shares = np.bincount(pool.labels.label, minlength=c) / len(pool.labels.label)
    return consensus_of(pool.near, pool.weight, pool.labels, len(pool.matrix), given, shares)


def test_simulated_skills_are_found_again() -> None:
    pool = simulated([0.95, 0.85, 0.75, 0.6, 0.34], 3)
    judged, sums, skills = consensus(pool)
    rows = listed(pool.labels)
    majority = [np.bincount([b for _, b in row]).argmax() for row in rows]
    assert (judged.consensus == pool.true).mean() > (majority == pool.true).mean() + 0.05
    assert judged.certainty.mean() == pytest.approx(
        (judged.consensus == pool.true).mean(), abs=0.03
    )
    assert np.abs(skills.matrix - pool.matrix).sum(axis=2).mean() < 0.12
    found = {one.value: one for one in verdicts_on("abcde", sums, skills, shared=True)}
    assert next(iter(found)) == "e"
    for name, skill in zip("abcde", [0.95, 0.85, 0.75, 0.6, 0.34], strict=True):
        assert found[name].interval[0] - 0.03 < skill < found[name].interval[1] + 0.03
        assert found[name].support == "supported"
    assert {one.support for one in verdicts_on("abcde", sums, skills, shared=False)} == {"weak"}


def test_single_labels_take_the_matrix_of_the_labels_given() -> None:
    pool = simulated([0.9, 0.8, 0.6], 1)
    judged, _, skills = consensus(pool)
    given = np.array([row[0][1] for row in listed(pool.labels)])
    assert (judged.consensus == pool.true).mean() > (given == pool.true).mean() + 0.08
    assert np.diagonal(skills.matrix, axis1=1, axis2=2).mean(axis=1).argsort().tolist() == [2, 1, 0]


def test_single_labels_stand_where_neighbors_tell_nothing() -> None:
    pool, rng = simulated([0.9, 0.8, 0.6], 1), np.random.default_rng(0)
    pool = pool._replace(near=rng.integers(0, len(pool.true), pool.near.shape))
    for start in (np.full((3, 3), 1 / 3), pool.matrix.mean(axis=0)):
        judged, sums, skills = consensus(pool, start)
        assert (judged.consensus == pool.labels.label).mean() > 0.97
        assert {one.support for one in verdicts_on("abc", sums, skills, False)} == {"unsupported"}


@pytest.mark.parametrize("seed", range(3))
def test_single_labels_are_no_worse_for_neighbors_of_overlapping_classes(seed: int) -> None:
    pool = simulated([0.9, 0.8, 0.7], 1, c=2, n=600, seed=seed, apart=0.6)
    share = np.mean(pool.labels.label == pool.true)
    for start in (0.6, 0.7, 0.8):
        judged, _, _ = consensus(pool, np.array([[start, 1 - start], [1 - start, start]]))
        right = (judged.consensus == pool.true).mean()
        assert right > share - np.sqrt(share * (1 - share) / 600)
        assert judged.certainty.mean() == pytest.approx(right, abs=0.1)


def test_neighbors_are_asked_about_single_labels_as_far_as_they_are_right() -> None:
    pool = simulated([0.95, 0.75, 0.5, 0.34], 1, n=2000)
    majority = (pool.labels.label == pool.true).mean()
    judged, _, _ = consensus(pool, np.full((3, 3), 0.2) + 0.4 * np.eye(3))
    right = (judged.consensus == pool.true).mean()
    assert right > majority + 0.1
    assert judged.certainty.mean() == pytest.approx(right, abs=0.05)


@given(generators(), st.integers(2, 5))
def test_single_labels_move_the_mean_of_all_only_where_rows_are_checked(
    rng: np.random.Generator, c: int
) -> None:
    first = PriorMatrix.of(Agreement(0, 0, 0, 0), 100, rng.dirichlet(np.ones(c), c))
    assert first.matrix.sum(axis=1) == pytest.approx(1)
    assert (np.diag(first.matrix) >= TYPICAL - 1e-9).all()
    sums = Expected.none(1, c)
    sums.counts[0] = rng.integers(100, 200, (c, c))
    sums.prior[:], sums.sure[:] = 1, 1
    sums.right[0] = sums.counts.sum(), np.trace(sums.counts[0]), 0, 0
    assert maximize(sums, first).matrix[0] == pytest.approx(first.matrix, abs=1e-3)
    sums.checked[:] = sums.counts[0]
    rates = sums.checked / sums.checked.sum(axis=1, keepdims=True)
    assert maximize(sums, first).matrix[0] == pytest.approx(rates, abs=0.01)


def test_intervals_hold_where_rows_are_hard() -> None:
    pool, rng, able = (
        simulated([0.5] * 10, 3, n=2000),
        np.random.default_rng(0),
        np.linspace(0, 3, 10),
    )
    start, who = pool.labels.start, pool.labels.annotator
    row = np.repeat(np.arange(2000), np.diff(start))
    right = rng.random(len(row)) < expit(able[who] * np.exp(rng.normal(0, 1.5, 2000))[row])
    label = np.where(right, pool.true[row], (pool.true[row] + 1) % 3).astype(np.int32)
    hard = pool._replace(labels=RowLabels(start, who, label))
    _, sums, skills = consensus(hard)
    share = np.bincount(who, right) / np.bincount(who)
    found = verdicts_on(range(10), sums, skills, shared=True)
    held = [one.interval[0] <= share[int(one.value)] <= one.interval[1] for one in found]
    assert all(held)


def test_renamed_classes_rename_the_matrices() -> None:
    pool, rename = simulated([0.9, 0.7, 0.6], 2), np.array([2, 0, 1])
    other = RowLabels(
        pool.labels.start, pool.labels.annotator, rename[pool.labels.label].astype(np.int32)
    )
    one, _, skills = consensus(pool)
    two, _, renamed = consensus(pool._replace(labels=other))
    assert (rename[one.consensus] == two.consensus).mean() > 0.999
    assert renamed.matrix[:, rename[:, None], rename] == pytest.approx(skills.matrix, abs=1e-6)


def test_one_perfect_annotator_is_right_where_the_others_agree_on_nothing() -> None:
    pool = simulated([1.0, 0.5, 0.45, 0.4], 4)
    judged, sums, skills = consensus(pool)
    assert verdicts_on("abcd", sums, skills, shared=True)[-1].value == "a"
    assert (judged.consensus == pool.true).mean() > 0.97


def test_certain_labels_are_the_consensus() -> None:
    pool = simulated([0.7, 0.6], 2, n=300)
    rows = listed(pool.labels)
    for row in range(50):
        rows[row] = [(CERTAIN, int(pool.true[row])), *rows[row]]
    judged, _, _ = consensus(pool._replace(labels=ragged(rows)))
    assert np.array_equal(judged.consensus[:50], pool.true[:50])
    assert (judged.certainty[:50] > 0.999).all()


@given(generators(), st.integers(2, 4))
def test_agreement_is_that_of_a_loop(rng: np.random.Generator, c: int) -> None:
    rows = [rng.integers(0, c, rng.integers(0, 5)).tolist() for _ in range(10)]
    start = np.cumsum([0, *map(len, rows)])
    found = Agreement.of(start, np.array([b for row in rows for b in row], np.int64), c)
    pairs = [(a == b) for row in rows for i, a in enumerate(row) for b in row[:i]]
    several = [row for row in rows if len(row) > 1]
    alike = sum(len(set(row)) == 1 for row in several)
    assert found == Agreement(len(several), alike, len(pairs), sum(pairs))


def test_annotators_start_as_good_as_they_agree() -> None:
    right = 0.8
    equal = right**2 + (1 - right) ** 2 / 2
    agreement = Agreement(1000, 0, 100_000, round(100_000 * equal))
    for n_rows in (1000, 10_000):  # a tenth of the rows is shared: agreement says it all the same
        found = PriorMatrix.of(agreement, n_rows, np.eye(3)).matrix
        assert np.diag(found) == pytest.approx(right, abs=0.001)
        assert found.sum(axis=1) == pytest.approx(1)
    few = PriorMatrix.of(Agreement(30, 0, 30, 18), 10_000, np.eye(3)).matrix
    assert np.diag(few) == pytest.approx(0.87, abs=0.01)  # between .99, the labels', and .755


def test_who_labeled_little_is_taken_for_the_whole() -> None:
    sums, first = Expected.none(2, 2), PriorMatrix(np.full((2, 2), 0.5), 0.0)
    sums.prior[:], sums.sure[:] = 1, 1
    counts = sums.counts
    counts[0] = [[900, 100], [300, 700]]
    skills = maximize(sums, first)
    assert skills.matrix[1] == pytest.approx(skills.matrix[0], abs=0.01)
    counts[1] = [[0, 4], [0, 0]]
    skills = maximize(sums, first)
    assert 0.3 < skills.matrix[1, 0, 0] < 0.8
    assert skills.matrix[1, 1, 1] < skills.matrix[0, 1, 1]


def test_shares_of_classes_add_up() -> None:
    sums = Expected.none(2, 3)
    sums.prior[:], sums.sure[:], sums.counts[:] = [3, 1, 4], 1, 1
    skills = maximize(sums, PriorMatrix(np.full((3, 3), 1 / 3), 0.5))
    assert skills.prior == pytest.approx([0.375, 0.125, 0.5])


def test_labels_are_known_as_far_as_their_rows_are_decided() -> None:
    """Of 10 labels with 8 right, 1.6 is the variance of the number right where nothing is known."""
    labels, right = np.full(4, 10.0), np.full(4, 8.0)
    known = known_share(labels, right, np.array([0.0, 0.4, 0.8, 3.2]))
    assert known == pytest.approx([1.0, 0.75, 0.5, 0.0])
    assert known_share(np.zeros(1), np.zeros(1), np.zeros(1)) == 1.0


def test_change_is_that_of_the_labels_that_move() -> None:
    still = Skills(np.stack([np.eye(2)] * 2), np.ones(2) / 2, np.ones((2, len(EDGES))))
    matrix = still.matrix.copy()
    matrix[1, 0] = [0.75, 0.25]
    counts = np.array([[[60.0, 0], [0, 20]], [[20, 0], [0, 0]]])
    assert change(still, still, counts) == 0.0
    assert change(still, replace(still, matrix=matrix), counts) == pytest.approx(0.5 * 20 / 100)
