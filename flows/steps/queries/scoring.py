"""Lists of queries → scores, in the order of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from flows.engine.job import Job, Output
from flows.engine.parts import Part
from flows.engine.results import LabelValue, Result
from flows.steps.graph.lists import receive_lists
from flows.steps.labels.classes import decision_matrix, labels_of
from flows.steps.queries.candidate_scores import COLUMNS as CANDIDATE_COLUMNS
from flows.steps.queries.candidate_scores import candidate_columns, find_masks, own_candidates
from flows.steps.queries.posteriors import of_two, posterior_columns, write_posteriors
from flows.steps.queries.probes import CandidateRule, ClassRule, Model, audit_queries
from flows.steps.queries.searching import Searched
from pipeline.decision.class_rule import Decided, decide
from pipeline.decision.quality import KEPT
from pipeline.decision.votes import share_of_ones
from pipeline.diagnostics.neighborhood import is_near
from pipeline.knn.lists import ABSENT, Neighbors
from pipeline.knn.recall import Recall, row_recall, summarize
from pipeline.labels import dtype_of
from pipeline.methods.rules import Rule
from storage.arrays.exchange import Exchange, Slice
from storage.arrays.groups import Arrays, array
from storage.errors import StorageError
from storage.export import read_schema, write_table
from storage.runs.pool import ChunkWriter, Pool, Rows
from storage.runs.run import Run

SCORING = "knnoise.scoring"
"""Key of the metadata of a file of scores that holds their identity."""
COLUMNS = ("row", "eta_corr", "posterior", "predicted_label", "near_duplicates")
CLASS_COLUMNS = (
    *("row", "predicted_label", "posterior", "vote_share", "near_duplicates"),
    *("top_label", "top_posterior"),
)


@dataclass(frozen=True)
class Score:
    """Queries whose lists are merged."""

    model: Model
    queries: Pool
    number: int
    rows: Rows
    slices: list[Slice]
    limit: npt.NDArray[np.float32]
    """Distance of the k-th true neighbor of each audited query."""
    masks: tuple[Slice, ...] = ()
    """Where the candidates of the neighbors lie, if labels are candidate sets."""


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
    rule = model.rule
    masks: list[tuple[Slice, ...]] = [()] * len(searched.slices)
    of_sets = isinstance(rule, CandidateRule)
    if isinstance(rule, CandidateRule):
        masks = find_masks(job, queries, rule, searched.slices)
    records = job.parts(
        "scores",
        score_part,
        [
            Part(
                f"rows-{i:06d}",
                Score(model, queries, i, rows, searched.slices[i], searched.limit, masks[i]),
            )
            for i, rows in enumerate(queries.parts())
        ],
    )

    def finish(run: Run) -> Output:
        how = rule.how if isinstance(rule, CandidateRule) else rule
        attributes = {"k": model.k, **asdict(how)}
        return Output(_writer(run, queries, model).finish(queries.n_rows, attributes))

    job.once("scored", finish)
    results = [Scored.of(record) for record in records]
    sets = [ScoredCandidates.of(record) for record in records] if of_sets else []
    inside = [one.inside for one in sets if one.inside is not None]
    recalls = np.concatenate([result.recall for result in results])
    return Total(
        summarize(recalls),
        np.sum([result.predicted for result in results], axis=0).tolist(),
        sum(result.equal for result in results),
        sum(result.near for result in results),
        sum(one.decided for one in sets),
        sum(inside) if inside else None,
    )


def _writer(run: Run, queries: Pool, model: Model) -> ChunkWriter:
    """The writer of the group `scores`."""
    if isinstance(model.rule, Rule):
        return ChunkWriter(run, "scores", queries.part_rows, queries.n_rows)
    if isinstance(model.rule, CandidateRule):
        sets, label = "candidate_scores", dtype_of(model.rule.n_classes)
        own = ["in_candidates"] if "candidates" in queries.run.group(queries.path) else []
        return ChunkWriter(
            run, "scores", queries.part_rows, queries.n_rows, kind=sets, label=label, optional=own
        )
    top = min(KEPT, model.rule.n_classes)
    kind, label = "class_scores", array(model.run.group("pool"), "y").dtype
    return ChunkWriter(
        run, "scores", queries.part_rows, queries.n_rows, kind=kind, label=label, top=top
    )


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
    rule, decided = model.rule, None
    if isinstance(rule, CandidateRule):
        columns = candidate_columns(
            run, lists, rule, part.args.masks, own_candidates(queries, rows)
        )
    else:
        columns, decided = _two(lists, rule) if isinstance(rule, Rule) else _many(lists, model)
    columns["row"] = queries.read("row", rows)
    near = is_near(lists.distance, model.near).sum(axis=1, dtype=np.int32)
    columns["near_duplicates"] = near
    written = _writer(run, queries, model).chunk(part.args.number, **columns)
    n_classes = 2 if isinstance(rule, Rule) else rule.n_classes
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


def _two(lists: Neighbors, rule: Rule) -> tuple[Arrays, Decided]:
    """Scores by the rule of two classes."""
    eta = share_of_ones(lists.label.astype(np.int8))
    clean = rule.posterior(eta).astype(np.float32)
    columns: Arrays = {
        "eta_corr": eta.astype(np.float32),
        "posterior": clean,
        "predicted_label": rule.predict(eta),
    }
    return columns, of_two(clean)


def _many(lists: Neighbors, model: Model) -> tuple[Arrays, Decided]:
    """Scores by the corrected vote of more classes."""
    rule = model.rule
    assert isinstance(rule, ClassRule)
    matrix = decision_matrix(model.run, rule.decision)
    decided = decide(labels_of(lists.row, lists.label), rule.n_classes, model.k, matrix)
    best = np.argsort(-decided.chance, axis=1, kind="stable")[:, : min(KEPT, rule.n_classes)]
    top = np.take_along_axis(decided.code, best, axis=1)
    chance = np.take_along_axis(decided.chance, best, axis=1)
    columns: Arrays = {
        "predicted_label": decided.predicted.astype(array(model.run.group("pool"), "y").dtype),
        "posterior": chance[:, 0].astype(np.float32),
        "vote_share": decided.share_of(decided.predicted).astype(np.float32),
        "top_label": np.where(chance > 0, top, -1).astype(np.int16),
        "top_posterior": chance.astype(np.float32),
    }
    return columns, decided


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
