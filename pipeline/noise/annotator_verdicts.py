"""How good each annotator is, and how surely that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pipeline.knn.lists import wilson
from pipeline.labels import ClassName
from pipeline.noise.annotator_matrices import Agreement, known_share
from pipeline.noise.annotator_pairs import AlikePair
from pipeline.noise.annotators import Expected, Skills
from pipeline.noise.rates import Support

FEW, TOO_FEW = 100.0, 25.0
"""Labels that count as known, below which support is weak, or there is none."""
MOST_NUMBERS = 10_000
"""Numbers of matrices that a report holds; more stand in the results alone."""


@dataclass(frozen=True)
class Annotator:
    """One annotator."""

    value: ClassName
    labels: int
    accuracy: float
    """Share of these labels that are right, as estimated."""
    interval: tuple[float, float]
    """95 % interval of the accuracy."""
    support: Support
    matrix: list[list[float]] | None
    """P(given | true), a row per true class; None where all matrices are too many numbers."""
    class_rows: list[float] | None
    """Expected labels of rows that are truly of each class, on which a row of the matrix rests."""


@dataclass(frozen=True)
class LookAt:
    """A row whose class annotators and neighbors leave open."""

    row: int
    given: ClassName
    consensus: ClassName
    certainty: float


@dataclass(frozen=True)
class Annotators:
    """What is known of several labels per row: of who gave them, and of the consensus."""

    annotators: list[Annotator]
    """The least accurate first."""
    agreement: Agreement
    shared: bool
    """Whether annotations of the same rows tell how good annotators are."""
    n_annotations: int
    n_changed: int
    """Rows whose consensus is not the given label, which is that of the majority."""
    certainty: float
    """Mean certainty of the consensus."""
    look_first: list[LookAt]
    """The least certain rows."""
    n_unused: int = 0
    """Annotations whose label is no row's majority."""
    n_empty: int = 0
    """Lines without a label."""
    alike: list[AlikePair] = field(default_factory=list)
    """Those who agree by more than the class."""


def verdicts_on(
    values: Sequence[ClassName], sums: Expected, skills: Skills, shared: bool
) -> list[Annotator]:
    """All annotators that gave any label, the least accurate first.

    shared : whether annotations of the same rows tell how good they are

    The interval is Wilson's for the number of labels that count as known. Mistakes that several
    annotators make on hard rows look like the truth; so it is extended by as much as the accuracy
    moves if a row's own annotations count half.
    """
    labels, right, open_, half = sums.right.T
    moved = (half - right) / np.maximum(labels, 1.0)
    accuracy = right / np.maximum(labels, 1.0)
    known = labels * known_share(labels, right, open_)
    rows = sums.counts.sum(axis=2)
    whole = skills.matrix.size <= MOST_NUMBERS
    return [
        Annotator(
            value=values[j],
            labels=int(labels[j]),
            accuracy=float(accuracy[j]),
            interval=_reaching(float(accuracy[j]), float(known[j]), float(moved[j])),
            support=_support(float(known[j]), shared),
            matrix=skills.matrix[j].tolist() if whole else None,
            class_rows=rows[j].tolist() if whole else None,
        )
        for j in np.lexsort((np.arange(len(labels)), accuracy))
        if labels[j] > 0
    ]


def _reaching(accuracy: float, known: float, moved: float) -> tuple[float, float]:
    """Wilson's interval for as many known labels, extended by a move of the accuracy."""
    low, high = wilson(accuracy, max(1.0, known))
    return max(0.0, low + min(moved, 0.0)), min(1.0, high + max(moved, 0.0))


def _support(known: float, shared: bool) -> Support:
    if known < TOO_FEW:
        return "unsupported"
    return "supported" if known >= FEW and shared else "weak"
