"""Lists of queries → scores, by a training on single labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from flows.engine.results import LabelValue
from flows.steps.ingest.transform import heard
from flows.steps.labels.classes import VoteRule, labels_of
from flows.steps.queries.probes import Score, Scores, ScoringRule
from pipeline.arrays import Float32
from pipeline.decision.class_rule import Decided, share_of
from pipeline.decision.odds import WeighedVote, tree_odds
from pipeline.decision.quality import KEPT
from pipeline.decision.votes import share_of_ones
from pipeline.knn.lists import Neighbors
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

    def layout(self, training: Run, queries: Pool) -> dict[str, Any]:
        return {}

    def columns(self, run: Run, score: Score, lists: Neighbors) -> Scores:
        near = lists.label.astype(np.int8)
        eta = share_of_ones(near[:, : self.k])
        if self.weighed is None:
            clean, predicted = self.rule.posterior(eta, self.k), self.rule.predict(eta)
        else:
            trees = heard(self.weighed.trees, score.model.run, tree_odds, score.features)
            clean = self.weighed.chance(near, trees)
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

    def layout(self, training: Run, queries: Pool) -> dict[str, Any]:
        label, top = array(training.group("pool"), "y").dtype, min(KEPT, self.n_classes)
        return {"label": label, "top": top}

    def columns(self, run: Run, score: Score, lists: Neighbors) -> Scores:
        near = labels_of(lists.row, lists.label)
        decided = self.rule.decide(score.model.run, near, score.features)
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
    chance = np.stack([1 - posterior, posterior], axis=1)
    code = np.broadcast_to(np.arange(2, dtype=np.int32), chance.shape)
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
        start = rows.start
        while start < rows.stop:
            part = start // part_rows
            stop = min(rows.stop, (part + 1) * part_rows)
            inside = slice(start - part * part_rows, stop - part * part_rows)
            pieces.append(read_array(run.group(f"posteriors/{part:06d}"), "posterior", inside))
            start = stop
        table = np.concatenate(pieces) if pieces else np.empty((0, len(classes)), np.float32)
        return {f"{PREFIX}{name}": table[:, code] for code, name in enumerate(classes)}

    return read, chunk_rows(4 * len(classes))
