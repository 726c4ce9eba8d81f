"""Lists of queries → scores, in the order of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flows.engine.job import Job, Output
from flows.engine.parts import Part
from flows.engine.results import LabelValue, Result
from flows.steps.graph.lists import receive_lists
from flows.steps.queries.candidate_scores import COLUMNS as CANDIDATE_COLUMNS
from flows.steps.queries.class_scores import posterior_columns, write_posteriors
from flows.steps.queries.probes import Model, Score, audit_queries
from flows.steps.queries.searching import Searched
from pipeline.diagnostics.neighborhood import is_near
from pipeline.knn.lists import ABSENT
from pipeline.knn.recall import Recall, row_recall, summarize
from storage.arrays.exchange import Exchange
from storage.errors import StorageError
from storage.export import read_schema, write_table
from storage.runs.pool import ChunkWriter, Pool
from storage.runs.run import Run

SCORING = "knnoise.scoring"
"""Key of the metadata of a file of scores that holds their identity."""
COLUMNS = ("row", "eta_corr", "posterior", "predicted_label", "near_duplicates")
CLASS_COLUMNS = (
    *("row", "predicted_label", "posterior", "vote_share", "near_duplicates"),
    *("top_label", "top_posterior"),
)


@dataclass(frozen=True)
class Scored(Result):
    """Recall at the sampled queries among some rows, how many rows are predicted each class, and
    how many are in the training pool."""

    recall: list[float]
    predicted: list[int]
    equal: int = 0
    """Rows equal to a training row."""
    near: int = 0
    """Rows equal or nearly equal to one."""


@dataclass(frozen=True)
class ScoredCandidates(Scored):
    """The same where labels are candidate sets, and the rows whose neighbors left one label."""

    decided: int = 0
    inside: int | None = None
    """Rows whose neighbors say one of the row's own candidates; None where it has none."""


@dataclass(frozen=True)
class Total:
    """What the rows of all parts come to, as in `Scored`."""

    recall: Recall
    predicted: list[int]
    equal: int
    near: int
    decided: int
    inside: int | None


def write_scores(job: Job, queries: Pool, model: Model, searched: Searched) -> Total:
    """Write the group `scores`, in the order of the source."""
    _writer(job.run, queries, model)
    sent = model.rule.send(job, queries, searched.slices)
    records = job.parts(
        "scores",
        score_part,
        [
            Part(
                f"rows-{i:06d}",
                Score(model, queries, i, rows, searched.slices[i], searched.limit, sent[i]),
            )
            for i, rows in enumerate(queries.parts())
        ],
    )

    def finish(run: Run) -> Output:
        attributes = {"k": model.k, **model.rule.attributes()}
        return Output(_writer(run, queries, model).finish(queries.n_rows, attributes))

    job.once("scored", finish)
    results = [ScoredCandidates.of(record) for record in records]
    inside = [one.inside for one in results if one.inside is not None]
    recalls = np.concatenate([result.recall for result in results])
    return Total(
        summarize(recalls),
        np.sum([result.predicted for result in results], axis=0).tolist(),
        sum(result.equal for result in results),
        sum(result.near for result in results),
        sum(one.decided for one in results),
        sum(inside) if inside else None,
    )


def _writer(run: Run, queries: Pool, model: Model) -> ChunkWriter:
    """The writer of the group `scores`."""
    layout = model.rule.layout(model.run, queries)
    return ChunkWriter(run, "scores", queries.part_rows, queries.n_rows, **layout)


def score_part(run: Run, part: Part[Score]) -> Output:
    """Merge the lists of some queries and apply the rule."""
    rows, model, queries = part.args.rows, part.args.model, part.args.queries
    owners = np.arange(rows.start, rows.stop)
    lists = receive_lists(Exchange(run.location, "lists"), part.args.slices, owners, model.k)
    alone = np.flatnonzero(lists.row[:, 0] == ABSENT)
    if len(alone):
        raise StorageError(
            f"row {owners[alone[0]]:,} of the source has no neighbors in any block; "
            "the training is damaged: run train again to repair"
        )
    columns, decided = model.rule.columns(run, part.args, lists)
    columns["row"] = queries.read("row", rows)
    near = is_near(lists.distance, model.near).sum(axis=1, dtype=np.int32)
    columns["near_duplicates"] = near
    written = _writer(run, queries, model).chunk(part.args.number, **columns)
    n_classes = model.rule.n_classes
    if model.all_classes and decided is not None:
        written += write_posteriors(run, part.args.number, decided, n_classes)
    sampled, _ = audit_queries(run, model.scaling, len(part.args.limit))
    here = np.flatnonzero((sampled >= rows.start) & (sampled < rows.stop))
    listed = lists.distance[sampled[here] - rows.start]
    recall = row_recall(listed, part.args.limit[here, None])
    predicted = np.bincount(columns["predicted_label"], minlength=n_classes).tolist()
    equal = int(np.count_nonzero(lists.distance[:, 0] == 0))
    counts = recall.tolist(), predicted, equal, int(np.count_nonzero(near))
    if "n_labels" in columns:
        n_decided = int((columns["n_labels"] == 1).sum())
        inside = int(columns["in_candidates"].sum()) if "in_candidates" in columns else None
        return Output(written, ScoredCandidates(*counts, n_decided, inside))
    return Output(written, Scored(*counts))


def export_scores(
    run: Run, target: str, identity: str, classes: Sequence[LabelValue], all_classes: bool
) -> None:
    """The scores as one Parquet file, which says of which rows and training they are; with
    `all_classes`, the posterior of each beside them."""
    group = run.group("scores")
    wanted: tuple[str, ...] = COLUMNS if len(classes) == 2 else CLASS_COLUMNS
    wanted = CANDIDATE_COLUMNS if "n_labels" in group else wanted
    columns = tuple(name for name in wanted if name in group)  # of earlier versions
    write_table(
        *(run, "scores", target, columns, {SCORING: identity}),
        ids="queries",
        classes=classes,
        more=posterior_columns(run, classes) if all_classes else None,
    )


def exported(target: str) -> str | None:
    """The identity that a file of scores says; None where there is none, or not a whole one."""
    identity = (read_schema(target).metadata or {}).get(SCORING.encode())
    return None if identity is None else identity.decode()
