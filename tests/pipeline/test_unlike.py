"""Labels of one value that are unlike those near them: what annotators do is found, overlap not."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import generators

from pipeline.diagnostics.unlike import (
    LEAST,
    NEAREST,
    Unlike,
    doubtful_values,
    is_unlike,
    turned_values,
)
from pipeline.knn.exact import nearest

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]


def pool(rng: np.random.Generator, n: int, rate: float, apart: float) -> tuple[Floats, Codes]:
    """Two classes so far apart in one column of three; annotator 2 of three, the column after them,
    gives wrong labels at a rate."""
    clean, who = rng.integers(0, 2, n), rng.integers(0, 3, n)
    x = rng.normal(size=(n, 3)).astype(np.float32)
    x[:, 0] += np.float32(apart) * clean
    wrong = rng.random(n) < np.where(who == 2, rate, 0.02)
    return np.column_stack([x, who]).astype(np.float32), clean ^ wrong


def lists(x: Floats, n_columns: int) -> Codes:
    z = x[:, :n_columns]
    return np.asarray(nearest(z, z, NEAREST, exclude=np.arange(len(z)))[0])


def unlike(
    x: Floats, y: Codes, at: int, value: float, of: Codes | None = None, columns: int = 0
) -> Unlike | None:
    """Of one value, by rows near in the columns before it."""
    near = lists(x, columns or at)
    return is_unlike(at, value, x, y, y[near], x[near, at] == np.float32(value), of)


def test_the_one_annotator_is_found_and_how_unlike_the_labels_are_is_counted() -> None:
    x, given_label = pool(np.random.default_rng(0), 1500, 0.4, 6.0)
    contradicted = given_label != (x[:, 0] > 3.0)
    assert doubtful_values(x, contradicted) == [(3, 2.0)]
    found = unlike(x, given_label, 3, 2.0)
    assert found is not None
    assert (found.feature, found.value) == (3, 2.0)
    assert found.size == pytest.approx((x[:, 3] == 2).mean())
    who, differ, among = [], [], []
    for row, near in enumerate(lists(x, 3)):
        others = given_label[near[x[near, 3] != 2]].tolist()
        if len(others) >= NEAREST - found.size * NEAREST - 3 * np.sqrt(
            NEAREST * found.size * (1 - found.size)
        ):
            who.append(x[row, 3])
            differ.append(np.mean([label != given_label[row] for label in others]))
            among.append(np.mean([a != b for a, b in combinations(others, 2)]))
    here = (np.array(among) <= np.median(among)) & (np.array(who) == 2)
    assert found.differ == pytest.approx(np.array(differ)[here].mean())
    assert found.expected == pytest.approx(np.array(among)[here].mean())
    assert found.differ > found.expected + 2 * LEAST


@given(rng=generators(), rate=st.sampled_from([0.02, 0.05]), apart=st.floats(0.0, 6.0))
def test_overlap_and_mistakes_that_all_share_are_nobodys(
    rng: np.random.Generator, rate: float, apart: float
) -> None:
    x, given_label = pool(rng, 600, rate, apart)
    for value in range(3):
        assert unlike(x, given_label, 3, value) is None


def test_a_value_where_the_classes_overlap_is_doubtful_and_not_unlike() -> None:
    """Rows of value 2 lie between the classes: contradicted they are, as those near them."""
    rng = np.random.default_rng(1)
    x, given_label = pool(rng, 3000, 0.02, 6.0)
    between = x[:, 3] == 2
    x[between, 0] = rng.normal(3.0, 0.3, between.sum())
    given_label[between] = rng.integers(0, 2, between.sum())
    assert doubtful_values(x, given_label != (x[:, 0] > 3.0)) == [(3, 2.0)]
    assert unlike(x, given_label, 3, 2.0) is None


@given(rng=generators())
def test_the_order_of_the_rows_is_no_part_of_it(rng: np.random.Generator) -> None:
    x, given_label = pool(rng, 400, 0.5, 6.0)
    contradicted = given_label != (x[:, 0] > 3.0)
    shuffled = rng.permutation(len(x))
    assert doubtful_values(x, contradicted) == doubtful_values(x[shuffled], contradicted[shuffled])


def test_columns_of_many_values_or_of_one_are_no_annotators() -> None:
    rng = np.random.default_rng(2)
    contradicted = rng.random(2000) < 0.3
    x = np.column_stack(
        [np.zeros(2000), rng.integers(0, 65, 2000), 100 * contradicted + np.arange(2000)]
    )
    assert doubtful_values(x.astype(np.float32), contradicted) == []
    assert doubtful_values(x[:40].astype(np.float32), contradicted[:40]) == []


def sites(seed: int, n: int = 1500) -> tuple[Floats, Codes, Codes]:
    """Three classes in two columns, and four sites: a column of numbers, then as four columns."""
    rng = np.random.default_rng(seed)
    clean, site = rng.integers(0, 3, n), rng.integers(0, 4, n)
    x = rng.normal(size=(n, 2)) + 5.0 * np.eye(3)[clean, :2]
    columns = np.column_stack([x, site, np.eye(4)[site]])
    return columns.astype(np.float32), clean, site


@pytest.mark.parametrize("columns", [[], [[3, 4, 5, 6]]])
def test_a_site_with_a_code_of_its_own_is_looked_at(columns: list[list[int]]) -> None:
    """Whatever models learn of it: no label is contradicted where they know the site."""
    x, clean, site = sites(0)
    x = np.delete(x, 2, axis=1) if columns else x[:, :3]
    columns = [[at - 1 for at in one] for one in columns]
    given_label = np.where(site == 2, (clean + 1) % 3, clean)
    feature, value, classes = turned_values(x, given_label, columns)[0]
    assert ((feature, value) == (4, 1.0)) if columns else ((feature, value) == (2, 2.0))
    assert classes.tolist() == [0, 1, 2]
    of_two = np.where((site == 2) & (clean < 2), 1 - clean, clean)
    assert turned_values(x, of_two, columns)[0][2].tolist() == [0, 1]
    found = unlike(x, given_label, feature, value, classes, columns=2)
    assert found is not None
    assert found.differ > 0.5 > found.expected


@pytest.mark.parametrize("n_sites", [2, 4])
def test_half_of_the_rows_or_less_that_have_one_label_for_two_classes_are_unlike(
    n_sites: int,
) -> None:
    x, clean, site = sites(3, 3000)
    x = np.column_stack([x[:, :2], site % n_sites]).astype(np.float32)
    given_label = np.where((x[:, 2] == 1) & (clean == 2), 0, clean)
    (at, value, classes), *others = turned_values(x, given_label, [])
    assert (at, value, classes.tolist()) == (2, 1.0, [0, 2])
    found = unlike(x, given_label, at, value, classes)
    assert found is not None
    assert found.differ > 0.3 > 0.1 > found.expected
    # the other of two seems to tell one class apart that is none, which is the same from there
    assert all((at, value) == (2, 0.0) for at, value, _ in others)


@given(rng=generators(), lacking=st.floats(0.5, 1.0))
def test_a_site_that_sees_few_of_a_class_is_not_unlike(
    rng: np.random.Generator, lacking: float
) -> None:
    """Though half of the rows around its own are of that class, as classes overlap."""
    clean, site = rng.integers(0, 2, 1200), rng.integers(0, 3, 1200)
    kept = (site != 1) | (clean == 0) | (rng.random(1200) > lacking)
    x = rng.normal(size=(1200, 2)) + 1.5 * clean[:, None]
    table = np.column_stack([x, site])[kept].astype(np.float32)
    y = (clean ^ (rng.random(1200) < 0.05))[kept]
    for of in (None, np.arange(2)):
        assert unlike(table, y, 2, 1.0, of) is None


def test_sites_that_label_alike_are_not_looked_at() -> None:
    """However often they see a class, and wherever their rows lie."""
    x, clean, site = sites(1)
    assert turned_values(x[:, :3], clean, []) == []
    rare = (site != 2) | (clean == 0) | (np.arange(len(x)) % 5 == 0)
    assert turned_values(x[rare, :3], clean[rare], []) == []
    assert turned_values(x[:, 2:3], clean, []) == []


def test_columns_of_one_value_and_of_the_largest_numbers_are_no_sites() -> None:
    rng = np.random.default_rng(2)
    large = np.clip(3e38 * rng.normal(size=(500, 3)), -3.3e38, 3.3e38)
    y = (large[:, 0] > 0).astype(np.int64)
    x = np.column_stack([large, rng.integers(0, 3, 500), np.zeros(500)]).astype(np.float32)
    for columns in ([0, 1, 2, 3, 4], [3], [4]):
        assert turned_values(x[:, columns], y, []) == []
