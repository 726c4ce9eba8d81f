"""The annotations of a pool, brought to the blocks whose rows they are of, or neighbors of such."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.engine.collectives import (
    Asks,
    Facts,
    PoolGraph,
    Sendings,
    SourceRows,
    over_graph,
    over_rows,
)
from flows.engine.job import Job
from flows.engine.results import LabelValue, Result
from flows.steps.ingest.pool import annotations_of, certain
from pipeline.noise.annotator_matrices import Agreement
from pipeline.noise.annotators import CERTAIN, NEAR
from storage.arrays.groups import read_group
from storage.runs.pool import Pool, pool_chunk_rows
from storage.runs.run import Run

WANTED = Asks(own=True, ranks=NEAR)
"""The rows whose annotations a block wants."""
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Annotated(Result):
    """How annotators agree, in some rows or in all."""

    agreement: Agreement
    n_annotations: int
    n_unused: int


@dataclass(frozen=True)
class AnnotatorNames:
    """Who annotated a pool."""

    names: list[LabelValue]
    n_empty: int


def annotators_of(run: Run, pool: Pool) -> AnnotatorNames:
    """What the pool says of its annotators."""
    about: dict[str, Any] = run.group(pool.path).attrs.asdict()
    return AnnotatorNames(about["annotator_values"], about["annotations_empty"])


def collect(job: Job, graph: PoolGraph, n_classes: int) -> tuple[Sendings, Annotated]:
    """Send every block the annotations of its rows and of their neighbors, once; and what all of
    them say of each other."""
    requests = over_graph(job, graph, "annotations-wanted", asks=WANTED)
    kernel = partial(annotations_in, n_classes=n_classes)
    sent = over_rows(job, graph, "annotations", kernel, requests=requests)
    parts, agreement = sent.left(Annotated), Agreement(0, 0, 0, 0)
    for part in parts:
        agreement = agreement.plus(part.agreement)
    n_annotations = sum(part.n_annotations for part in parts)
    return sent, Annotated(agreement, n_annotations, sum(part.n_unused for part in parts))


def annotations_in(at: SourceRows, n_classes: int) -> Facts:
    """The annotations of some rows, and the labels that are certain."""
    rows, sure = at.rows, certain(at.pool.run, at.rows)
    row, annotator, label, n_unused = _annotations(at)
    start = np.searchsorted(row, np.arange(rows.start, rows.stop + 1))
    agreement = Agreement.of(start, label, n_classes)
    known = np.concatenate([row, sure + rows.start])
    order = np.argsort(known, kind="stable")
    who = np.concatenate([annotator, np.full(len(sure), CERTAIN, np.int32)])
    what = np.concatenate([label, at.read("y")[sure].astype(np.int32)])
    columns = {"row": known[order], "annotator": who[order], "label": what[order]}
    return Facts(others=columns, left=Annotated(agreement, len(row), n_unused))


def _annotations(
    at: SourceRows,
) -> tuple[Ints, npt.NDArray[np.int32], npt.NDArray[np.int32], int]:
    """(annotation,) row, annotator and class, by row; and how many are of no class."""
    pool, chunk = at.pool, pool_chunk_rows(at.pool.n_features)
    codes = np.array(pool.run.group(pool.path).attrs.asdict()["annotation_codes"], np.int32)
    numbers = range(at.rows.start // chunk, -(-at.rows.stop // chunk))
    parts = [read_group(pool.run.store, annotations_of(number)) for number in numbers]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    label = codes[whole["label"]]
    used = label >= 0
    annotator = whole["annotator"][used].astype(np.int32)
    return whole["row"][used], annotator, label[used], int((~used).sum())
