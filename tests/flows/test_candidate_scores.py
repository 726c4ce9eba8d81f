"""Rows that are scored with candidates of their own: what is predicted is one of these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from classes import clouds
from runs import fit

from flows.cli import main
from flows.report.content import load_any
from flows.report.kinds import CandidateReport
from flows.score import score
from pipeline.knn.exact import nearest
from pipeline.methods.partial_labels import AdaptiveParams, disambiguate, pack, predict
from storage.errors import InputError
from storage.runs.run import Run

N, C, NEW = 600, 7, 200
NAMES = np.array(list("ABCDEFG"))
HERE = {"workers": 0, "quiet": True}


def drawn() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Features and candidates of clouds; the true class is missing in a fifth of the sets."""
    x, clean, _ = clouds(N + NEW, C)
    rng, every = np.random.default_rng(1), np.arange(N + NEW)
    candidate = rng.random((N + NEW, C)) < 0.3
    candidate[every, np.where(rng.random(N + NEW) < 0.2, (clean + 1) % C, clean)] = True
    return x, candidate


def table(x: npt.NDArray[np.float32], **columns: Any) -> pd.DataFrame:
    return pd.DataFrame(x, columns=list("abcd")).assign(**columns)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training on lists, and new rows with their sets as lists, text and a mask."""
    folder = tmp_path_factory.mktemp("own")
    x, candidate = drawn()
    sets = [NAMES[row].tolist() for row in candidate]
    text = ["|".join(one) for one in sets]
    table(x[:N], kind=text[:N]).to_csv(folder / "train.csv", index=False)
    table(x[N:], kind=sets[N:]).to_parquet(folder / "lists.parquet")
    table(x[N:], kind="?", maybe=text[N:]).to_csv(folder / "text.csv", index=False)
    options: dict[str, Any] = {"k": None, "builder": "exact", "target_recall": 1.0}
    fit(folder / "train.csv", folder / "run", label_column="kind", candidates="|", **options)
    return folder


def scored(made: Path, source: Path, **options: Any) -> pd.DataFrame:
    out = made / f"{source.stem}-{len(options)}.parquet"
    score.fn(str(source), str(made / "run"), str(out), **HERE, **options)
    return pd.read_parquet(out)


def test_predictions_are_what_the_kernels_disambiguate(made: Path) -> None:
    x, candidate = drawn()
    report = load_any(Run.of(made / "run"))
    assert isinstance(report, CandidateReport)
    mask, own = pack(candidate[:N]), pack(candidate[N:])
    how = AdaptiveParams(report.c1, report.delta, report.k)
    near = nearest(x[N:], x[:N], report.k)[0]
    found = predict(near, mask, C, N, how)
    mine = disambiguate(near, mask, own, found, C, N, how)
    free = scored(made, made / "lists.parquet")
    assert np.array_equal(free["predicted_label"], NAMES[found.label])
    assert "in_candidates" not in free
    for given, column in (("lists.parquet", "kind"), ("text.csv", "maybe")):
        scores = scored(made, made / given, candidates=column)
        assert np.array_equal(scores["predicted_label"], NAMES[mine.label])
        assert np.array_equal(scores["in_candidates"], mine.in_candidates)
        assert np.array_equal(scores["n_labels"], found.n_labels)
        assert 0 < (~scores["in_candidates"]).sum() < NEW
        assert candidate[N:][np.arange(NEW), mine.label].all()


def test_people_are_told(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["score", str(made / "text.csv"), "--run", str(made / "run"), "--workers", "0"]
    assert main([*arguments, "--out", str(made / "s.csv"), "--candidates", "maybe"]) == 0
    assert "predictions are candidates of 'maybe'; of " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({3: "A|Q"}, r"row 3 \(from 0\) has the candidate 'Q', which is no class of the training"),
        ({5: "", 9: "|"}, r"2 rows have no candidate; first at row 5 .*without this column"),
    ],
)
def test_sets_that_cannot_be_are_refused(
    made: Path, tmp_path: Path, bad: dict[int, str], said: str
) -> None:
    rows = pd.read_csv(made / "text.csv")
    for row, text in bad.items():
        rows.loc[row, "maybe"] = text
    rows.to_csv(tmp_path / "bad.csv", index=False)
    before = list((made / "run" / "scores").glob("*"))
    with pytest.raises(InputError, match=said):
        scored(made, tmp_path / "bad.csv", candidates="maybe")
    assert list((made / "run" / "scores").glob("*")) == before


def test_columns_and_trainings_without_sets_are_refused(made: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        scored(made, made / "text.csv", candidates="nowhere")
    x, candidate = drawn()
    single = NAMES[candidate[:N].argmax(axis=1)]
    table(x[:N], kind=single).to_csv(tmp_path / "single.csv", index=False)
    fit(tmp_path / "single.csv", tmp_path / "run", label_column="kind")
    files = str(made / "text.csv"), str(tmp_path / "run"), str(tmp_path / "s.csv")
    with pytest.raises(InputError, match="this one is on single labels; leave it out"):
        score.fn(*files, candidates="maybe", **HERE)
