"""Lists of queries → predictions, by a training on candidate sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from flows.engine.collectives.sent import Replies, exchange
from flows.engine.job import Job
from flows.steps.queries.probes import Model, Score, Scored, Scores, ScoringRule
from flows.steps.queries.searching import Lists, answers
from flows.steps.sets.verdicts import CANDIDATES, neighbors_candidates, read_candidates
from pipeline.knn.lists import Neighbors
from pipeline.labels import dtype_of
from pipeline.methods.partial_labels import NAME, AdaptiveParams, disambiguate, predict
from storage.arrays.exchange import Slice
from storage.arrays.groups import Arrays
from storage.runs.pool import Pool
from storage.runs.run import Run


@dataclass(frozen=True)
class ScoredCandidates(Scored):
    """What is said of some rows, and those whose neighbors left one label."""

    decided: int = 0
    inside: int | None = None
    """Rows whose neighbors say one of the row's own candidates; None where it has none."""


@dataclass(frozen=True)
class CandidateRule(ScoringRule):
    """PL A-kNN on a pool of candidate sets."""

    n_classes: int
    how: AdaptiveParams
    group: ClassVar = "candidate_scores"
    counted: ClassVar = ScoredCandidates

    @property
    def n_neighbors(self) -> int:
        return self.how.most_neighbors

    def attributes(self) -> dict[str, Any]:
        return {"k": self.n_neighbors, **asdict(self.how)}

    def layout(self, training: Run, queries: Pool) -> dict[str, Any]:
        own = ["in_candidates"] if "candidates" in queries.run.group(queries.path) else []
        label = dtype_of(self.n_classes)
        return {"label": label, "optional": own}

    def send(
        self, job: Job, model: Model, queries: Pool, lists: list[list[Slice]]
    ) -> Sequence[tuple[Slice, ...]]:
        pool = Pool(model.run, "pool", model.n_rows, queries.n_features)
        of_each = [Lists(job.run, slices, self.n_neighbors) for slices in lists]
        known = answers(job, queries, of_each, pool, self.n_neighbors, neighbors_candidates)
        return [tuple(slices) for slices in known]

    def columns(self, run: Run, score: Score, lists: Neighbors) -> Scores:
        """One of each row's own candidates is predicted where there are any."""
        known = Replies(exchange(run.location, CANDIDATES, "answers"), score.sent)
        of = self.n_classes, score.model.n_rows
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

    def counts(self, columns: Arrays) -> dict[str, Any]:
        inside = columns.get("in_candidates")
        return {
            "decided": int((columns["n_labels"] == 1).sum()),
            "inside": None if inside is None else int(inside.sum()),
        }

    def total(self, counted: Sequence[ScoredCandidates]) -> dict[str, Any]:
        inside = [one.inside for one in counted if one.inside is not None]
        return {
            "n_decided": sum(one.decided for one in counted),
            "n_in_candidates": sum(inside) if inside else None,
        }

    def as_json(self) -> dict[str, Any]:
        return {"rule": NAME, "k": self.n_neighbors, "c1": self.how.c1}
