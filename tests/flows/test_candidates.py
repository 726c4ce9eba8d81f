"""Candidate sets from source to report: as the kernels say on exact lists, resumed to the same
bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from classes import clouds
from runs import fit, fit_until, results

import knnoise
from flows.cli import main
from flows.report.content import load_any
from flows.report.kinds import CandidateReport
from flows.report.kinds.sets import CandidatePair
from flows.score import score
from flows.steps.sets.candidates import stops_tried
from pipeline.knn.exact import nearest
from pipeline.methods.partial_labels import (
    C1,
    AdaptiveParams,
    agreement,
    choose,
    disambiguate,
    pack,
    predict,
)
from storage.errors import InputError
from storage.runs.run import Run

N, C = 900, 7
OPTIONS: dict[str, Any] = {"k": None, "block_rows": 300}
HERE = {"workers": 0, "quiet": True}


def drawn() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Features and candidates of clouds; the true class is missing in a tenth of the sets."""
    x, clean, _ = clouds(N + 200, C)
    rng, every = np.random.default_rng(1), np.arange(N + 200)
    candidate = rng.random((N + 200, C)) < rng.uniform(0, 0.6, C)
    candidate[every, np.where(rng.random(N + 200) < 0.1, (clean + 1) % C, clean)] = True
    return x, candidate


def table(x: npt.NDArray[np.float32], sets: list[Any]) -> pd.DataFrame:
    return pd.DataFrame(x, columns=list("abcd")).assign(kind=sets)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trainings on the same sets as delimited text, as lists and as a mask; a scoring of the
    first."""
    folder = tmp_path_factory.mktemp("candidates")
    x, candidate = drawn()
    sets = [np.flatnonzero(row).tolist() for row in candidate]
    text = ["|".join(map(str, one)) for one in sets]
    table(x[:N], text[:N]).to_csv(folder / "text.csv", index=False)
    table(x[:N], sets[:N]).to_parquet(folder / "lists.parquet")
    np.savez(folder / "mask.npz", X=x[:N], y=candidate[:N])
    table(x[N:], sets[N:]).to_parquet(folder / "new.parquet")
    named = {**OPTIONS, "label_column": "kind"}
    fit(folder / "text.csv", folder / "text", candidates="|", **named)
    fit(folder / "lists.parquet", folder / "lists", **named)
    fit(folder / "mask.npz", folder / "mask", **OPTIONS)
    score.fn(str(folder / "new.parquet"), str(folder / "text"), str(folder / "s.parquet"), **HERE)
    return folder


def test_however_sets_are_written(made: Path) -> None:
    def labels(name: str) -> dict[str, bytes]:
        found = results(made / name)
        return {
            key: value
            for key, value in found.items()
            if key.startswith(("results.zarr/labels", "l"))
        }

    assert len(labels("text")) > 9
    assert labels("text") == labels("lists") == labels("mask")


def test_run_says_what_the_kernels_say(made: Path) -> None:
    x, candidate = drawn()
    mask, own = pack(candidate[:N]), x[:N]
    near = nearest(own, own, 100, exclude=np.arange(N))[0]
    margins = np.array([AdaptiveParams(c1).margin(N, C) for c1 in C1])
    stops = stops_tried(100)
    hits = agreement(near, mask, mask, C, margins, np.array(stops))
    how = choose(hits, C1, stops)
    report = load_any(Run.of(made / "text"))
    assert isinstance(report, CandidateReport)
    assert report.n_blocks > 1
    assert (report.c1, report.k) == (how.c1, how.most_neighbors)
    assert np.allclose(np.array(report.agreement) * N, hits)
    found = predict(near, mask, C, N, how)
    mine = disambiguate(near, mask, mask, found, C, N, how)
    issues = pd.read_parquet(made / "text" / "label_issues.parquet")
    assert np.array_equal(issues["predicted_label"], found.label)
    assert np.array_equal(issues["disambiguated_label"], mine.label)
    assert np.array_equal(issues["n_neighbors"], found.n_neighbors)
    assert np.array_equal(issues["n_labels"], found.n_labels)
    assert np.array_equal(issues["in_candidates"], mine.in_candidates)
    assert np.array_equal(issues["is_label_issue"], ~mine.in_candidates)
    assert np.allclose(issues["label_quality"], mine.quality, rtol=1e-6)
    assert [one.tolist() for one in issues["candidates"]] == [
        np.flatnonzero(row).tolist() for row in candidate[:N]
    ]
    assert report.class_counts == candidate[:N].sum(axis=0).tolist()
    assert report.n_single == (candidate[:N].sum(axis=1) == 1).sum()
    assert report.n_disambiguated == np.bincount(mine.label, minlength=C).tolist()
    worst = report.pairs[0]
    taken = candidate[:N][mine.label == worst.label]
    assert worst.rows == taken[:, int(worst.other)].sum()
    scores = pd.read_parquet(made / "s.parquet")
    again = predict(nearest(x[N:], own, how.most_neighbors)[0], mask, C, N, how)
    assert (scores["predicted_label"] == again.label).mean() > 0.97  # lists: recall .99
    assert (scores["n_neighbors"] == again.n_neighbors).mean() > 0.9
    assert {"n_labels", "near_duplicates"} <= set(scores)


def test_people_are_told(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, page = str(made / "text"), made / "page.html"
    assert main(["report", "--run", run, "--html", str(page)]) == 0
    said = capsys.readouterr().out
    assert "no noise rates are estimated for sets" in said
    assert "predicted none of their own candidates: " in said
    assert "commonest confusions between candidates" in page.read_text()
    truth = ["--scores", str(made / "s.parquet"), "--truth", str(made / "text.csv")]
    for refused, why in (
        (["report", "--run", run, "--html", str(page), *truth], "--scores and --truth"),
        (["certify", "--run", run], "trained on candidate sets"),
        (["review", "--run", run], "trained on candidate sets"),
        (["compare", run, run], "trained on candidate sets"),
    ):
        assert main(refused) == 2
        told = capsys.readouterr().err
        assert why in told
        assert "Traceback" not in told
    found = knnoise.open_run(run)
    assert "candidates: " in str(found)
    assert found.suspects(3)["label_quality"].is_monotonic_increasing
    assert "predicted none of their candidates" in found._repr_html_()
    for name in ("rates", "annotators", "consensus"):
        with pytest.raises(InputError, match="candidate sets"):
            getattr(found, name)


@pytest.mark.parametrize("sets", ["drawn", "always 1 beside 0", "alone"])
def test_sets_that_do_not_tell_classes_apart_are_named(tmp_path: Path, sets: str) -> None:
    x, clean, _ = clouds(400, 3)
    candidate = np.eye(3, dtype=bool)[clean]
    candidate[:, 2] |= (np.random.default_rng(1).random(400) < 0.5) & (sets != "alone")
    candidate[clean == 0, 1] |= sets.startswith("always")
    np.savez(tmp_path / "pool.npz", X=x, y=candidate)
    warned = fit(tmp_path / "pool.npz", tmp_path / "run", k=None)["warnings"]
    about = [line for line in warned if "candidate" in line]
    begins = {"always 1 beside 0": "sets hardly tell 0 from 1: ", "alone": "every row has one "}
    assert len(about) == (sets != "drawn")
    assert all(line.startswith(begins[sets]) for line in about)


def test_interrupted_run_ends_with_the_same_bits(made: Path, tmp_path: Path) -> None:
    more = {**OPTIONS, "label_column": "kind", "candidates": "|"}
    fit_until("agreement", made / "text.csv", tmp_path / "run", **more)
    fit(made / "text.csv", tmp_path / "run", **more)
    assert results(tmp_path / "run") == results(made / "text")


def test_rows_without_candidates_are_given_a_label(made: Path, tmp_path: Path) -> None:
    written = pd.read_csv(made / "text.csv", dtype={"kind": str})
    written.loc[[3, 77], "kind"] = ["", "|"]
    written.to_csv(tmp_path / "t.csv", index=False)
    more = {**OPTIONS, "label_column": "kind", "candidates": "|", "builder": "exact"}
    with pytest.raises(InputError, match=r"2 rows have no candidate; first at row 3 .*--unlabeled"):
        fit(tmp_path / "t.csv", tmp_path / "run", **more)
    assert not (tmp_path / "run").exists()
    report = fit(tmp_path / "t.csv", tmp_path / "run", unlabeled="predict", **more)
    assert report["n_rows"] == N - 2
    predicted = pd.read_parquet(tmp_path / "run" / "unlabeled.parquet")
    assert predicted["row"].tolist() == [3, 77]
    whole = pd.read_parquet(made / "text" / "label_issues.parquet")
    same = whole["predicted_label"][[3, 77]].to_numpy() == predicted["predicted_label"].to_numpy()
    assert same.all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"by": "a"}, "--by a is for single labels"),
        ({"rule": "rknn"}, "--rule rknn is for single labels"),
        ({"objective": "balanced"}, "--objective balanced is for single labels"),
        ({"noise": "minmax"}, "--noise minmax is for single labels"),
        ({"p0": 0.1, "p1": 0.1}, "is for single labels"),
        ({"corrections": "said.csv"}, "--corrections said.csv is for single labels"),
        ({"compare_with": "run"}, "--compare-with run is for single labels"),
        ({"publish_review": 3}, "--publish-review 3 is for single labels"),
        ({"candidates": "a"}, "--candidates 'a': must be characters that stand in no label"),
        ({"candidates": "."}, "must be characters that stand in no label"),
    ],
)
def test_what_is_for_single_labels_is_refused(
    made: Path, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        fit(made / "lists.parquet", tmp_path / "run", **{"label_column": "kind", **options})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ([""] * 60, "60 rows have no candidate; first at row 0"),
        (["cat"] * 60, "the only candidate is 'cat'"),
        (["|".join(map(str, range(1001)))] * 60, "more than 1,000 values"),
        (["cat|dog", "dog"] * 2, "4 rows are too few"),
    ],
)
def test_bad_sets_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sets: list[str], said: str
) -> None:
    x = np.random.default_rng(0).normal(size=(len(sets), 4)).astype(np.float32)
    table(x, sets).to_csv(tmp_path / "t.csv", index=False)
    options = ["--label-column", "kind", "--candidates", "|", "--workers", "0"]
    assert main(["train", str(tmp_path / "t.csv"), "--run", str(tmp_path / "r"), *options]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told
    assert not (tmp_path / "r").exists()


def test_one_row_is_no_rows() -> None:
    pair = CandidatePair(label="cat", other="dog", rows=1, share=0.5)
    assert pair.text().endswith("have 'dog' among their candidates, 1 row")
