"""Places of wrong labels: planted ones are found by their bounds, and overlap is none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from strategies import generators

from pipeline.decision.odds import OUTSIDE
from pipeline.decision.where import (
    _matrix_there,
    find_places,
    is_outside,
    place_of,
    place_rates,
)
from pipeline.decision.whose import ROWS, Place, Whose
from pipeline.estimator import RobustKNeighborsClassifier


def apart_in(places: Sequence[Place]) -> npt.NDArray[np.bool_]:
    """(place + 1,) whether classes are told apart in each; False for the whole."""
    return np.array([*(len(one.matrix) > 0 for one in places), False])


def test_a_place_of_wrong_labels_is_found_by_its_bounds() -> None:
    """And nothing where labels are wrong alike, however classes overlap in a part of the space."""
    matrix, n = np.array([[0.9, 0.1], [0.1, 0.9]]), 4000
    alike = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.random((n, 3)).astype(np.float32)
        sure = np.where(x[:, 0] > 0.7, 0.6, 0.98)
        clean, there = rng.integers(0, 2, n), (x[:, 1] > 0.6) & (x[:, 2] <= 0.5)
        says = np.where(rng.random(n) < sure, clean, 1 - clean)
        chance = np.where(np.arange(2) == says[:, None], sure[:, None], 1.0 - sure[:, None])
        code = np.tile(np.arange(2, dtype=np.int32), (n, 1))
        draws = rng.random(n)
        even, uneven = (clean ^ (draws < p) for p in (0.1, np.where(there, 0.4, 0.05)))
        alike += find_places(x, chance, code, even, matrix) == ()
        unlabeled = np.where(np.arange(n) < 100, -1, uneven)
        places = find_places(x, chance, code, unlabeled, matrix)
        inside, rates = place_of(places, x), place_rates(places, matrix)
        assert np.allclose(rates[-1], 0.1)
        assert (rates >= rates[-1]).all()
        raised = rates[inside].max(axis=1) > 0.2
        assert (raised == there).mean() > 0.9
        assert np.abs(rates[inside[there & raised]] - 0.4).max() < 0.12
    assert alike == 10


def test_mistakes_that_chances_have_as_overlap_are_seen_from_outside() -> None:
    """Chances that were fitted to the labels of a place leave nothing to explain there."""
    matrix, n = np.array([[0.99, 0.01], [0.01, 0.99]]), 3000
    for seed in range(10):
        rng = np.random.default_rng(seed)
        clean, there = rng.integers(0, 2, n), rng.random(n) < 0.2
        rates = np.where(there[:, None], rng.uniform(0.2, 0.4, 2) * [1.0, seed % 2], 0.01)
        x = np.column_stack([rng.normal(size=(n, 3)) + 5.0 * clean[:, None], there])
        label = clean ^ (rng.random(n) < rates[np.arange(n), clean])
        chance = (
            np.eye(2)[clean] * (1.0 - rates)
            + np.eye(2)[1 - clean] * rates[np.arange(n), clean, None]
        )
        chance = np.clip(chance + 0.02 * rng.normal(size=(n, 1)) * [1.0, -1.0], 0.01, 0.99)
        code = np.tile(np.arange(2, dtype=np.int32), (n, 1))
        places = find_places(x.astype(np.float32), chance, code, label, matrix)
        inside, apart = place_of(places, x.astype(np.float32)), apart_in(places)
        assert (apart[inside] == there)[clean == 0].mean() > 0.9  # of the other some are right
        told = place_rates(places, matrix)[inside[there], clean[there]]
        assert np.abs(told - rates[there, clean[there]]).mean() < 0.06


@given(rng=generators(), width=st.floats(0.3, 3.0))
def test_where_one_class_changes_into_the_other_they_are_not_told_apart(
    rng: np.random.Generator, width: float
) -> None:
    n, code = 2000, np.tile(np.arange(2, dtype=np.int32), (2000, 1))
    x = rng.normal(size=(n, 3)).astype(np.float32)
    one = 1.0 / (1.0 + np.exp(-width * np.clip(x[:, 0], -2.0, 2.0)))
    label = (rng.random(n) < one).astype(np.int64)
    chance = np.column_stack([1.0 - one, one])
    places = find_places(x, chance, code, label, np.array([[0.95, 0.05], [0.05, 0.95]]))
    assert not apart_in(places).any()


def test_rows_outside_that_are_unlike_those_of_a_place_say_nothing_of_it() -> None:
    """A cloud of its own, of which half the labels are lost, is no place of mistakes, though the
    nearest rows outside agree."""
    rng = np.random.default_rng(0)
    n, matrix = 3000, np.array([[0.95, 0.05], [0.05, 0.95]])
    there = rng.random(n) < 0.2
    x = (rng.normal(size=(n, 4)) + 3.0 * there[:, None]).astype(np.float32)
    label = (there & (rng.random(n) < 0.45)).astype(np.int64)
    chance = np.where(there[:, None], [0.55, 0.45], [0.98, 0.02])
    code = np.tile(np.arange(2, dtype=np.int32), (n, 1))
    assert not apart_in(find_places(x, chance, code, label, matrix, OUTSIDE)).any()
    x[:, 1:] -= np.float32(3.0) * there[:, None]  # now but for one feature they are alike
    x[:, 1] += np.float32(6.0) * (rng.random(n) < 0.3)
    label = np.where(x[:, 1] > 3.0, 1, label)
    chance[x[:, 1] > 3.0] = [0.02, 0.98]
    assert apart_in(find_places(x, chance, code, label, matrix, OUTSIDE)).any()


@given(rng=generators())
def test_a_class_lies_outside_its_places_if_other_features_tell_of_it_there(
    rng: np.random.Generator,
) -> None:
    x, place = rng.random((1500, 3)).astype(np.float32), Place(((0, 0.7, None),), [])
    there, lost = x[:, 0] > 0.7, rng.random(1500) < 0.5
    told = np.where(there, lost, x[:, 1] > 0.9)
    assert is_outside((place,), x, told)
    assert not is_outside((place,), x[:, :1], told)  # no other feature
    assert not is_outside((place,), x, there & lost)  # no label
    everywhere = np.arange(1500) % 20 == 0
    x[:, 1:] = x[: len(x) // 20, 1:].repeat(20, axis=0)  # around labels as around all rows
    assert not is_outside((place,), x, (there & lost) | everywhere)


def test_rows_outside_of_three_classes_that_overlap_tell_of_a_place() -> None:
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 3, 3000)
    x = rng.normal(size=(3000, 4))
    x[np.arange(3000), clean] += 2.0
    x[:, 3] = 3.0 * rng.random(3000)
    wrong = (x[:, 3] > 2.5) & (rng.random(3000) < 0.4)
    label = np.where(wrong, (clean + 1 + rng.integers(0, 2, 3000)) % 3, clean)
    quality = RobustKNeighborsClassifier(metric="euclidean").fit(x, label).label_quality_
    assert average_precision_score(wrong, -quality) > 0.85


def test_few_rows_have_no_places() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((150, 2)).astype(np.float32)
    code = np.tile(np.arange(2, dtype=np.int32), (150, 1))
    chance, label = np.full((150, 2), 0.5), (x[:, 0] > 0.5).astype(np.int64)
    assert find_places(x, chance, code, label, np.full((2, 2), 0.5)) == ()
    assert find_places(x[:0], chance[:0], code[:0], label[:0], np.full((2, 2), 0.5)) == ()
    assert place_of((), x).tolist() == [-1] * 150


def test_a_single_feature_leaves_nothing_to_tell_classes_apart_by() -> None:
    n, matrix = 2000, np.array([[0.99, 0.01], [0.01, 0.99]])
    rng = np.random.default_rng(0)
    x = rng.random((n, 1)).astype(np.float32)
    chance = np.where(x > 0.7, [0.4, 0.6], [0.98, 0.02])
    label = (rng.random(n) < chance[:, 1]).astype(np.int64)
    code = np.tile(np.arange(2, dtype=np.int32), (n, 1))
    assert not apart_in(find_places(x, chance, code, label, matrix)).any()


@pytest.mark.parametrize("n_classes", [3, 6])
def test_mistakes_of_a_place_for_one_other_class_are_seen_from_outside(n_classes: int) -> None:
    """Where they fall is known, too, though the whole's matrix has them fall anywhere."""
    n, eye = 4000, np.eye(n_classes)
    matrix = 0.99 * eye + 0.01 * (1.0 - eye) / (n_classes - 1)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        clean, there = rng.integers(0, n_classes, n), rng.random(n) < 0.25
        wrong = there & (rng.random(n) < 0.3)
        x = np.column_stack([rng.normal(size=(n, n_classes)) + 5.0 * eye[clean], there])
        label = np.where(wrong, (clean + 1) % n_classes, clean)
        mixed = 0.7 * eye + 0.3 * np.roll(eye, 1, axis=1)
        chance = np.where(there[:, None], mixed[clean], eye[clean])
        chance = 0.98 * chance + 0.02 / n_classes
        code = np.tile(np.arange(n_classes, dtype=np.int32), (n, 1))
        places = find_places(x.astype(np.float32), chance, code, label, matrix)
        group = place_of(places, x.astype(np.float32))
        assert (apart_in(places)[group] == there).mean() > 0.95
        assert (
            np.abs(np.mean([one.matrix for one in places if one.matrix], axis=0) - mixed).max()
            < 0.1
        )
        whose = Whose(group, place_rates(places, matrix), places)
        says = whose.cleaned(chance, code)
        assert np.allclose(says.sum(axis=1), chance.sum(axis=1))
        assert np.array_equal(says[~whose.apart()], chance[~whose.apart()])
        after = says * whose.likelihood(code, label, matrix)
        assert (after.argmax(axis=1) == clean).mean() > 0.99


@given(rng=generators(), c=st.integers(2, 6), n=st.integers(1, 200))
def test_a_matrix_of_known_classes_is_the_whole_where_nothing_is_sure(
    rng: np.random.Generator, c: int, n: int
) -> None:
    """By loops: rates are higher only where a likelihood ratio says so."""
    whole = rng.dirichlet(np.ones(c), c) * 0.2 + 0.8 * np.eye(c)
    clean, label = rng.integers(0, c, (2, n))
    label = np.where(rng.random(n) < rng.random(c)[clean], clean, label)
    found = _matrix_there(clean, label, whole)
    assert np.allclose(found.sum(axis=1), 1.0)
    for a in range(c):
        of_class, usual = label[clean == a], 1.0 - whole[a, a]
        rate = ((of_class != a).sum() + ROWS * usual) / (len(of_class) + ROWS)
        nats = sum(
            np.log(rate / usual) if one != a else np.log((1.0 - rate) / (1.0 - usual))
            for one in of_class
        )
        rate = rate if rate > usual and nats > 4.5 else usual
        assert np.isclose(found[a, a], 1.0 - rate)
        drawn = (c - 1) * whole[a] / usual
        parts = np.array([(of_class == b).sum() + drawn[b] for b in range(c) if b != a])
        assert np.allclose(np.delete(found[a], a), rate * parts / parts.sum())


@given(rng=generators(), c=st.integers(2, 5))
def test_candidates_that_are_missing_have_no_chance(rng: np.random.Generator, c: int) -> None:
    n = 20
    own = rng.uniform(0.6, 0.9, c)
    matrix = own[:, None] * np.eye(c) + (1.0 - own[:, None]) * (1.0 - np.eye(c)) / (c - 1)
    code = np.argsort(rng.random((n, c)), axis=1).astype(np.int32)
    clean = rng.dirichlet(np.ones(c), n) * (rng.random((n, c)) < 0.7) + 1e-3
    blurred = np.take_along_axis((clean / clean.sum(axis=1, keepdims=True)) @ matrix, code, axis=1)
    places = (Place((), (1.0 - own).tolist(), matrix.tolist()),)
    whose = Whose(np.zeros(n, np.int64), place_rates(places, matrix), places)
    right = np.take_along_axis(clean / clean.sum(axis=1, keepdims=True), code, axis=1)
    least = np.maximum(right, 0.01 / (c - 1))
    assert np.allclose(whose.cleaned(blurred, code), least / least.sum(axis=1, keepdims=True))
    short = np.column_stack([code[:, : c - 1], np.full(n, -1, np.int32)])
    kept = np.column_stack([blurred[:, : c - 1], rng.random(n)])
    says = whose.cleaned(kept, short)
    assert (says[:, -1] == 0.0).all()
    assert np.allclose(says.sum(axis=1), kept.sum(axis=1))


def test_chances_stay_some_where_a_place_has_no_inverse() -> None:
    """Half of each of four classes given the next; and no row's depend on those beside it."""
    eye, code = np.eye(4), np.tile(np.arange(4, dtype=np.int32), (50, 1))
    matrix = 0.5 * eye + 0.5 * np.roll(eye, 1, axis=1)
    chance = np.random.default_rng(0).dirichlet(np.ones(4), 50)
    places = (Place((), [0.5] * 4, matrix.tolist()),)
    whose = Whose(np.zeros(50, np.int64), place_rates(places, matrix), places)
    says = whose.cleaned(chance, code)
    assert (says > 0.0).all()
    assert np.allclose(says.sum(axis=1), 1.0)
    for row in range(50):
        one = slice(row, row + 1)
        assert np.array_equal(whose.take(one).cleaned(chance[one], code[one]), says[one])
