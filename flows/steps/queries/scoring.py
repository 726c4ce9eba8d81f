"""Lists of queries → scores, in the order of the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flows.engine.job import Job, Output
from flows.engine.parts import Part, by_rows
from flows.engine.results import LabelValue, result_of
from flows.steps.queries.class_scores import posterior_columns, write_posteriors
from flows.steps.queries.searching import Model, Score, ScoringRule, Searched, audit_queries
from pipeline.arrays import Float32, Int32
from pipeline.diagnostics.neighborhood import Usual, is_near, mean_distance
from pipeline.knn.lists import ABSENT, Recall, row_recall, summarize
from storage.arrays.schema import GROUPS
from storage.errors import StorageError
from storage.export import read_schema, write_table
from storage.runs.pool import Pool
from storage.runs.run import Run

SCORING, TRAINING = "knnoise.scoring", "knnoise.training"
"""Keys of the metadata of a file of scores: their identity, and the digest of the rule
they are by."""


def write_scores(
    job: Job, queries: Pool, model: Model, searched: Searched
) -> tuple[Recall, dict[str, Any]]:
    """Write the group `scores`, in the order of the source; the recall, and fields of the report
    on the rows of all parts."""
    table = model.rule.table(model.run, queries)
    table.writer(job.run, queries)
    known = model.rule.send(job, model, queries, searched.lists)
    scores = (
        Score(model, queries, i, rows, searched.lists[i], searched.limit, known[i])
        for i, rows in enumerate(queries.parts())
    )
    records = job.parts("scores", score_part, by_rows(scores))

    def finish(run: Run) -> Output:
        return Output(table.finish(run, queries, model.rule.attributes()))

    job.once("scored", finish)
    results = [result_of(record, model.rule.counted) for record in records]
    return summarize(np.concatenate([result.recall for result in results])), {
        "n_predicted": np.sum([result.predicted for result in results], axis=0).tolist(),
        "n_equal_to_training": sum(result.equal for result in results),
        "n_near_training": sum(result.near for result in results),
        "n_far_from_training": sum(result.far for result in results),
        **model.rule.total(results),
    }


def score_part(run: Run, part: Part[Score]) -> Output:
    """Merge the lists of some queries and apply the rule."""
    rows, model, queries = part.args.rows, part.args.model, part.args.queries
    lists = part.args.lists.of(rows)
    alone = np.flatnonzero(lists.row[:, 0] == ABSENT)
    if len(alone):
        raise StorageError(
            f"row {rows.start + alone[0]:,} of the source has no neighbors in any block; "
            "the training is damaged: run train again to repair"
        )
    columns, decided = model.rule.columns(part.args, lists)
    columns["row"] = queries.read("row", rows)
    far, columns["near_duplicates"] = beside(lists.distance, model)
    written = model.rule.table(model.run, queries).write(run, queries, rows, columns)
    n_classes = model.rule.n_classes
    if model.all_classes and decided is not None:
        written += write_posteriors(run, part.args.number, decided, n_classes)
    sampled, _ = audit_queries(run, model.scaling, len(part.args.limit))
    here = np.flatnonzero((sampled >= rows.start) & (sampled < rows.stop))
    listed = lists.distance[sampled[here] - rows.start]
    recall = row_recall(listed, part.args.limit[here, None])
    predicted = np.bincount(columns["predicted_label"], minlength=n_classes).tolist()
    equal = int(np.count_nonzero(lists.distance[:, 0] == 0))
    near = int(np.count_nonzero(columns["near_duplicates"]))
    counts = recall.tolist(), predicted, equal, far, near
    return Output(written, model.rule.counted(*counts, **model.rule.counts(columns)))


def beside(distance: Float32, model: Model) -> tuple[int, Int32]:
    """How many rows, of lists (row, rank) of distances, are as far from the training's rows as its
    outliers are; and (row,) training rows that are nearly equal."""
    usual = model.usual or Usual(np.inf, np.inf, 0.0)
    mean = mean_distance(distance[:, : model.usual_k])
    near = is_near(distance, usual.near).sum(axis=1, dtype=np.int32)
    return int(np.count_nonzero(mean > usual.outlying)), near


def export_scores(
    run: Run,
    target: str,
    metadata: Mapping[str, str],
    rule: ScoringRule,
    classes: Sequence[LabelValue],
    all_classes: bool,
) -> None:
    """The scores as one Parquet file, whose metadata says of which rows and training they are;
    with `all_classes`, the posterior of each beside them."""
    group = run.group("scores")
    columns = tuple(name for name in GROUPS[rule.group] if name in group)  # some are optional
    write_table(
        *(run, "scores", target, columns, metadata),
        ids="queries",
        classes=classes,
        more=posterior_columns(run, classes) if all_classes else None,
    )


def exported(target: str, key: str) -> str | None:
    """What a file of scores says of itself; None where there is none, or not a whole one."""
    value = (read_schema(target).metadata or {}).get(key.encode())
    return None if value is None else value.decode()
