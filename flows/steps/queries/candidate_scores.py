"""Lists of queries → predictions, by a training on candidate sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from flows.engine.collectives import PoolGraph, Sendings, over_rows
from flows.engine.collectives.sent import Passed, Replies, ask, exchange
from flows.engine.job import Job, Output
from flows.engine.parts import Part, rows_name
from flows.steps.graph.lists import receive_lists
from flows.steps.queries.probes import Score, Scores, ScoringRule
from flows.steps.sets.masks import CANDIDATES, masks, read_candidates
from pipeline.knn.lists import Neighbors
from pipeline.knn.places import distinct
from pipeline.labels import dtype_of
from pipeline.methods.partial_labels import NAME, AdaptiveParams, disambiguate, predict
from storage.arrays.exchange import Exchange, Slice
from storage.runs.pool import Pool, Rows
from storage.runs.run import Run

COLUMNS: tuple[str, ...] = (
    *("row", "predicted_label", "in_candidates", "n_neighbors", "n_labels"),
    "near_duplicates",
)


@dataclass(frozen=True)
class CandidateRule(ScoringRule):
    """PL A-kNN on a pool of candidate sets."""

    pool: Pool
    n_classes: int
    how: AdaptiveParams

    @property
    def k(self) -> int:
        """Most neighbors looked at."""
        return self.how.most_neighbors

    def attributes(self) -> dict[str, Any]:
        return asdict(self.how)

    def layout(self, training: Run, queries: Pool) -> dict[str, Any]:
        own = ["in_candidates"] if "candidates" in queries.run.group(queries.path) else []
        label = dtype_of(self.n_classes)
        return {"kind": "candidate_scores", "label": label, "optional": own}

    def send(
        self, job: Job, queries: Pool, lists: list[list[Slice]]
    ) -> Sequence[tuple[Slice, ...]]:
        parts = queries.parts()
        wants = [Part(rows_name(i), Want(self, i, rows, lists[i])) for i, rows in enumerate(parts)]
        requests = Sendings.of(job.run.location, "wanted", job.parts("wanted", want_part, wants))
        graph = PoolGraph(self.pool, len(parts))
        known = over_rows(job, graph, CANDIDATES, masks, requests=requests)
        return [tuple(slices) for slices in known.slices("answers", len(parts))]

    def columns(self, run: Run, score: Score, lists: Neighbors) -> Scores:
        """One of each row's own candidates is predicted where there are any."""
        known = Replies(exchange(run.location, CANDIDATES, "answers"), score.sent)
        of = self.n_classes, self.pool.n_rows
        near, mask = known.places(lists.row), known.columns["mask"]
        predictions = predict(near, mask, *of, self.how)
        label, more = predictions.label, {}
        if "candidates" in score.queries.run.group(score.queries.path):
            candidates = read_candidates(score.queries, score.rows)
            mine = disambiguate(near, mask, candidates, predictions, *of, self.how)
            label, more = mine.label, {"in_candidates": mine.in_candidates}
        return {
            "predicted_label": label.astype(dtype_of(self.n_classes)),
            **more,
            "n_neighbors": predictions.n_neighbors.astype(np.int32),
            "n_labels": predictions.n_labels.astype(np.int32),
        }, None

    def as_json(self) -> dict[str, Any]:
        return {"rule": NAME, "c1": self.how.c1}


@dataclass(frozen=True)
class Want:
    """Queries whose neighbors' candidates are asked for."""

    rule: CandidateRule
    number: int
    rows: Rows
    lists: list[Slice]


def want_part(run: Run, part: Part[Want]) -> Output:
    """Ask the training pool for the candidates of all neighbors of some queries."""
    want = part.args
    owners = np.arange(want.rows.start, want.rows.stop)
    lists = receive_lists(Exchange(run.location, "lists"), want.lists, owners, want.rule.k)
    rows = distinct(lists.row)
    key, sent = ask(run.location, "wanted", part.name, want.number, want.rule.pool, rows)
    return Output([key], Passed({"asked": sent}))
