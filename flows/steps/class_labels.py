"""Graph → label qualities of more than two classes, in two passes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flows.engine.collectives.sent import Routed, incoming, source_order
from flows.engine.job import Job, Output
from flows.engine.parts import Part, block_name
from flows.engine.results import Result
from flows.steps.class_tops import (
    TOP,
    FirstPass,
    Relay,
    Tops,
    first_part,
    joined,
    portions,
    relay_part,
)
from flows.steps.classes import (
    Classes,
    ClassEstimates,
    Fitted,
    decision_matrix,
    read_correction,
    read_sample,
)
from flows.steps.ingest import certain
from flows.steps.labels import Checked, LabelIssues
from flows.steps.partition import Blocks
from pipeline.blocks.sampling import in_sample
from pipeline.decision.class_rule import decide
from pipeline.decision.class_votes import class_votes, vote_sizes
from pipeline.decision.quality import (
    FIT_ROWS,
    FIT_STREAM,
    smoothed_feature,
    vote_features,
)
from pipeline.decision.suspects import fit_second, second_pass
from pipeline.decision.suspects import smoothed_features as features_of
from pipeline.decision.tempering import MatrixDecision
from storage.exchange import Exchange, Slice
from storage.groups import read_group, write_group
from storage.ledger import Record
from storage.pool import ChunkWriter, Pool, Rows
from storage.run import Run

VERDICTS = "class-verdicts"
"""Name of an exchange."""


@dataclass(frozen=True)
class SecondPass:
    """One block, and what the first pass says of its rows' neighbors."""

    block: int
    classes: Classes
    answers: list[Slice]


@dataclass(frozen=True)
class Judge(SecondPass):
    """The same, all weights fitted."""

    k: int
    decision: MatrixDecision
    second: Fitted
    to: Exchange


@dataclass(frozen=True)
class Check:
    """Rows whose verdicts are written."""

    pool: Pool
    number: int
    rows: Rows
    slices: list[Slice]


@dataclass(frozen=True)
class Smoothed(Result):
    """Sampled rows of a block."""

    sampled: int


def find_class_issues(
    job: Job, classes: Classes, blocks: Blocks, counted: list[Record], found: ClassEstimates
) -> int:
    """Write the group `labels`; the number of suspect labels."""
    pool, numbers = classes.pool, range(len(blocks.sizes))
    n_parts, n_blocks = len(pool.parts()), len(blocks.sizes)
    tops, verdicts = (Exchange(job.run.location, name) for name in (TOP, VERDICTS))
    first = job.parts(
        "first-pass",
        first_part,
        [Part(block_name(b), FirstPass(b, classes, found.first, tops)) for b in numbers],
    )
    of_rows, wanted = incoming(first, n_parts), incoming(counted, n_parts)
    relayed = job.parts(
        "relay",
        relay_part,
        [
            Part(f"rows-{i:06d}", Relay(rows, n_blocks, wanted[i], of_rows[i]))
            for i, rows in enumerate(pool.parts())
        ],
    )
    of_blocks = incoming(relayed, n_blocks)
    smoothed = job.parts(
        "smoothing",
        smoothing_part,
        [Part(block_name(b), SecondPass(b, classes, of_blocks[b])) for b in numbers],
    )
    second = Fitted.of(
        job.once("weights", lambda run: _fit(run, classes.n_classes, counted, smoothed))
    )
    judged = job.parts(
        "second-pass",
        judge_part,
        [
            Part(
                block_name(b),
                Judge(b, classes, of_blocks[b], found.k, found.decision, second, verdicts),
            )
            for b in numbers
        ],
    )
    return _write(job, pool, incoming(judged, n_parts), found.k)


def smoothing_part(run: Run, part: Part[SecondPass]) -> Output:
    """The neighbors' average posterior of the sampled rows of one block."""
    classes, number = part.args.classes, part.args.block
    answers = Tops(run, part.args.answers) if part.args.answers else None
    rows, features = [np.empty(0, np.int64)], []
    for _, some in portions(run, number):
        drawn = in_sample(some["row"], classes.pool.n_rows, FIT_ROWS, classes.seed, FIT_STREAM)
        if answers is None or not drawn.any():
            continue
        near, own = some["neighbor_label"][drawn], some["given_label"][drawn]
        votes = class_votes(near, own, classes.n_classes, vote_sizes(near.shape[1]))
        features.append(
            smoothed_feature(
                votes.code,
                answers.of(some["neighbor"][drawn]),
                some["distance"][drawn],
                classes.n_classes,
            )
        )
        rows.append(some["row"][drawn])
    found = np.concatenate(rows)
    width = max((f.shape[1] for f in features), default=0)
    none = np.empty((0, width, 1))
    columns = {"row": found, "feature": np.concatenate([none, *features])}
    path = f"smoothed/{number:05d}"
    write_group(run.scratch, path, "smoothed", columns)
    return Output([f"scratch.zarr/{path}"], Smoothed(len(found)))


def _fit(run: Run, n_classes: int, counted: list[Record], smoothed: list[Record]) -> Output:
    """Weights of the second pass."""
    _, _, votes = read_sample(run, counted, n_classes)
    groups = [
        read_group(run.scratch, f"smoothed/{number:05d}")
        for number, record in enumerate(smoothed)
        if Smoothed.of(record).sampled
    ]
    order = np.argsort(np.concatenate([group["row"] for group in groups]))
    average = np.concatenate([group["feature"] for group in groups])[order]
    by = read_correction(run)
    features = np.concatenate([vote_features(votes, by), average], axis=2)
    return Output([], Fitted.from_weights(fit_second(features, votes, by)))


def judge_part(run: Run, part: Part[Judge]) -> Output:
    """Qualities and predictions of the rows of one block, sent to source order."""
    judge, exchange, by = part.args, part.args.to, read_correction(run)
    classes, weights = judge.classes, part.args.second.weights()
    matrix = decision_matrix(run, judge.decision)
    pool, found = classes.pool, []
    answers = Tops(run, judge.answers) if judge.answers else None
    for _, some in portions(run, judge.block):
        near, own = some["neighbor_label"], some["given_label"]
        votes = class_votes(near, own, classes.n_classes, vote_sizes(near.shape[1]))
        assert answers is not None
        features = features_of(votes, by, answers.of(some["neighbor"]), some["distance"])
        suspects = second_pass(features, votes, by, weights)
        decided = decide(near, classes.n_classes, judge.k, matrix)
        found.append(
            {
                "row": some["row"],
                "predicted_label": decided.predicted.astype(np.int16),
                "likely_label": suspects.likely_class.astype(np.int16),
                "label_quality": suspects.label_quality.astype(np.float32),
                "is_label_issue": suspects.is_label_issue,
                "given_share": decided.share_of(own).astype(np.float32),
            }
        )
    kinds = {"row": "i8", "predicted_label": "i2", "likely_label": "i2", "label_quality": "f4"}
    kinds |= {"is_label_issue": "?", "given_share": "f4"}
    columns = joined(found, {name: np.empty(0, kind) for name, kind in kinds.items()})
    sent = exchange.send(part.name, pool.part_of(columns["row"]), len(pool.parts()), columns)
    return Output([exchange.key(part.name)], Routed(sent))


def _write(job: Job, pool: Pool, slices: list[list[Slice]], k: int) -> int:
    """Verdicts in source order; the number of suspect labels."""
    label = pool.label_dtype()
    writer = ChunkWriter(
        job.run, "labels", pool.part_rows, pool.n_rows, kind="class_labels", label=label
    )
    written = job.parts(
        "labels",
        label_part,
        [
            Part(f"rows-{i:06d}", Check(pool, i, rows, slices[i]))
            for i, rows in enumerate(pool.parts())
        ],
    )

    def finish(run: Run) -> Output:
        n_issues = sum(Checked.of(record).issues for record in written)
        return Output(writer.finish(pool.n_rows, {"k": k}), LabelIssues(n_issues))

    return LabelIssues.of(job.once("verdicts", finish)).n_label_issues


def label_part(run: Run, part: Part[Check]) -> Output:
    """Verdicts on the rows of one part of the pool."""
    check = part.args
    rows, pool = check.rows, check.pool
    columns = Exchange(run.location, VERDICTS).receive(check.slices)
    order = source_order(columns["row"], rows, "verdicts")
    columns = {name: column[order] for name, column in columns.items()}
    label = pool.label_dtype()
    writer = ChunkWriter(
        run, "labels", pool.part_rows, pool.n_rows, kind="class_labels", label=label
    )
    given, sure = pool.read("y", rows), certain(run, rows)
    for name in ("predicted_label", "likely_label"):
        columns[name] = columns[name].astype(label)
        columns[name][sure] = given[sure]
    columns["is_label_issue"][sure], columns["label_quality"][sure] = False, 1.0
    columns["row"] = pool.read("row", rows)
    written = writer.chunk(check.number, given_label=given, **columns)
    return Output(written, Checked(int(columns["is_label_issue"].sum())))
