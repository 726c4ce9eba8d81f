"""Equal rows, and rows of one person that stand together, which share a label are left out of each
other's lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from persons import PERSONS, ROWS, mates_of, persons
from runs import fit, fit_until, results
from sklearn.metrics import average_precision_score
from strategies import generators

from flows.certify import run_certify
from flows.engine.collectives.graph import PoolGraph
from flows.steps.graph import anchors
from pipeline.estimator import RobustKNeighborsClassifier
from pipeline.noise.copies import Mates, mates_last, without_mates
from storage.arrays.groups import read_array
from storage.runs.pool import Pool
from storage.runs.run import Run


@pytest.mark.parametrize("c", [2, 4])
def test_a_label_that_a_person_shares_is_suspect(c: int, tmp_path: Path) -> None:
    wrong = persons(tmp_path / "pool.npz", c, shared=True)
    options: dict[str, Any] = {"k": None, "block_rows": 1500}
    report = fit(tmp_path / "pool.npz", tmp_path / "run", **options)
    labels = Run.of(str(tmp_path / "run")).group("labels")
    assert average_precision_score(wrong, -read_array(labels, "label_quality")) > 0.9
    assert read_array(labels, "is_label_issue")[wrong].mean() > 0.75
    assert "left out of each other's neighbors" in report["reason"]
    bounds = run_certify(str(tmp_path / "run"), k=15, samples=1000, workers=0, quiet=True)
    assert "take rows as independent" in bounds["warnings"][0]
    assert report["recall"] > 0.95
    with np.load(tmp_path / "pool.npz") as pool:
        for k in ("auto", 20):
            model = RobustKNeighborsClassifier(k).fit(pool["X"], pool["y"])
            assert average_precision_score(wrong, -model.label_quality_) > 0.9, k
    fit_until("mates", tmp_path / "pool.npz", tmp_path / "again", **options)
    fit(tmp_path / "pool.npz", tmp_path / "again", **options)
    assert results(tmp_path / "again") == results(tmp_path / "run")


@pytest.mark.parametrize("c", [2, 3])
def test_a_stretch_of_a_series_is_suspect_as_a_whole(c: int) -> None:
    rng = np.random.default_rng(c)
    x = rng.normal(size=(5000, 4))
    for i in range(1, len(x)):
        x[i] = 0.9 * x[i - 1] + np.sqrt(1 - 0.9**2) * x[i]
    y = np.searchsorted(np.quantile(x[:, 0] + x[:, 1], np.arange(1, c) / c), x[:, 0] + x[:, 1])
    wrong = np.repeat(rng.random(100) < 0.15, 50)
    model = RobustKNeighborsClassifier().fit(x, np.where(wrong, (y + 1) % c, y))
    assert average_precision_score(wrong, -model.label_quality_) > 0.9
    assert model.support_ != "supported"


def test_a_person_may_have_more_rows_than_a_list() -> None:
    rng = np.random.default_rng(1)
    person = np.repeat(np.arange(40), 150)
    side = person % 2
    x = (2.5 * side - 1.25)[:, None] + rng.normal(size=(40, 12))[person]
    x += 0.5 * rng.normal(size=x.shape)
    wrong = np.isin(person, rng.permutation(40)[:6])
    model = RobustKNeighborsClassifier().fit(x, np.where(wrong, 1 - side, side))
    assert average_precision_score(wrong, -model.label_quality_) > 0.8
    assert model.support_ != "supported"


def test_labels_of_the_rows_own_leave_lists_as_they_are(tmp_path: Path) -> None:
    persons(tmp_path / "pool.npz", 2, shared=False)
    fit(tmp_path / "pool.npz", tmp_path / "run", k=None)
    assert mates_of(tmp_path / "run") == Mates()


@pytest.mark.parametrize("room", [anchors.MOST_LISTED, 1])
def test_lists_without_mates_are_those_of_a_loop(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchors, "MOST_LISTED", room)
    persons(tmp_path / "pool.npz", 2, shared=True)
    fit(tmp_path / "pool.npz", tmp_path / "run", k=None, block_rows=1500)
    mates = mates_of(tmp_path / "run")
    assert 8 <= mates.apart <= ROWS
    assert mates.most == 0 if room == 1 else 0 < mates.most <= 2 * mates.apart
    names, length = ("row", "neighbor", "distance", "neighbor_label", "given_label"), 40
    pool = Pool(Run.of(str(tmp_path / "run")), "pool", PERSONS * ROWS, 12)
    whole, without = (PoolGraph(pool, 3, of, length) for of in (Mates(), mates))
    for block in range(3):
        every, some = whole.read(block, names), without.read(block, names)
        for at in range(0, len(every["row"]), 97):
            own = every["row"][at]
            left = [
                place
                for place, row in enumerate(every["neighbor"][at])
                if row >= 0 and abs(row - own) > mates.apart
            ][:length]
            n = len(left)
            for name in names[1:4]:
                assert some[name][at, :n].tolist() == every[name][at, left].tolist()
            assert (some["neighbor"][at, n:] == -1).all()
            assert np.isinf(some["distance"][at, n:]).all()
            assert (some["neighbor_label"][at, n:] == -1).all()
        assert (some["given_label"] == every["given_label"]).all()


@pytest.mark.parametrize("jitter", [0.0, 0.02])
@pytest.mark.parametrize("c", [2, 3])
def test_a_label_that_copies_share_is_suspect(c: int, jitter: float, tmp_path: Path) -> None:
    """A bootstrap sample, or images that were changed a little, in any order."""
    rng = np.random.default_rng(c)
    clean = rng.integers(0, c, 1500)
    x = (3.0 * np.eye(6)[clean] + rng.normal(size=(1500, 6))).astype(np.float32)
    wrong = rng.random(1500) < 0.2
    y = np.where(wrong, (clean + rng.integers(1, c, 1500)) % c, clean)
    drawn = rng.integers(0, 1500, 4500)
    moved = x[drawn] + jitter * rng.normal(size=(4500, 6)).astype(np.float32)
    np.savez(tmp_path / "pool.npz", X=moved, y=y[drawn])
    report = fit(tmp_path / "pool.npz", tmp_path / "run", k=None)
    mates, most = mates_of(tmp_path / "run"), int(np.bincount(drawn).max()) - 1
    assert mates.near if jitter else mates == Mates(near=0.0, most=most)
    quality = read_array(Run.of(str(tmp_path / "run")).group("labels"), "label_quality")
    np.savez(tmp_path / "once.npz", X=x, y=y)
    fit(tmp_path / "once.npz", tmp_path / "once", k=None)
    assert mates_of(tmp_path / "once") == Mates()
    once = read_array(Run.of(str(tmp_path / "once")).group("labels"), "label_quality")
    precision = average_precision_score(wrong[drawn], -quality)
    assert precision > average_precision_score(wrong[drawn], -once[drawn]) - 0.05
    assert "left out of each other's neighbors" in report["reason"]
    model = RobustKNeighborsClassifier().fit(moved, y[drawn])
    assert average_precision_score(wrong[drawn], -model.label_quality_) > precision - 0.05


@given(rng=generators(), kind=st.sampled_from(["apart", "equal", "near"]))
def test_mates_are_last_and_others_in_their_order(rng: np.random.Generator, kind: str) -> None:
    near = {"apart": None, "equal": 0.0, "near": 1.0}[kind]
    mates = Mates(0 if kind != "apart" else int(rng.integers(1, 20)), near)
    row = rng.integers(0, 50, 7)
    neighbor = rng.integers(-1, 50, (7, 12))
    distance = np.sort(rng.integers(0, 3, (7, 12)), axis=1).astype(np.float32)
    mates_of_row = mates.among(row, neighbor, distance)
    order, last = mates_last(mates_of_row)
    for one, (places, marks) in enumerate(zip(order, last, strict=True)):
        is_mate = {
            "apart": np.abs(neighbor[one] - row[one]) <= mates.apart,
            "equal": distance[one] == 0,
            "near": distance[one] <= 1,
        }[kind]
        mate = [at for at in range(12) if neighbor[one, at] >= 0 and is_mate[at]]
        others = [at for at in range(12) if at not in mate]
        assert places.tolist() == others + mate
        assert marks.tolist() == [False] * len(others) + [True] * len(mate)
    fewest = 12 - int(last.sum(axis=1).max())
    assert without_mates(mates_of_row).shape == (7, fewest)
    assert without_mates(mates_of_row, 12).shape == (7, 12)
