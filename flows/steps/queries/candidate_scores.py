"""Lists of queries → predictions, by a training on candidate sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flows.engine.collectives import PoolGraph, Sendings, over_rows
from flows.engine.collectives.sent import Passed, Replies, ask, exchange
from flows.engine.job import Job, Output
from flows.engine.parts import Part, rows_name
from flows.steps.graph.lists import receive_lists
from flows.steps.queries.probes import CandidateRule
from flows.steps.sets.masks import CANDIDATES, masks, read_candidates
from pipeline.knn.lists import Neighbors
from pipeline.knn.places import distinct
from pipeline.labels import dtype_of
from pipeline.methods.partial_labels import Masks, disambiguate, predict
from storage.arrays.exchange import Exchange, Slice
from storage.arrays.groups import Arrays
from storage.runs.pool import Pool, Rows
from storage.runs.run import Run

COLUMNS: tuple[str, ...] = (
    *("row", "predicted_label", "in_candidates", "n_neighbors", "n_labels"),
    "near_duplicates",
)


@dataclass(frozen=True)
class Want:
    """Queries whose neighbors' candidates are asked for."""

    rule: CandidateRule
    number: int
    rows: Rows
    lists: list[Slice]


def find_masks(
    job: Job, queries: Pool, rule: CandidateRule, lists: list[list[Slice]]
) -> list[tuple[Slice, ...]]:
    """For each part of the queries where the candidates of its neighbors lie."""
    parts = queries.parts()
    wants = [Part(rows_name(i), Want(rule, i, rows, lists[i])) for i, rows in enumerate(parts)]
    requests = Sendings.of(job.run.location, "wanted", job.parts("wanted", want_part, wants))
    known = over_rows(job, PoolGraph(rule.pool, len(parts)), CANDIDATES, masks, requests=requests)
    return [tuple(slices) for slices in known.slices("answers", len(parts))]


def want_part(run: Run, part: Part[Want]) -> Output:
    """Ask the training pool for the candidates of all neighbors of some queries."""
    want = part.args
    owners = np.arange(want.rows.start, want.rows.stop)
    lists = receive_lists(Exchange(run.location, "lists"), want.lists, owners, want.rule.k)
    rows = distinct(lists.row)
    key, sent = ask(run.location, "wanted", part.name, want.number, want.rule.pool, rows)
    return Output([key], Passed({"asked": sent}))


def own_candidates(queries: Pool, rows: Rows) -> Masks | None:
    """(row, word) candidate sets of some queries; None of queries without."""
    known = "candidates" in queries.run.group(queries.path)
    return read_candidates(queries, rows) if known else None


def candidate_columns(
    run: Run,
    lists: Neighbors,
    rule: CandidateRule,
    masks: tuple[Slice, ...],
    own: Masks | None = None,
) -> Arrays:
    """Scores by PL A-kNN, which predict one of each row's `own` candidates where there are any."""
    known = Replies(exchange(run.location, CANDIDATES, "answers"), masks)
    of = rule.n_classes, rule.pool.n_rows
    near, mask = known.places(lists.row), known.columns["mask"]
    predictions = predict(near, mask, *of, rule.how)
    label, more = predictions.label, {}
    if own is not None:
        mine = disambiguate(near, mask, own, predictions, *of, rule.how)
        label, more = mine.label, {"in_candidates": mine.in_candidates}
    return {
        "predicted_label": label.astype(dtype_of(rule.n_classes)),
        **more,
        "n_neighbors": predictions.n_neighbors.astype(np.int32),
        "n_labels": predictions.n_labels.astype(np.int32),
    }
