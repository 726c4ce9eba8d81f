"""Annotations and graph → matrices of the annotators, and the likeliest class of each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flows.engine.collectives.sent import Routed, incoming, source_order
from flows.engine.job import Job, Output
from flows.engine.parts import Part, block_name
from flows.engine.results import LabelValue, Result
from flows.steps.annotations import Collected, annotators_of, collect, of_block
from flows.steps.classes import ClassEstimates
from flows.steps.groups import crossfitted
from flows.steps.partition import Blocks
from flows.steps.rates import RateEstimates
from pipeline.noise.annotator_matrices import (
    MOST_CELLS,
    STILL,
    change,
    first_matrix,
    is_shared,
    maximize,
    most_rounds,
    started,
    together,
)
from pipeline.noise.annotator_verdicts import Annotators, LookAt, told
from pipeline.noise.annotators import Expected, Floats, Judged, Skills, expect
from pipeline.noise.transition import of_rates
from storage.convert import write_table
from storage.errors import InputError
from storage.exchange import Exchange, Slice
from storage.groups import Arrays, read_array, read_group, write_group
from storage.ledger import Record
from storage.pool import ChunkWriter, Pool, Rows
from storage.run import Run

JUDGED = "consensus-sent"
"""Name of an exchange."""
SKILLS, SUMS, GROUP = "annotator-skills", "annotator-sums", "annotators"
TABLE = "consensus.parquet"
COLUMNS = (*("row", "given_label", "consensus_label", "certainty", "n_annotations", "agreement"),)
LOOKED_AT = 20
"""Rows to look at first that a report lists."""
PORTION = 1 << 16
"""Rows that are judged together."""


@dataclass(frozen=True)
class Round:
    """One block whose rows are judged by what one round believes."""

    block: int
    pool: Pool
    number: int
    slices: list[Slice]


@dataclass(frozen=True)
class Write:
    """Rows whose consensus is written."""

    pool: Pool
    number: int
    rows: Rows
    slices: list[Slice]


@dataclass(frozen=True)
class Moved(Result):
    """How far the matrices moved in a round."""

    change: float


@dataclass(frozen=True)
class Agreed(Result):
    """What a part says of its rows; those to look at as (certainty, row, given, consensus)."""

    n_changed: int
    certainty: float
    look_first: list[tuple[float, int, int, int]]


@dataclass(frozen=True)
class Found(Result):
    """All that is said of the annotators."""

    annotators: Annotators


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
    pool: Pool,
    blocks: Blocks,
    classes: list[LabelValue],
    counts: list[int],
    estimated: RateEstimates | ClassEstimates,
) -> Annotators:
    """Write the groups `annotators` and `consensus`, and the table of the latter.

    classes, counts : labels by code, and the rows given each
    """
    names = annotators_of(job.run, pool)
    collected = collect(job, pool, blocks, len(classes))
    number = _rounds(job, pool, collected, len(names.names), counts, estimated)
    judged = job.parts(
        "consensus-blocks",
        judge_part,
        [Part(block_name(b), Round(b, pool, number, s)) for b, s in enumerate(collected.slices)],
    )
    agreed = _write(job, pool, judged, classes)

    def finish(run: Run) -> Output:
        sums, skills = _summed(run, number, pool, len(blocks.sizes)), read_skills(run, number)
        shared = is_shared(collected.agreement, pool.n_rows)
        write_group(run.store, GROUP, "annotators", _columns(skills, sums))
        found = Annotators(
            told(names.names, sums, skills, shared),
            collected.agreement,
            shared,
            collected.n_annotations,
            sum(part.n_changed for part in agreed),
            float(sum(part.certainty for part in agreed) / pool.n_rows),
            [
                LookAt(row, classes[given], classes[consensus], certainty)
                for certainty, row, given, consensus in sorted(
                    row for part in agreed for row in part.look_first
                )[:LOOKED_AT]
            ],
            collected.n_unused,
            names.n_empty,
        )
        return Output([run.key(GROUP)], Found(found))

    return Found.of(job.once("annotators", finish)).annotators


def _rounds(
    job: Job,
    pool: Pool,
    collected: Collected,
    n_annotators: int,
    counts: list[int],
    estimated: RateEstimates | ClassEstimates,
) -> int:
    """Rounds of sums and matrices until these stay; the number of the last matrices."""

    def start(run: Run) -> Output:
        given = _given_matrix(run, estimated)
        first = first_matrix(collected.agreement, pool.n_rows, given)
        skills = started(first, n_annotators, np.array(counts) / sum(counts))
        return _keep(run, 0, skills, Expected.none(n_annotators, len(counts)), 1.0)

    job.once(_matrices(0), start)
    most = most_rounds(collected.agreement, pool.n_rows)
    for number in range(most):
        job.parts(
            f"annotators-{number:02d}",
            expect_part,
            [
                Part(block_name(b), Round(b, pool, number, slices))
                for b, slices in enumerate(collected.slices)
            ],
        )

        def fit(run: Run, number: int = number) -> Output:
            sums = _summed(run, number, pool, len(collected.slices))
            before, after = read_skills(run, number), maximize(sums)
            return _keep(run, number + 1, after, sums, change(before, after, sums.counts))

        if Moved.of(job.once(_matrices(number + 1), fit)).change < STILL:
            return number + 1
    return most


def _matrices(number: int) -> str:
    """The step that fits the matrices of a round."""
    return f"matrices-{number:02d}"


def _given_matrix(run: Run, estimated: RateEstimates | ClassEstimates) -> Floats:
    """(class, class) P(given | true) of the labels given."""
    if isinstance(estimated, RateEstimates):
        return of_rates(crossfitted(estimated)).matrix
    return read_array(run.group("transition"), "matrix")


def _keep(run: Run, number: int, skills: Skills, sums: Expected, moved: float) -> Output:
    path = f"{SKILLS}/{number:02d}"
    write_group(run.scratch, path, "annotators", _columns(skills, sums))
    return Output([f"scratch.zarr/{path}"], Moved(moved))


def _columns(skills: Skills, sums: Expected) -> Arrays:
    return {**vars(skills), "support": sums.counts.sum(axis=2)}


def read_skills(run: Run, number: int) -> Skills:
    """What a round believes."""
    return Skills(**read_group(run.scratch, f"{SKILLS}/{number:02d}", ("matrix", "prior", "sure")))


def _sums_of(number: int, block: int) -> str:
    return f"{SUMS}/{number:02d}/{block:05d}"


def _summed(run: Run, number: int, pool: Pool, n_blocks: int) -> Expected:
    """The sums of all blocks, in their order."""
    shape = read_skills(run, number).matrix.shape
    found = Expected.none(shape[0], shape[1])
    flat = found.counts.reshape(-1)
    for block in range(n_blocks):
        part = read_group(run.scratch, _sums_of(number, block))
        flat[part["cell"]] += part["sum"]
        for name in ("sure", "prior", "right"):
            getattr(found, name)[...] += part[name]
    return found


def expect_part(run: Run, part: Part[Round]) -> Output:
    """What the rows of one block say of annotators and neighbors."""
    return Output([_expected(run, part.args)[1]])


def _expected(run: Run, this: Round) -> tuple[Arrays, str]:
    """Columns of what is said of the rows of one block, and where its sums were written."""
    skills, block = read_skills(run, this.number), of_block(run, this.block, this.slices)
    n_annotators, c = skills.matrix.shape[:2]
    sums, judged = Expected.none(n_annotators, c), []
    for at in range(0, len(block.row), PORTION):
        some = slice(at, at + PORTION)
        told, more = expect(
            block.own[some], block.near[some], block.weights(some), block.labels, skills
        )
        sums = together(sums, more)
        judged.append(told)
    flat = sums.counts.reshape(-1)
    cell = np.flatnonzero(flat)
    path = _sums_of(this.number, this.block)
    columns = {"cell": cell, "sum": flat[cell], **vars(sums)}
    del columns["counts"]
    write_group(run.scratch, path, "annotator_sums", columns)
    return {"row": block.row, **_packed(judged)}, f"scratch.zarr/{path}"


def _packed(judged: list[Judged]) -> Arrays:
    """Columns that travel to source order."""
    none = np.zeros(0)
    found = {
        name: np.concatenate([none, *(getattr(part, name) for part in judged)])
        for name in Judged.__dataclass_fields__
    }
    return {
        "consensus": found["consensus"].astype(np.int16),
        "certainty": found["certainty"].astype(np.float32),
        "n_annotations": found["n_annotations"].astype(np.int32),
        "n_agreeing": found["n_agreeing"].astype(np.int32),
    }


def judge_part(run: Run, part: Part[Round]) -> Output:
    """The likeliest class of each row of one block, sent to source order."""
    pool, exchange = part.args.pool, Exchange(run.location, JUDGED)
    columns, sums = _expected(run, part.args)
    sent = exchange.send(part.name, pool.part_of(columns["row"]), len(pool.parts()), columns)
    return Output([exchange.key(part.name), sums], Routed(sent))


def _write(job: Job, pool: Pool, judged: list[Record], classes: list[LabelValue]) -> list[Agreed]:
    """The consensus in source order, and its table."""
    slices = incoming(judged, len(pool.parts()))
    writer = _writer(job.run, pool)
    agreed = job.parts(
        "consensus",
        write_part,
        [
            Part(f"rows-{i:06d}", Write(pool, i, rows, slices[i]))
            for i, rows in enumerate(pool.parts())
        ],
    )
    job.once("agreed", lambda run: Output(writer.finish(pool.n_rows, {})))

    def export(run: Run) -> Output:
        target = run.location.path(TABLE)
        write_table(run, "consensus", target, COLUMNS, ids="pool", classes=classes)
        return Output([TABLE])

    job.once("consensus-table", export)
    return [Agreed.of(record) for record in agreed]


def _writer(run: Run, pool: Pool) -> ChunkWriter:
    label = pool.label_dtype()
    return ChunkWriter(run, "consensus", pool.part_rows, pool.n_rows, label=label)


def write_part(run: Run, part: Part[Write]) -> Output:
    """Write the consensus of some rows of the pool."""
    pool, rows = part.args.pool, part.args.rows
    found = Exchange(run.location, JUDGED).receive(part.args.slices)
    order = source_order(found["row"], rows, "consensus")
    found = {name: column[order] for name, column in found.items()}
    given, row = pool.read("y", rows), pool.read("row", rows)
    consensus, n = found["consensus"].astype(pool.label_dtype()), found["n_annotations"]
    written = _writer(run, pool).chunk(
        part.args.number,
        row=row,
        given_label=given,
        consensus_label=consensus,
        certainty=found["certainty"],
        n_annotations=n,
        agreement=np.where(n > 0, found["n_agreeing"] / np.maximum(n, 1), np.nan).astype("f4"),
    )
    least = np.lexsort((row, found["certainty"]))[:LOOKED_AT]
    columns = (found["certainty"], row, given, consensus)
    first = list(zip(*(column[least].tolist() for column in columns), strict=True))
    total = float(found["certainty"].astype(np.float64).sum())
    return Output(written, Agreed(int((consensus != given).sum()), total, first))
