"""Training and scoring from Python."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from knnoise.inputs import as_files, in_python, in_words_of_python
from knnoise.result import Scores, Training
from storage.errors import InputError

_FILES = ("source", "labels")


def train(source: Any, run: str | os.PathLike[str] | None = None, **options: Any) -> Training:
    """Train on a noisily labeled source, or resume or open a training.

    Parameters
    ----------
    source : path, pandas, polars or Dask data frame, Arrow table or stream, or (row, feature)
        NumPy or Dask array
    run : folder of the run; by default a new temporary one, which stays
    **options : those of `knnoise train`, such as `label_column`, `labels` (also an array or a
        series), `id_column` (by default the index of a data frame, where it has one of its own),
        `exclude`, `k`, `workers`, `quiet`

    Raises
    ------
    storage.errors.KnnoiseError
        InputError, StorageError or ClusterError, each with a message for people.
    """
    from flows.orchestration.calls import call

    folder = mkdtemp(prefix="knnoise-run-") if run is None else os.fspath(run)
    with as_files(source, options.pop("labels", None)) as files:
        if files.id_column is not None:
            options.setdefault("id_column", files.id_column)
        given = {"source": files.path, "labels": files.labels, "run": folder}
        found = call("train", {**options, **given})
    return Training(folder, found)


def score(
    source: Any,
    run: str | os.PathLike[str] | Training,
    out: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Scores:
    """Score new rows with a finished training.

    Parameters
    ----------
    source : as for `train`
    run : folder of the training, or what `train` gave
    out : file of the scores; by default a new temporary one, which stays
    **options : those of `knnoise score`
    """
    from flows.orchestration.calls import call

    trained = run if isinstance(run, Training) else open_run(run)
    target = str(Path(mkdtemp(prefix="knnoise-")) / "scores.parquet") if out is None else out
    with as_files(source) as files:
        if files.id_column is not None:
            options.setdefault("id_column", files.id_column)
        given = {"source": files.path, "run": trained.run, "out": os.fspath(target)}
        found = call("score", {**options, **given})
    return Scores(os.fspath(target), found, trained.label_values)


def open_run(run: str | os.PathLike[str]) -> Training:
    """A finished training."""
    from flows.orchestration.run_folders import latest
    from flows.report.content import load_any
    from storage.files.location import Location
    from storage.runs.run import Run

    with in_words_of_python():
        folder = latest(os.fspath(run))
        return Training(folder, load_any(Run(Location.of(folder))).as_json())


def check(source: Any, **options: Any) -> Any:
    """Look at a source: what is understood of it, and what is suspicious; printing it shows one
    screen, and `train(source, **found.remedies)` trains with every remedy.

    Parameters
    ----------
    source : as for `train`
    **options : those of `knnoise check`, such as `label_column`
    """
    from flows.intake.health import Health
    from flows.intake.preflight import run_check

    if options.get("labels") is not None and options.get("label_column") is not None:
        raise InputError("labels and label_column: give one of them")
    with as_files(source, options.pop("labels", None)) as files:
        if files.id_column is not None:
            options.setdefault("id_column", files.id_column)
        found = run_check(files.path, labels=files.labels, **options)
    named = source if isinstance(source, str | os.PathLike) else type(source).__name__
    health = Health.model_validate({**found, "source": str(named)})
    findings = [
        one.model_copy(
            update={
                "text": in_python(one.text),
                "option": one.option and in_python(f"give {one.option}").removeprefix("give "),
            }
        )
        for one in health.findings
    ]
    remedies = health.remedies and {k: v for k, v in health.remedies.items() if k not in _FILES}
    return health.model_copy(update={"findings": findings, "remedies": remedies})
