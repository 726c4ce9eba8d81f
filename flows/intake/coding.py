"""What text columns and gaps become, learned from all training rows before they are read."""

from collections import Counter
from dataclasses import replace
from shlex import quote

import numpy as np

from flows.intake.glance import BATCH_ROWS
from flows.intake.health import Health
from flows.options.params import CheckParams, TrainParams
from pipeline.arrays import Integers
from pipeline.blocks.sampling import RowSample
from pipeline.streams import Stream
from storage.errors import InputError
from storage.sources.base import Source
from storage.sources.files import readable
from storage.sources.formats.tables import TablesReader
from storage.sources.joins import with_annotations
from storage.sources.opening import open_source
from storage.sources.request import Coding, Columns
from storage.sources.values.labels import joined_by
from storage.sources.values.texts import plain_texts

MOST_CATEGORIES = 64
"""Values of a text column that have features, at most."""
MOST_TEXTS = 1 << 16
"""Values of a text column, beyond which it is none of categories."""
WRITTEN = {"sep": "csv", "encoding": "csv", "sheet": "xlsx"}
"""Options of how a file is written, and the format that they are of."""
SAMPLE_BYTES = 64 << 20
SAMPLE_ROWS = 1 << 17
_PIECE = 1 << 16


def learn(params: TrainParams, health: Health | None) -> Coding:
    """How text is parsed, as given; one pass for the categories of text columns, one for medians,
    as far as they are asked for.

    Raises `InputError` where a column has too many values to encode, or none at all; the message
    names it.
    """
    texts = [] if health is None or params.encode == "none" else health.texts
    categories = {} if not texts else _categories(params, texts)
    parse = params.parsing()
    joined = joined_by(dict(health.label_counts)) if health and params.join_labels else {}
    coding = Coding(categories, drop=params.impute == "drop", parse=parse, joined=joined)
    if params.impute != "median":
        return coding
    source = opened(params, health, coding)
    return replace(coding, fills=_medians(source, params.seed))


def opened(params: TrainParams, health: Health | None, coding: Coding) -> Source:
    """The source of a training."""
    left_out = () if health is None else health.left_out
    source = own_source(params, params.annotations is None, coding, left_out)
    if params.annotations is not None:
        source = annotated(source, params)
    return source if params.unlabeled == "refuse" else replace(source, only="labeled")


def own_source(
    params: CheckParams | TrainParams,
    with_labels: bool,
    coding: Coding | None = None,
    left_out: tuple[str, ...] = (),
) -> Source:
    """The source that parameters name, without its annotations; with no coding to be looked at."""
    source = open_source(
        params.source,
        params.labels,
        None if params.annotations is not None else params.label_column,
        with_labels=with_labels,
        dialect=params.dialect(),
        columns=params.columns(left_out),
        coding=coding or Coding(parse=params.parsing()),
        raw=coding is None,
        candidates=params.candidates,
    )
    alone = params.labels is None and params.annotations is None
    for name, kind in WRITTEN.items() if alone else ():
        for word in params.given(name) if source.kind != kind else ():
            raise InputError(f"{word}: {source.files[0]} is no {kind} file; leave it out")
    return source


def annotated(source: Source, params: CheckParams | TrainParams) -> Source:
    """A source with the annotations that parameters name."""
    columns = params.label_column, params.annotator_column
    return with_annotations(source, params.annotations or "", *columns, params.dialect())


def worth_encoding(counts: Integers) -> bool:
    """Whether the values that would have features, of those so frequent, are those of most rows."""
    return bool(2 * np.sort(counts)[-MOST_CATEGORIES:].sum() >= counts.sum())


def _categories(params: TrainParams, texts: list[str]) -> dict[str, list[str]]:
    """The most frequent values of text columns, in alphabetical order."""
    keep = Columns(keep=tuple(texts))
    source = open_source(
        params.source, with_labels=False, dialect=params.dialect(), columns=keep, raw=True
    )
    assert isinstance(source.reader, TablesReader)
    counts: dict[str, Counter[str]] = {name: Counter() for name in texts}
    with readable(source.files[0]):
        for batch in source.reader.cells(0, BATCH_ROWS):
            for name, of in counts.items():
                counted = plain_texts(batch.column(name)).drop_null().value_counts()
                of.update(dict(zip(*(part.to_pylist() for part in counted.flatten()), strict=True)))
                if len(of) > MOST_TEXTS:
                    raise _too_many(source, name, f"more than {MOST_TEXTS:,} values")
    for name, of in counts.items():
        if not worth_encoding(np.array([*of.values()], np.int64)):
            raise _too_many(
                source,
                name,
                f"{len(of):,} values, and the {MOST_CATEGORIES} most frequent are those of less "
                "than half of the rows",
            )
    most = {name: sorted(of, key=lambda v: (-of[v], v)) for name, of in counts.items()}
    return {name: sorted(values[:MOST_CATEGORIES]) for name, values in most.items()}


def _too_many(source: Source, name: str, why: str) -> InputError:
    return InputError(
        f"{source.files[0]}: text column {name!r} has {why}: too many to encode; give "
        f"--exclude {quote(name)} or --id-column {quote(name)}"
    )


def _medians(source: Source, seed: int) -> dict[str, float]:
    """Median of each feature over a uniform sample of the rows, of all where they are few."""
    names = source.feature_names
    size = min(SAMPLE_ROWS, SAMPLE_BYTES // (4 * len(names)))
    sample = RowSample(size, seed, Stream.CODING)
    for chunk in source.chunks(min(_PIECE, size)):
        sample.see(chunk.start, chunk.x)
    x = np.where(np.isfinite(sample.x), sample.x, np.nan)
    empty = np.flatnonzero(np.isnan(x).all(axis=0))
    if len(empty):
        raise InputError(
            f"{source.files[0]}: column {names[empty[0]]!r} has no values; give --exclude "
            f"{quote(names[empty[0]])}"
        )
    return dict(zip(names, np.nanmedian(x.astype(np.float64), axis=0).tolist(), strict=True))
