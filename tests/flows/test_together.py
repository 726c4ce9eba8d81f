"""Rows that belong together by a column, in any order, are left out of each other's lists."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given
from persons import PERSONS, ROWS, mates_of, persons
from runs import fit, fit_until, results
from sklearn.metrics import average_precision_score
from strategies import generators

import knnoise
from flows.certify import run_certify
from flows.cli import main
from flows.engine.collectives.graph import PoolGraph
from flows.steps.graph import anchors, together
from pipeline.estimator import RobustKNeighborsClassifier
from pipeline.noise.copies import Mates, one_of_value
from storage.arrays.groups import read_array
from storage.runs.pool import Pool
from storage.runs.run import Run
from storage.sources.values.labels import hashes

N = PERSONS * ROWS
OPTIONS: dict[str, Any] = {"k": None, "block_rows": 1500, "together": "who"}


def shuffled(path: Path, c: int, alone: int = 0) -> tuple[dict[str, Any], npt.NDArray[np.bool_]]:
    """Rows of persons in any order, some without a name; and which of them are wrong."""
    wrong = persons(path, c, shared=True)
    order = np.random.default_rng(c).permutation(N)
    with np.load(path) as pool:
        x, y = pool["X"][order], pool["y"][order]
    who = np.array([f"person {one}" for one in order // ROWS])
    who[:alone] = ""
    arrays = {"X": x, "y": y, "who": who}
    np.savez(path, **arrays)
    return arrays, wrong[order]


def quality_of(run: Path) -> npt.NDArray[np.float32]:
    return np.asarray(read_array(Run.of(str(run)).group("labels"), "label_quality"))


@pytest.mark.parametrize("c", [2, 4])
def test_a_label_that_a_person_shares_is_suspect(c: int, tmp_path: Path) -> None:
    arrays, wrong = shuffled(tmp_path / "pool.npz", c)
    plain = tmp_path / "plain.npz"
    np.savez(plain, X=arrays["X"], y=arrays["y"])
    fit(plain, tmp_path / "plain", **{**OPTIONS, "together": None})
    assert average_precision_score(wrong, -quality_of(tmp_path / "plain")) < 0.6
    report = fit(tmp_path / "pool.npz", tmp_path / "run", **OPTIONS)
    assert average_precision_score(wrong, -quality_of(tmp_path / "run")) > 0.9
    issue = read_array(Run.of(str(tmp_path / "run")).group("labels"), "is_label_issue")
    assert issue[wrong].mean() > 0.75
    assert mates_of(tmp_path / "run").groups == report["n_together"] == PERSONS
    assert report["support"] != "supported"
    assert "together by 'who': 200 groups, whose" in (tmp_path / "run" / "report.txt").read_text()
    bounds = run_certify(str(tmp_path / "run"), k=15, samples=1000, workers=0, quiet=True)
    assert "take rows as independent" in bounds["warnings"][0]
    for k in ("auto", 20):
        model = RobustKNeighborsClassifier(k)
        model.fit(arrays["X"], arrays["y"], together=arrays["who"])
        assert average_precision_score(wrong, -model.label_quality_) > 0.9, k
        assert model.support_ != "supported"


@pytest.mark.parametrize("c", [2, 4])
def test_rates_of_persons_are_within_their_intervals(c: int, tmp_path: Path) -> None:
    shuffled(tmp_path / "pool.npz", c)
    report = fit(tmp_path / "pool.npz", tmp_path / "run", **OPTIONS)
    assert "copies" not in report["reason"]
    assert len(report["class_noise_interval"]) == c
    for low, high in report["class_noise_interval"]:
        assert low < 0.15 < high


def test_interrupted_damaged_or_of_workers_the_bits_are_the_same(tmp_path: Path) -> None:
    source = tmp_path / "pool.npz"
    arrays, _ = shuffled(source, 2)
    few = np.isin(arrays["who"], [f"person {one}" for one in range(40)])
    np.savez(source, **{name: column[few] for name, column in arrays.items()})
    options = {**OPTIONS, "block_rows": 300}
    fit(source, tmp_path / "run", **options)
    expected = results(tmp_path / "run")
    for step in ("mates", "together-rows", "together"):
        fit_until(step, source, tmp_path / step, **options)
        fit(source, tmp_path / step, **options)
        assert results(tmp_path / step) == expected, step
    shutil.rmtree(tmp_path / "run" / "results.zarr" / "mates" / "00001")
    fit(source, tmp_path / "run", **options)
    assert results(tmp_path / "run") == expected
    fit(source, tmp_path / "workers", **options, workers=2)
    assert results(tmp_path / "workers") == expected
    fit(source, tmp_path / "whole", **{**options, "block_rows": None})
    assert (quality_of(tmp_path / "whole") == quality_of(tmp_path / "run")).all()


@pytest.mark.parametrize("room", [anchors.MOST_LISTED, 1])
def test_lists_without_mates_are_those_of_a_loop(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchors, "MOST_LISTED", room)
    arrays, _ = shuffled(tmp_path / "pool.npz", 2, alone=300)
    who = arrays["who"]
    fit(tmp_path / "pool.npz", tmp_path / "run", **OPTIONS)
    mates = mates_of(tmp_path / "run")
    assert mates.groups == len(set(who) - {""}) + 300
    assert mates.most == 0 if room == 1 else 10 < mates.most < ROWS
    names, length = ("row", "neighbor", "distance", "neighbor_label"), 40
    pool = Pool(Run.of(str(tmp_path / "run")), "pool", N, 12)
    whole, without = (PoolGraph(pool, 3, of, length) for of in (Mates(), mates))
    for block in range(3):
        every, some = whole.read(block, names), without.read(block, names)
        for at in range(0, len(every["row"]), 7):
            own = who[every["row"][at]]
            left = [
                place
                for place, row in enumerate(every["neighbor"][at])
                if row >= 0 and (not own or who[row] != own)
            ][:length]
            n = len(left)
            for name in names[1:]:
                assert some[name][at, :n].tolist() == every[name][at, left].tolist()
            assert (some["neighbor"][at, n:] == -1).all()
            assert np.isinf(some["distance"][at, n:]).all()


@given(rng=generators())
def test_one_anchor_of_each_value_counts(rng: np.random.Generator) -> None:
    n, width = int(rng.integers(1, 30)), int(rng.integers(2, 12))
    row = rng.permutation(100)[:n]
    neighbor = np.column_stack([row, rng.integers(0, 100, (n, width))])
    of_row = rng.integers(-1, 8, 100)
    label, group = neighbor % 3, of_row[neighbor]
    one = one_of_value(neighbor, label, group)
    values = [of_row[neighbor[at, 0]] for at in one.anchor]
    assert len(values) == len(set(values) - {-1}) + values.count(-1)
    first: dict[int, int] = {}
    alone = []
    for at in np.argsort(row):
        if group[at, 0] < 0:
            alone.append(int(at))
        else:
            first.setdefault(int(group[at, 0]), int(at))
    length = one.neighbor.shape[1]
    others = {
        at: [i for i in range(1, width + 1) if group[at, 0] < 0 or group[at, i] != group[at, 0]]
        for at in [*first.values(), *alone]
    }
    assert sorted(one.anchor) == sorted(at for at, o in others.items() if 1 + len(o) >= length)
    assert len(one.anchor) >= 0.9 * len(others)
    for at, near, given_labels in zip(one.anchor, one.neighbor, one.label, strict=True):
        places = [0, *others[at]][:length]
        assert near.tolist() == neighbor[at, places].tolist()
        assert given_labels.tolist() == label[at, places].tolist()


def test_many_groups_are_counted_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(60_000, 2)), "y": rng.integers(0, 2, 60_000)}
    np.savez(tmp_path / "pool.npz", **arrays, who=np.arange(60_000) // 2)
    monkeypatch.setattr(together, "MOST_COUNTED", 3000)
    fit_until("mates", tmp_path / "pool.npz", tmp_path / "run", k=10, together="who")
    assert abs(mates_of(tmp_path / "run").groups - 30_000) < 2500


def test_values_are_alike_as_labels_are() -> None:
    one, *others = hashes(np.array([1, "1", 1.0, " 1", None, "", "01"], object)).tolist()
    assert [value == one for value in others] == [True, True, True, False, False, False]
    assert others[3:5] == [-1, -1]
    assert one >= 0
    assert hashes(np.array([3, 1])).tolist()[1] == one
    assert len(set(hashes(np.arange(-5000, 5000)).tolist())) == 10_000


def test_tables_dates_gaps_and_new_rows(tmp_path: Path) -> None:
    arrays, wrong = shuffled(tmp_path / "pool.npz", 2)
    frame = pd.DataFrame(arrays["X"]).rename(columns=lambda place: f"x{place}")
    days = pd.Series(np.datetime64("2026-01-01") + np.unique(arrays["who"], return_inverse=True)[1])
    frame = frame.assign(day=days.mask(np.arange(N) < 40), site="A", sick=arrays["y"])
    frame.loc[::2, "site"] = "B"
    frame.loc[3000:3100, "sick"] = np.nan
    options: dict[str, Any] = {"label_column": "sick", "by": "site", "workers": 0, "quiet": True}
    options |= {"unlabeled": "predict", "metric": "as-scaled"}
    found = knnoise.train(frame, tmp_path / "run", together="day", **options)
    assert found.summary["n_together"] == PERSONS + 40
    kept = np.r_[:3000, 3101:N]
    assert average_precision_score(wrong[kept], -quality_of(tmp_path / "run")) > 0.9
    assert len(found.groups) == 2
    for columns in (["sick", "site"], ["sick", "site", "day"]):
        frame.drop(columns=columns).head(50).to_csv(tmp_path / "new.csv", index=False)
        scored = ["score", str(tmp_path / "new.csv"), "--run", str(tmp_path / "run")]
        out = str(tmp_path / f"{len(columns)}.parquet")
        assert main([*scored, "--out", out, "--workers", "0", "-q"]) == 0


@pytest.mark.parametrize(
    ("options", "reply"),
    [
        (["--together", "b"], "--together 'b' is not there; columns are 'a', 'who', 'site', 'y'"),
        (["--together", "y"], "--together 'y' is the column of the labels"),
        (["--together", "who", "--id-column", "who"], "--together 'who' is the column of the ids"),
        (["--together", "who", "--by", "who"], "--together 'who' is the column of the groups of"),
        (["--together", "site"], "--together 'site': 2 groups, and at least 20 are needed; name a"),
        (["--together", "none", "--impute", "drop"], "--together 'none': the column is empty"),
        (["--together", "who", "--noise", "minmax"], "leave out --noise minmax"),
        (["--together", "who", "--rule", "rknn", "--noise", "minmax"], "leave out --noise minmax"),
        (["--together", "who", "--candidates", "|"], "--together who is for single labels, and"),
        (["--together", "who", "--features", "who"], "--features 'who' matches no column"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, capsys: Any, options: list[str], reply: str) -> None:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {"a": rng.normal(size=300), "who": np.arange(300) // 3}
    columns |= {"site": np.arange(300) % 2, "y": rng.integers(0, 2, 300)}
    frame = pd.DataFrame(columns)
    if "none" in options:
        frame["none"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    base = ["train", str(tmp_path / "t.csv"), "--run", str(tmp_path / "run"), "-q"]
    assert main([*base, "--label-column", "y", "--workers", "0", *options]) == 2
    said = capsys.readouterr().err.strip()
    assert reply in said
    assert "\n" not in said
    assert not (tmp_path / "run").exists()


def test_too_few_rows_name_what_helps(tmp_path: Path, capsys: Any) -> None:
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(size=39), "who": np.arange(39) // 2, "y": rng.integers(0, 2, 39)}
    pd.DataFrame(columns).to_csv(tmp_path / "t.csv", index=False)
    base = ["train", str(tmp_path / "t.csv"), "--label-column", "y", "--workers", "0", "-q"]
    run = ["--run", str(tmp_path / "run")]
    assert main([*base, *run, "--together", "who"]) == 2
    assert "use --exclude who for --together, and --noise minmax" in capsys.readouterr().err
    assert main([*base, *run, "--exclude", "who", "--noise", "minmax"]) == 0
    capsys.readouterr()
    check = ["check", str(tmp_path / "t.csv"), "--label-column", "y", "--together", "who"]
    assert main([*check, "--json"]) == 0
    assert "who" not in [c for f in json.loads(capsys.readouterr().out)["findings"] for c in f]


def test_the_estimator_refuses_what_says_nothing() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 3)), rng.integers(0, 2, 400)
    model = RobustKNeighborsClassifier()
    with pytest.raises(ValueError, match="together: 19 groups are too few, at least 20 are"):
        model.fit(x, y, together=np.arange(400) % 19)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(x, y, together=np.arange(399))
    near = np.where(np.arange(400) < 380, "one", np.arange(400).astype(str))
    with pytest.raises(ValueError, match=r"nearest of row .* give smaller groups"):
        RobustKNeighborsClassifier(30).fit(x, y, together=near)
    alone = np.full(400, None, object)
    alone[:2] = "a"
    plain = RobustKNeighborsClassifier(20).fit(x, y).label_quality_
    both = RobustKNeighborsClassifier(20).fit(x, y, together=alone).label_quality_
    assert np.abs(plain - both).mean() < 0.05
