"""Annotations, brought to the blocks whose rows they are of, or neighbors of such, and graph →
matrices of the annotators, and the likeliest class of each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from flows.engine.collectives.graph import Around, Asks, PoolGraph, over_graph
from flows.engine.collectives.rows import SourceRows, Table, export, over_rows
from flows.engine.collectives.sent import Facts, Sendings
from flows.engine.job import Job, Output
from flows.engine.results import LabelValue
from flows.steps.graph.lookup import certain
from flows.steps.ingest.pool import annotations_of
from flows.steps.labels.groups import Estimated
from pipeline.arrays import Float64, Int32, Int64, added, plus
from pipeline.knn.lists import nearness
from pipeline.noise.annotator_matrices import (
    MOST_CELLS,
    ROUNDS,
    STILL,
    Agreement,
    PriorMatrix,
    change,
    is_shared,
    maximize,
    started,
)
from pipeline.noise.annotator_pairs import alike, pair_counts
from pipeline.noise.annotator_verdicts import Annotators, LookAt, verdicts_on
from pipeline.noise.annotators import CERTAIN, NEAR, Expected, RowLabels, Skills, expect
from storage.arrays.groups import Arrays, read_group
from storage.errors import InputError
from storage.runs.pool import pool_chunk_rows
from storage.runs.run import Run

WANTED = Asks(own=True, ranks=NEAR)
"""The rows whose annotations a block wants."""
SKILLS, GROUP = "annotator-skills", "annotators"
TABLE = "consensus.parquet"
GIVES = {"consensus": "i2", "certainty": "f4", "n_annotations": "i4", "n_agreeing": "i4"}
LOOKED_AT = 20
"""Rows to look at first that a report lists."""
PORTION = 1 << 16
"""Rows that are judged together."""


@dataclass(frozen=True)
class Annotated:
    """How annotators agree, in some rows or in all."""

    agreement: Agreement
    n_annotations: int
    n_unused: int


def collect(job: Job, graph: PoolGraph, n_classes: int) -> tuple[Sendings, Annotated]:
    """Send every block the annotations of its rows and their neighbors, once; how far all agree."""
    requests = over_graph(job, graph, "annotations-wanted", asks=WANTED)
    kernel = partial(annotations_in, n_classes=n_classes)
    sent = over_rows(job, graph, "annotations", kernel, requests=requests)
    return sent, added(sent.left(Annotated))


def annotations_in(at: SourceRows, n_classes: int) -> Facts:
    """The annotations of some rows, with labels that somebody checked as annotations, too."""
    rows, sure = at.rows, certain(at.pool.run, at.rows)
    row, annotator, label, n_unused = _annotations(at)
    start = np.searchsorted(row, np.arange(rows.start, rows.stop + 1))
    agreement = Agreement.of(start, label, n_classes)
    rows_of_all = np.concatenate([row, sure + rows.start])
    order = np.argsort(rows_of_all, kind="stable")
    annotators = np.concatenate([annotator, np.full(len(sure), CERTAIN, np.int32)])
    labels = np.concatenate([label, at.read("y")[sure].astype(np.int32)])
    columns = {"row": rows_of_all[order], "annotator": annotators[order], "label": labels[order]}
    about: dict[str, Any] = at.pool.run.group(at.pool.path).attrs.asdict()
    drawn = pair_counts(start, annotator, label, len(about["annotator_values"]))
    return Facts(others=columns, drawn=drawn, left=Annotated(agreement, len(row), n_unused))


def _annotations(at: SourceRows) -> tuple[Int64, Int32, Int32, int]:
    """(annotation,) row, annotator and class, by row; and how many annotations are of no class."""
    pool, chunk = at.pool, pool_chunk_rows(at.pool.n_features)
    codes = np.array(pool.run.group(pool.path).attrs.asdict()["annotation_codes"], np.int32)
    numbers = range(at.rows.start // chunk, -(-at.rows.stop // chunk))
    parts = [read_group(pool.run.store, annotations_of(number)) for number in numbers]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    label = codes[whole["label"]]
    used = label >= 0
    annotator = whole["annotator"][used].astype(np.int32)
    return whole["row"][used], annotator, label[used], int((~used).sum())


@dataclass(frozen=True)
class Agreed:
    """What a part says of its rows; those to see first as (certainty, row, given, consensus)."""

    n_changed: int
    certainty: float
    look_first: list[tuple[float, int, int, int]]


def check_cells(n_annotators: int, n_classes: int) -> None:
    """Raise `InputError` for more, or larger, matrices than are held."""
    if n_annotators * n_classes**2 > MOST_CELLS:
        raise InputError(
            f"--annotations: {n_annotators:,} annotators with a matrix of {n_classes:,} classes "
            f"each are {n_annotators * n_classes**2:,} numbers, at most {MOST_CELLS:,} are "
            "estimated; merge rare classes, or name annotators by team or site"
        )


def find_consensus(
    job: Job,
    graph: PoolGraph,
    classes: list[LabelValue],
    counts: list[int],
    estimated: Estimated,
) -> Annotators:
    """Write the groups `annotators` and `consensus`, and the latter's table; the report on
    annotators.

    classes, counts : labels by code, and the rows given each
    """
    pool = graph.pool
    attributes: dict[str, Any] = job.run.group(pool.path).attrs.asdict()
    names: list[LabelValue] = attributes["annotator_values"]
    shape = len(names), len(classes)
    sent, about = collect(job, graph, len(classes))

    def over_blocks(step: str, number: int, gives: Mapping[str, str]) -> Sendings:
        return over_graph(
            *(job, graph, step, expected),
            needs=("distance",),
            known=sent,
            several=WANTED,
            gives=gives,
            reading=partial(_believed, number=number),
            portion=None,
        )

    def first(run: Run) -> PriorMatrix:
        given = estimated.whole(run, classes, counts).matrix
        return PriorMatrix.of(about.agreement, pool.n_rows, given)

    def start(run: Run) -> Output:
        skills = started(first(run).matrix, shape[0], np.array(counts) / sum(counts))
        return _keep(run, 0, skills, Expected.none(*shape), 1.0)

    job.once(_matrices(0), start)
    number, moved = 0, np.inf
    while moved >= STILL and number < ROUNDS:
        sums_sent = over_blocks(f"annotators-{number:02d}", number, {})

        def fit(run: Run, number: int = number, sent: Sendings = sums_sent) -> Output:
            sums = _summed(sent, shape)
            before, after = read_skills(run, number), maximize(sums, first(run))
            return _keep(run, number + 1, after, sums, change(before, after, sums.counts))

        moved = job.result(_matrices(number + 1), fit, float)
        number += 1
    judged = over_blocks("consensus-blocks", number, GIVES)
    agreed, sums = _write(job, graph, judged, classes), _summed(judged, shape)

    def finish(run: Run) -> Output:
        skills = read_skills(run, number)
        pairs = alike(names, sent.drawn_by_part(), sums.counts.sum(axis=1))
        shared = is_shared(about.agreement, pool.n_rows)
        written = run.write(GROUP, "annotators", _columns(skills, sums))
        annotators = Annotators(
            verdicts_on(names, sums, skills, shared and not pairs),
            about.agreement,
            shared,
            about.n_annotations,
            sum(part.n_changed for part in agreed),
            float(sum(part.certainty for part in agreed) / pool.n_rows),
            [
                LookAt(row, classes[given], classes[consensus], certainty)
                for certainty, row, given, consensus in sorted(
                    row for part in agreed for row in part.look_first
                )[:LOOKED_AT]
            ],
            about.n_unused,
            attributes["annotations_empty"],
            pairs,
        )
        return Output(written, annotators)

    return job.result("annotators", finish, Annotators)


def _matrices(number: int) -> str:
    """The step that fits the matrices of a round."""
    return f"matrices-{number:02d}"


def _keep(run: Run, number: int, skills: Skills, sums: Expected, moved: float) -> Output:
    columns = _columns(skills, sums)
    return Output(run.write_scratch(f"{SKILLS}/{number:02d}", "annotators", columns), moved)


def _columns(skills: Skills, sums: Expected) -> Arrays:
    return {**vars(skills), "support": sums.counts.sum(axis=2)}


def read_skills(run: Run, number: int) -> Skills:
    """The skills that a round ended with."""
    return Skills(**read_group(run.scratch, f"{SKILLS}/{number:02d}", ("matrix", "prior", "sure")))


def _believed(run: Run, number: int) -> dict[str, Skills]:
    return {"skills": read_skills(run, number)}


def _flat(sums: Expected) -> Float64:
    """(cell,) all sums, one after the other."""
    return np.concatenate([column.ravel() for column in vars(sums).values()])


def _summed(sent: Sendings, shape: tuple[int, int]) -> Expected:
    """The sums of all blocks, in their order."""
    none = Expected.none(*shape)
    flat = _flat(none)
    for part in sent.drawn_by_part():
        flat[part["cell"]] += part["sum"]
    sizes = [column.size for column in vars(none).values()]
    columns = np.split(flat, np.cumsum(sizes)[:-1])
    shapes = [column.shape for column in vars(none).values()]
    return Expected(*(c.reshape(shape) for c, shape in zip(columns, shapes, strict=True)))


def expected(at: Around, skills: Skills) -> Facts:
    """The sums over the rows of one block, and the likeliest class of each."""
    there, none = at.near >= 0, np.empty(0, np.int32)
    annotator, label = (at.known.get(name, none) for name in ("annotator", "label"))
    labels = RowLabels(at.known["start"], annotator, label)
    near, own = np.where(there, at.near, 0).astype(np.int64), at.own.astype(np.int64)
    distance = np.where(there, at.of_row["distance"][:, : near.shape[1]], np.inf)
    sums, pieces = Expected.none(*skills.matrix.shape[:2]), []
    for start in range(0, len(at.row), PORTION):
        rows = slice(start, start + PORTION)
        weights = nearness(distance[rows])
        piece, more = expect(own[rows], near[rows], weights, labels, skills)
        sums = plus(sums, more)
        pieces.append(vars(piece))
    columns = {name: np.concatenate([piece[name] for piece in pieces]) for name in GIVES}
    flat = _flat(sums)
    cell = np.flatnonzero(flat)
    return Facts(columns, drawn={"cell": cell, "sum": flat[cell]})


def _write(job: Job, graph: PoolGraph, judged: Sendings, classes: list[LabelValue]) -> list[Agreed]:
    """The consensus in source order, and its table."""
    pool = graph.pool
    table = Table("consensus", label=pool.label_dtype().str)
    agreed = over_rows(job, graph, "consensus", consensus, of=[judged], table=table)
    job.once("agreed", lambda run: Output(table.finish(run, pool, {})))
    export(job, "consensus-table", "consensus", TABLE, classes)
    return agreed.left(Agreed)


def consensus(at: SourceRows) -> Facts:
    """The consensus on some rows of the pool."""
    given, row, certainty = at.read("y"), at.read("row"), at.columns["certainty"]
    likeliest, n = at.columns["consensus"].astype(given.dtype), at.columns["n_annotations"]
    agreement = np.where(n > 0, at.columns["n_agreeing"] / np.maximum(n, 1), np.nan)
    least = np.lexsort((row, certainty))[:LOOKED_AT]
    columns = (certainty, row, given, likeliest)
    first = list(zip(*(column[least].tolist() for column in columns), strict=True))
    total = float(certainty.astype(np.float64).sum())
    return Facts(
        {
            "row": row,
            "given_label": given,
            "consensus_label": likeliest,
            "certainty": certainty,
            "n_annotations": n,
            "agreement": agreement.astype(np.float32),
        },
        left=Agreed(int((likeliest != given).sum()), total, first),
    )
