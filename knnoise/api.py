"""The commands from Python: a function each, with the options of the command as keywords."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from flows.options import params
from knnoise import options as typed
from knnoise.inputs import ANNOTATIONS, Source, as_files, in_python, in_words_of_python
from knnoise.result import Cleaned, Scores, Training
from storage.errors import InputError

if TYPE_CHECKING:
    from flows.intake.health import Health

_FILES = ("source", "labels")
_F = TypeVar("_F", bound=Callable[..., Any])
Folder = str | os.PathLike[str]
"""Of a finished training, or what `train` gave, which is such a path."""


def _with_options(function: _F) -> _F:
    """List the options of a command in the signature and the docstring of its function."""
    name = function.__name__.capitalize()
    types = getattr(typed, f"{name}Options").__annotations__
    every = getattr(params, f"{name}Params").model_fields
    fields = {key: field for key, field in every.items() if key in types}
    own = [p for p in inspect.signature(function).parameters.values() if p.name != "options"]
    listed = [
        inspect.Parameter(
            key,
            inspect.Parameter.KEYWORD_ONLY,
            default=... if field.is_required() else field.default,
            annotation=types[key],
        )
        for key, field in fields.items()
    ]
    function.__signature__ = inspect.Signature([*own, *listed])  # type: ignore[attr-defined]
    lines = [f"{key} : {in_python(params.described(field))}" for key, field in fields.items()]
    text = inspect.cleandoc(function.__doc__ or "")
    function.__doc__ = text.replace("**options", "\n".join(lines), 1)
    return function


def _text(name: str, path: Any) -> str:
    """A path as text; `InputError` for what is none."""
    if isinstance(path, str | os.PathLike) and isinstance(text := os.fspath(path), str):
        return text
    raise InputError(f"{name} of type {type(path).__name__}: must be a path")


def _labels(options: Any) -> Any:
    """The labels, taken from the options; `InputError` for a column of those in memory."""
    labels = options.pop("labels", None)
    is_file = labels is None or isinstance(labels, str | os.PathLike)
    if not is_file and options.get("label_column") is not None:
        raise InputError("labels and label_column: give one of them")
    return labels


def _files(source: Any, options: Any) -> AbstractContextManager[Source]:
    """What is in memory, as files; labels and annotations are taken from the options."""
    return as_files(
        source, _labels(options), options.get("id_column"), options.pop(ANNOTATIONS, None)
    )


def _trained(run: Folder) -> Training:
    return run if isinstance(run, Training) else open_run(run)


@_with_options
def train(
    source: Any, run: str | os.PathLike[str] | None = None, **options: Unpack[typed.TrainOptions]
) -> Training:
    """Train on a noisily labeled source, or resume or open a training.

    Parameters
    ----------
    source : path, pandas, polars or Dask data frame, Arrow table or stream, relation of DuckDB,
        Dataset of Hugging Face, or (row, feature) NumPy or Dask array
    run : folder of the run; by default a new temporary one, which stays
        `labels` may be an array or a series, too, `annotations` a data frame; `id_column` is by
        default the index of a data frame, where it has one of its own
    **options

    Raises
    ------
    storage.errors.KnnoiseError
        InputError, StorageError or ClusterError, each with a message for people.
    """
    from flows.orchestration.calls import call
    from flows.orchestration.run_folders import to_make

    with _named(run, "knnoise-run-") as name, _files(source, options) as files:
        folder = _lasting(to_make(name))
        given = {"source": files.path, "labels": files.labels, ANNOTATIONS: files.annotations}
        summary = call("train", {**files.ids, **options, **given, "run": folder})
        return Training(folder, summary, files.index)


def _lasting(path: str) -> str:
    """A path as it is from any current folder."""
    from storage.files.location import Location

    return Location.of(path).url


@contextmanager
def _named(path: str | os.PathLike[str] | None, prefix: str, name: str = "") -> Iterator[str]:
    """What is to be written: by default in a new temporary folder, which stays unless it stays
    empty."""
    if path is not None:
        yield _text("out" if name else "run", path)
        return
    folder = mkdtemp(prefix=prefix)
    try:
        yield os.path.join(folder, name) if name else folder
    finally:
        with suppress(OSError):
            os.rmdir(folder)


@_with_options
def score(
    source: Any,
    run: Folder,
    out: str | os.PathLike[str] | None = None,
    **options: Unpack[typed.ScoreOptions],
) -> Scores:
    """Score new rows with a finished training.

    Parameters
    ----------
    source : as for `train`
    run : folder of the training, or what `train` gave
    out : file of the scores; by default a new temporary one, which stays
    **options
    """
    from flows.orchestration.calls import call

    trained = _trained(run)
    with (
        _named(out, "knnoise-", "scores.parquet") as target,
        as_files(source, id_column=options.get("id_column") or trained.id_column) as files,
    ):
        given = {"source": files.path, "run": trained.run, "out": target}
        summary = call("score", {**files.ids, **options, **given})
        return Scores(_lasting(target), summary, trained.label_values, files.index)


def open_run(run: str | os.PathLike[str]) -> Training:
    """A finished training."""
    from flows.orchestration.run_folders import latest
    from flows.report.content import load_any
    from storage.runs.run import Run

    with in_words_of_python():
        folder = latest(_text("run", run))
        return Training(_lasting(folder), load_any(Run.of(folder)).as_json())


@_with_options
def check(source: Any, **options: Unpack[typed.CheckOptions]) -> Health:
    """Look at a source: what is understood of it, and what is suspicious; printing it shows one
    screen, and `train(source, **found.remedies)` trains with every remedy.

    Parameters
    ----------
    source : as for `train`
    **options
    """
    from flows.intake.health import Health
    from flows.intake.preflight import run_check

    votes = {key: value for key, value in options.items() if key == ANNOTATIONS}
    with _files(source, options) as files:
        given = {"labels": files.labels, ANNOTATIONS: files.annotations}
        content = run_check(files.path, **{**files.ids, **options, **given})
    named = source if isinstance(source, str | os.PathLike) else type(source).__name__
    health = Health.model_validate({**content, "source": str(named)})
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
    remedies = remedies and {**remedies, **votes}  # as they were given
    return health.model_copy(update={"findings": findings, "remedies": remedies})


@_with_options
def clean(
    source: Any,
    run: Folder,
    out: str | os.PathLike[str] | None = None,
    **options: Unpack[typed.CleanOptions],
) -> Cleaned:
    """Write what a training learned from without its suspect labels, for other models.

    Parameters
    ----------
    source : that of the training, as for `train`
    run : folder of the training, or what `train` gave
    out : table to write; by default a new temporary one, which stays
    **options

    Raises
    ------
    storage.errors.InputError
        the source is not that of the training, or its labels are sets, or several per row.
    """
    from flows.clean import run_clean

    trained = _trained(run)
    with (
        _named(out, "knnoise-", "clean.parquet") as target,
        as_files(source, id_column=trained.id_column) as files,
    ):
        given = {"source": files.path, "run": trained.run, "out": target}
        summary = run_clean(**{**options, **given})
        index, rows = files.ids.get("id_column"), None
        if index is not None and files.index is not None:
            issues = trained.label_issues
            there = issues[~issues["is_label_issue"]] if summary["how"] == "drop" else issues
            rows = files.index[there["row"]]
        return Cleaned(_lasting(target), summary, index, files.types, rows)


@_with_options
def certify(run: Folder, **options: Unpack[typed.CertifyOptions]) -> dict[str, Any]:
    """Bounds of the error of a finished training's neighbors; the report.

    Parameters
    ----------
    run : folder of the training, or what `train` gave
    **options
    """
    return _called("certify", {**options, "run": _text("run", run)})


@_with_options
def review(run: Folder, **options: Unpack[typed.ReviewOptions]) -> dict[str, Any]:
    """Serve a page on which people judge suspect labels, until it is interrupted; what their
    answers measure.

    Parameters
    ----------
    run : folder of the training, or what `train` gave
    **options
    """
    from flows.review import run_review

    with in_words_of_python():
        return run_review(**{**options, "run": _text("run", run)})


@_with_options
def acquire(
    source: Any, run: str | os.PathLike[str], **options: Unpack[typed.AcquireOptions]
) -> dict[str, Any]:
    """Choose which rows without labels are worth one, ask for these, and predict all; the report.

    Parameters
    ----------
    source : as for `train`
    run : folder of the run; the same again goes on
    **options
    """
    with as_files(source, id_column=options.get("id_column")) as files:
        return _called(
            "acquire", {**files.ids, **options, "source": files.path, "run": _text("run", run)}
        )


def _called(name: str, given: dict[str, Any]) -> dict[str, Any]:
    from flows.orchestration.calls import call

    with in_words_of_python():
        return call(name, given)
