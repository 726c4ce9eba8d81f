"""Lists of queries → scores, by a training on single labels or on candidate sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from flows.engine.collectives.rows import Table
from flows.engine.collectives.sent import Inbox, Lists, Replies
from flows.engine.job import Job
from flows.engine.results import LabelValue
from flows.steps.ingest.transform import heard
from flows.steps.labels.classes import VoteRule, labels_of
from flows.steps.queries.searching import Model, Score, Scored, Scores, ScoringRule, answers
from flows.steps.sets.candidates import neighbors_candidates, read_candidates
from pipeline.arrays import Float32
from pipeline.decision import whose
from pipeline.decision.class_rule import Decided, share_of
from pipeline.decision.odds import WeighedVote, tree_odds
from pipeline.decision.quality import KEPT
from pipeline.decision.votes import share_of_ones
from pipeline.knn.lists import Neighbors
from pipeline.labels import dtype_of
from pipeline.methods.partial_labels import NAME, AdaptiveParams, disambiguate, predict
from pipeline.methods.rules import Rule
from storage.arrays.groups import Arrays, array, chunk_rows, read_array
from storage.runs.pool import ChunkWriter, Pool
from storage.runs.run import Run

PREFIX = "posterior_"
"""What the names of the columns begin with; the class follows."""
WEIGHED = "weighed"
"""Name of the rule by neighborhoods of several sizes."""


@dataclass(frozen=True)
class TwoClassRule(ScoringRule):
    """A rule of two classes."""

    rule: Rule
    """The vote of one k."""
    k: int
    weighed: WeighedVote | None = None
    """Neighborhoods of several sizes, which predict; None: the vote of one k."""
    n_classes: int = 2
    group: ClassVar = "scores"

    @property
    def n_neighbors(self) -> int:
        return self.k if self.weighed is None else self.weighed.sizes[-1]

    def attributes(self) -> dict[str, Any]:
        weighed = None if self.weighed is None else asdict(self.weighed)
        return {"k": self.k, **asdict(self.rule), "weighed": weighed}

    def columns(self, score: Score, lists: Neighbors) -> Scores:
        near = lists.label.astype(np.int8)
        eta = share_of_ones(near[:, : self.k])
        if self.weighed is None:
            clean, predicted = self.rule.posterior(eta, self.k), self.rule.predict(eta)
        else:
            training, trees = score.model.run, self.weighed.trees
            odds = heard(trees, training, tree_odds, score.features, are_new=True)
            clean = self.weighed.chance(near, lists.distance, odds)
            predicted = (clean >= 0.5).astype(np.int8)
        columns: Arrays = {
            "eta_corr": eta.astype(np.float32),
            "posterior": clean.astype(np.float32),
            "predicted_label": predicted,
        }
        return columns, of_two(columns["posterior"])

    def as_json(self) -> dict[str, Any]:
        rule = self.rule
        name = rule.rule if self.weighed is None else WEIGHED
        rates = {"p0": rule.p0, "p1": rule.p1}
        return {"rule": name, "k": self.k, "threshold": rule.threshold, **rates}


@dataclass(frozen=True)
class ClassRule(ScoringRule):
    """The vote of more than two classes; its matrix is in the training's `transition`, its
    correction in `correction`."""

    n_classes: int
    rule: VoteRule
    group: ClassVar = "class_scores"

    @property
    def n_neighbors(self) -> int:
        return self.rule.n_neighbors

    def attributes(self) -> dict[str, Any]:
        return asdict(self.rule)

    def table(self, training: Run, queries: Pool) -> Table:
        label = array(training.group("pool"), "y").dtype.str
        return Table("scores", self.group, label, {"top": min(KEPT, self.n_classes)})

    def columns(self, score: Score, lists: Neighbors) -> Scores:
        near = labels_of(lists.row, lists.label)
        decided = self.rule.decide(score.model.run, near, lists.distance, score.features)
        best = np.argsort(-decided.chance, axis=1, kind="stable")[:, : min(KEPT, self.n_classes)]
        top = np.take_along_axis(decided.code, best, axis=1)
        chance = np.take_along_axis(decided.chance, best, axis=1)
        columns: Arrays = {
            "predicted_label": decided.predicted.astype(
                array(score.model.run.group("pool"), "y").dtype
            ),
            "posterior": chance[:, 0].astype(np.float32),
            "vote_share": share_of(near, self.rule.k, decided.predicted).astype(np.float32),
            "top_label": np.where(chance > 0, top, -1).astype(np.int16),
            "top_posterior": chance.astype(np.float32),
        }
        return columns, decided

    def as_json(self) -> dict[str, Any]:
        name = "corrected" if self.rule.weighed is None else WEIGHED
        return {"rule": name, "k": self.rule.k, "part": self.rule.decision.part}


def of_two(posterior: Float32) -> Decided:
    """The posterior of class 1 as that of two classes."""
    chance, code = whose.of_two(posterior)
    return Decided(code, chance, chance.argmax(axis=1))


def write_posteriors(run: Run, number: int, decided: Decided, n_classes: int) -> list[str]:
    """Write the group `posteriors/NNNNNN` of one part, piece by piece; keys of what was written.

    A class that none of the nearest is given, or that is not among the commonest that the rule
    weighs, has 0.
    """
    rows, path = chunk_rows(4 * n_classes), f"posteriors/{number:06d}"
    n_rows = len(decided.code)
    writer = ChunkWriter(run, path, rows, n_rows, kind="posteriors", true=n_classes)
    written = []
    for i, start in enumerate(range(0, n_rows, rows)):
        code, chance = (column[start : start + rows] for column in (decided.code, decided.chance))
        posterior = np.zeros((len(code), n_classes), np.float32)
        row, place = np.nonzero((chance > 0) & (code >= 0))
        posterior[row, code[row, place]] = chance[row, place]
        written += writer.chunk(i, posterior=posterior)
    return [*written, *writer.finish(n_rows, {})]


def posterior_columns(
    run: Run, classes: Sequence[LabelValue]
) -> tuple[Callable[[slice], Arrays], int]:
    """What reads the posteriors of some rows as a column for each class, and how many rows to ask
    for at once."""
    part_rows = array(run.group("scores"), "row").chunks[0]

    def read(rows: slice) -> Arrays:
        pieces = []
        for part in range(rows.start // part_rows, -(-rows.stop // part_rows)):
            first = part * part_rows
            inside = slice(max(0, rows.start - first), min(part_rows, rows.stop - first))
            pieces.append(read_array(run.group(f"posteriors/{part:06d}"), "posterior", inside))
        table = np.concatenate(pieces) if pieces else np.empty((0, len(classes)), np.float32)
        return {f"{PREFIX}{name}": table[:, code] for code, name in enumerate(classes)}

    return read, chunk_rows(4 * len(classes))


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

    def table(self, training: Run, queries: Pool) -> Table:
        own = ("in_candidates",) if "candidates" in queries.run.group(queries.path) else ()
        return Table("scores", self.group, dtype_of(self.n_classes).str, optional=own)

    def send(
        self, job: Job, model: Model, queries: Pool, lists: Sequence[Lists]
    ) -> Sequence[Inbox]:
        pool = Pool(model.run, "pool", model.n_rows, queries.n_features)
        return answers(job, queries, lists, pool, self.n_neighbors, neighbors_candidates)

    def columns(self, score: Score, lists: Neighbors) -> Scores:
        """One of each row's own candidates is predicted where there are any."""
        assert score.known is not None
        known = Replies(score.known)
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
