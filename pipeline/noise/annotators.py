"""Several labels per row: a matrix of mistakes for each annotator, and each row's likeliest class.

The model is that of Dawid & Skene (*Maximum likelihood estimation of observer error-rates using the
EM algorithm*, 1979): given a row's class, its annotators label independently, each by a matrix of
their own. Where theirs has one prior of classes for all rows, here it comes from a row's neighbors:
the mixture of classes that makes the neighbors' annotations likeliest, the row's own left out. How
far neighbors are to be believed is learned, too: rows are divided into cells by the class that
neighbors favor, and by how clearly; each cell has a chance that neighbors are right, which rises
with clearness. So a mixture that is too sure, or not sure enough, biases no matrix, and neighbors
that tell nothing do not count.

One pass (``expect``) adds up what all rows say; sums of blocks add up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Float64, Int32, Int64
from pipeline.noise.annotator_kernels import LEAST, expect_rows

NEAR = 50
"""Neighbors whose annotations are looked at."""
EDGES = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.96, 0.98, 0.99])
"""Lower ends of the levels of clearness."""
CERTAIN = -1
"""Code of the annotator whose labels are known to be right."""


@dataclass(frozen=True)
class RowLabels:
    """The annotations of some rows, one row after the other."""

    start: Int64
    """(row + 1,) where those of each row begin."""
    annotator: Int32
    """(annotation,) codes; ``CERTAIN`` for a label that is known to be right."""
    label: Int32
    """(annotation,) codes."""


@dataclass(frozen=True)
class Skills:
    """How often annotators and neighbors are right, as a round has it."""

    matrix: Float64
    """(annotator, true class, given class); rows add up to 1."""
    prior: Float64
    """(class,) shares of the classes."""
    sure: Float64
    """(class, level) chance that neighbors who favor it so clearly are right; NaN: as they say."""


@dataclass(frozen=True)
class Expected:
    """Sums over rows, expected by some skills."""

    counts: Float64
    """(annotator, true class, given class) labels."""
    sure: Float64
    """(class, level, 3) rows by what neighbors say, rows where they are right, and the variance of
    that number."""
    prior: Float64
    """(class,) rows."""
    right: Float64
    """(annotator, 4) labels, right ones, the variance of their number, and right ones if the row's
    own annotations count half."""
    checked: Float64
    """(true class, given class) labels of rows whose class is certain."""

    @staticmethod
    def none(n_annotators: int, c: int) -> Expected:
        """The sums over no row."""
        shapes = (n_annotators, c, c), (c, len(EDGES), 3), (c,), (n_annotators, 4), (c, c)
        return Expected(*(np.zeros(shape) for shape in shapes))


@dataclass(frozen=True)
class Judged:
    """What is said of some rows."""

    consensus: Int32
    """(row,) the likeliest class; of several, the first."""
    certainty: Float64
    """(row,) its chance."""
    n_annotations: Int32
    """(row,)"""
    n_agreeing: Int32
    """(row,) annotations that are the consensus."""


def expect(
    own: Int64, near: Int64, weight: Float64, labels: RowLabels, skills: Skills
) -> tuple[Judged, Expected]:
    """The likeliest class of some rows, and their sums of annotators and neighbors.

    own : (row,) their places in ``labels``
    near : (row, rank) their neighbors' places; those of weight 0 are not read
    weight : (row, rank) ``nearness`` of at most ``NEAR`` neighbors
    """
    n, (n_annotators, c, _) = len(own), skills.matrix.shape
    sums = Expected.none(n_annotators, c)
    judged = Judged(
        np.zeros(n, np.int32), np.zeros(n), np.zeros(n, np.int32), np.zeros(n, np.int32)
    )
    logs = np.log(np.maximum(skills.matrix, LEAST))
    expect_rows(
        *(own, near, weight, labels.start, labels.annotator, labels.label),
        *(logs, skills.prior, skills.sure, EDGES),
        *(sums.counts, sums.sure, sums.prior, sums.right, sums.checked),
        *(judged.consensus, judged.certainty, judged.n_annotations, judged.n_agreeing),
    )
    return judged, sums
