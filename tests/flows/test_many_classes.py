"""More classes than the report holds a matrix of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from classes import write_csv
from runs import fit

from flows.cli import main
from flows.report.content import load, training
from flows.report.kinds import ClassReport
from knnoise.result import Training
from storage.runs.run import Run

CLASSES, ROWS = 101, 20


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training on 101 classes, most of twenty rows and one of a thousand."""
    folder, rng = tmp_path_factory.mktemp("many"), np.random.default_rng(0)
    clean = np.concatenate([np.repeat(np.arange(CLASSES), ROWS), np.zeros(1000, int)])
    x = rng.normal(size=(CLASSES, 4))[clean] * 30 + rng.normal(size=(len(clean), 4))
    given = np.where(rng.random(len(clean)) < 0.1, rng.integers(0, CLASSES, len(clean)), clean)
    label = np.array([f"kind {code:03d}" for code in range(CLASSES)])[given]
    write_csv(folder / "pool.csv", x.astype(np.float32), label)
    fit(folder / "pool.csv", folder / "run", label_column="kind", k=10)
    return folder / "run"


def test_the_matrix_is_in_the_results(run: Path) -> None:
    report = load(Run.of(run))
    assert isinstance(report, ClassReport)
    assert len(report.classes) == len(report.class_noise) == CLASSES
    assert report.transition_matrix is None
    assert report.transition_interval is None
    assert (run / "report.json").stat().st_size < 300_000
    found = Training(str(run), json.loads((run / "report.json").read_text()))
    assert found.matrix.shape == (CLASSES, CLASSES)
    assert np.allclose(found.matrix.sum(axis=1), 1)
    assert found.rates["estimate"].tolist() == report.class_noise
    assert np.allclose(report.class_noise, 1 - np.diag(found.matrix))
    assert (found.rates["low"] <= found.rates["high"]).all()


def test_shares_are_said_of_classes_with_support(run: Path) -> None:
    report = load(Run.of(run))
    assert isinstance(report, ClassReport)
    known = [support != "unsupported" for support in report.class_support]
    assert [share is not None for share in report.clean_prior] == known
    assert not all(known)
    if sum(np.array(report.class_counts)[known]) < report.n_rows / 2:
        assert report.share_wrong is None


def test_text_page_and_comparison(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(["report", "--run", str(run), "--html", str(page)]) == 0
    assert "P(given | true) in results.zarr/transition" in capsys.readouterr().out
    assert "not known</td>" in page.read_text()
    assert main(["compare", str(run), str(run)]) == 0


def test_damage_to_the_matrix_is_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = (run / "results.zarr" / "transition" / "matrix").rglob("c/0/0")
    held = file.read_bytes()
    file.write_bytes(held[:-1] + bytes([held[-1] ^ 1]))
    capsys.readouterr()
    assert main(["status", "--run", str(run)]) != 0
    told = capsys.readouterr()
    assert "rates all damaged or missing" in told.err
    file.write_bytes(held)


def test_reports_of_before_are_read(run: Path) -> None:
    """Those held the matrix in full and no noise by class."""
    saved = json.loads((run / "report.json").read_text())
    matrix = Training(str(run), saved).matrix.to_numpy()
    before = {name: value for name, value in saved.items() if "class_noise" not in name}
    before["transition_matrix"] = matrix.tolist()
    before["transition_interval"] = np.stack([matrix, matrix], axis=2).tolist()
    found = training(before)
    assert isinstance(found, ClassReport)
    assert found.class_noise == saved["class_noise"]
