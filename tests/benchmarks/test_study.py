"""The studies' own machinery; their results are no test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.study.data import Absent, Case, cases, group, load
from benchmarks.study.lists import lists_of, split, within
from benchmarks.study.results import Results


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 400)
    x = rng.normal(0, 0.3, (400, 3)) + np.column_stack([y, y**2, np.zeros(400)])
    np.savez(tmp_path / "made.npz", X=x.astype(np.float32), y=y)
    return tmp_path


def test_finished_cases_survive_a_killed_run(tmp_path: Path) -> None:
    results = Results(tmp_path, "rates")
    results.add("a", {"error": 0.5})
    with results.path.open("a") as file:
        file.write('{"case": "b", "err')
    again = Results(tmp_path, "rates")
    assert "a" in again
    assert "b" not in again
    again.add("b", {"error": 0.25})
    assert {case: row["error"] for case, row in Results(tmp_path, "rates").rows.items()} == {
        "a": 0.5,
        "b": 0.25,
    }


def test_cases_by_other_kernels_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "rates.jsonl").write_text('{"case": "a", "kernels": "00000000"}\n')
    assert "a" not in Results(tmp_path, "rates")


def test_lists_within_a_part_are_those_of_a_new_search(folder: Path) -> None:
    x, _ = load(folder, "made")
    lists = lists_of(folder, folder / "lists", "made")
    parts = split(lists, trial=1, k=20)
    train = x[parts.train].astype(np.float64)
    for rows, found in ((x[~parts.train], parts.test_near), (x[parts.train], parts.near)):
        distance = np.square(rows[:, None].astype(np.float64) - train).sum(axis=2)
        expected = np.sort(distance, axis=1)[:, : found.shape[1]]
        np.testing.assert_allclose(np.take_along_axis(distance, found, 1), expected, atol=1e-6)
    assert (parts.near[:, 0] == np.arange(len(train))).all()
    of = parts.anchors
    away = (train[of.near[:, :1]] - train[of.near]) ** 2
    np.testing.assert_allclose(of.distance, np.sqrt(away.sum(axis=2)), atol=1e-6)
    np.testing.assert_array_equal(of.x, train[of.near[:, 0]])
    again = lists_of(folder, folder / "lists", "made")
    np.testing.assert_array_equal(again.near, lists.near)


def test_short_lists_are_padded() -> None:
    near = np.array([[0, 1, 2], [1, 0, 2], [2, 1, 0]])
    keep = np.array([True, False, True])
    np.testing.assert_array_equal(within(near, keep, 3), [[0, 1, -1], [0, 1, -1], [1, 0, -1]])


def test_groupings_and_seeds(folder: Path) -> None:
    _, y = load(folder, "made")
    np.testing.assert_array_equal(group(y, "odd"), y % 2)
    half = group(y, "half7")
    assert len(np.unique(y[half == 1])) == 2
    seeds = {case.seed for case in cases("made", 4, 3)}
    assert len(seeds) == 2 * 5 * 3
    case = Case("made", "odd", 0.1, 0.2, 0)
    np.testing.assert_array_equal(case.given(half), case.given(half))
    with pytest.raises(Absent, match=r"gone\.npz"):
        load(folder, "gone")
