"""Lists of queries → scores, by a training on single labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from flows.engine.results import LabelValue
from flows.steps.labels.classes import decision_matrix, labels_of
from flows.steps.queries.probes import Score, Scores, ScoringRule
from pipeline.decision.class_rule import Decided, decide
from pipeline.decision.quality import KEPT
from pipeline.decision.tempering import MatrixDecision
from pipeline.decision.votes import share_of_ones
from pipeline.knn.lists import Neighbors
from pipeline.methods.rules import Rule
from storage.arrays.groups import Arrays, array, chunk_rows, read_array
from storage.runs.pool import ChunkWriter, Pool
from storage.runs.run import Run

PREFIX = "posterior_"
"""What the names of the columns begin with; the class follows."""


@dataclass(frozen=True)
class TwoClassRule(ScoringRule):
    """A rule of two classes."""

    rule: Rule
    n_classes: int = 2
    group: ClassVar = "scores"

    def attributes(self) -> dict[str, Any]:
        return asdict(self.rule)

    def layout(self, training: Run, queries: Pool) -> dict[str, Any]:
        return {}

    def columns(self, run: Run, score: Score, lists: Neighbors) -> Scores:
        eta = share_of_ones(lists.label.astype(np.int8))
        clean = self.rule.posterior(eta).astype(np.float32)
        columns: Arrays = {
            "eta_corr": eta.astype(np.float32),
            "posterior": clean,
            "predicted_label": self.rule.predict(eta),
        }
        return columns, of_two(clean)

    def as_json(self) -> dict[str, Any]:
        rule = self.rule
        return {"rule": rule.rule, "threshold": rule.threshold, "p0": rule.p0, "p1": rule.p1}


@dataclass(frozen=True)
class ClassRule(ScoringRule):
    """The corrected vote of more than two classes; its matrix is in the training's `transition`."""

    n_classes: int
    decision: MatrixDecision
    group: ClassVar = "class_scores"

    def attributes(self) -> dict[str, Any]:
        return asdict(self)

    def layout(self, training: Run, queries: Pool) -> dict[str, Any]:
        label, top = array(training.group("pool"), "y").dtype, min(KEPT, self.n_classes)
        return {"label": label, "top": top}

    def columns(self, run: Run, score: Score, lists: Neighbors) -> Scores:
        matrix = decision_matrix(score.model.run, self.decision)
        decided = decide(labels_of(lists.row, lists.label), self.n_classes, score.model.k, matrix)
        best = np.argsort(-decided.chance, axis=1, kind="stable")[:, : min(KEPT, self.n_classes)]
        top = np.take_along_axis(decided.code, best, axis=1)
        chance = np.take_along_axis(decided.chance, best, axis=1)
        columns: Arrays = {
            "predicted_label": decided.predicted.astype(
                array(score.model.run.group("pool"), "y").dtype
            ),
            "posterior": chance[:, 0].astype(np.float32),
            "vote_share": decided.share_of(decided.predicted).astype(np.float32),
            "top_label": np.where(chance > 0, top, -1).astype(np.int16),
            "top_posterior": chance.astype(np.float32),
        }
        return columns, decided

    def as_json(self) -> dict[str, Any]:
        return {"rule": "corrected", "part": self.decision.part}


def of_two(posterior: npt.NDArray[np.float32]) -> Decided:
    """The posterior of class 1 as that of two classes."""
    chance = np.stack([1 - posterior, posterior], axis=1)
    code = np.broadcast_to(np.arange(2, dtype=np.int32), chance.shape)
    return Decided(code, chance, chance, chance.argmax(axis=1))


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
