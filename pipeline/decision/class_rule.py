"""The decision rule of c classes: the vote of the k nearest, corrected by the transition matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.decision.class_votes import NONE, class_votes
from pipeline.decision.tempering import PARTS, MatrixDecision, change_gains, choose_part, softened
from pipeline.noise.rates import Support
from pipeline.noise.simplex import posterior_of_candidates, posterior_simplex

Floats = npt.NDArray[np.float64]
PORTION = 8192
"""Rows that are decided together."""


@dataclass(frozen=True)
class Decided:
    """What the rule says of some rows; candidates are the classes among their neighbors."""

    code: npt.NDArray[np.int32]
    """(row, candidate) classes, ascending; -1 where a row has fewer."""
    share: Floats
    """(row, candidate) share of the votes."""
    chance: Floats
    """(row, candidate) chance that it is the clean class; a row adds up to 1."""
    predicted: npt.NDArray[np.int64]
    """(row,) the likeliest class."""

    def share_of(self, label: npt.NDArray[np.integer]) -> Floats:
        """(row,) share of the votes of one class per row, (row,) codes."""
        return np.asarray((self.share * (self.code == label[:, None])).sum(axis=1))


def decide(
    neighbor_label: npt.NDArray[np.integer], n_classes: int, k: int, matrix: Floats | None
) -> Decided:
    """Decide rows by the labels of their k nearest.

    Parameters
    ----------
    neighbor_label : (row, rank) codes, nearest first; a code outside [0, n_classes) is missing
    matrix : (class, class) float64, row = true class, the part of the transition matrix that is put
        to use; None for the plain vote, in which the lower of two equal classes wins
    """
    parts = [
        _decide(neighbor_label[start : start + PORTION], n_classes, k, matrix)
        for start in range(0, max(1, len(neighbor_label)), PORTION)
    ]
    return Decided(
        np.concatenate([part.code for part in parts]),
        np.concatenate([part.share for part in parts]),
        np.concatenate([part.chance for part in parts]),
        np.concatenate([part.predicted for part in parts]),
    )


def _decide(
    neighbor_label: npt.NDArray[np.integer], n_classes: int, k: int, matrix: Floats | None
) -> Decided:
    nobody = np.full(len(neighbor_label), NONE, np.int32)
    votes = class_votes(neighbor_label, nobody, n_classes, (k,))
    share = votes.votes[:, :, 0] / np.maximum(votes.total, 1)
    if matrix is None:
        chance = share
    elif votes.code.shape[1] == n_classes:
        chance = posterior_simplex(share, matrix)
    else:
        chance = posterior_of_candidates(votes.code, share, matrix)
    predicted = votes.code[np.arange(len(share)), chance.argmax(axis=1)]
    return Decided(votes.code, share, chance, predicted.astype(np.int64))


def temper(
    neighbor_label: npt.NDArray[np.integer],
    given_label: npt.NDArray[np.integer],
    k: int,
    matrix: Floats,
    given_counts: npt.NDArray[np.integer],
    support: Support,
) -> MatrixDecision:
    """How far the matrix corrects predictions, from a sample of rows.

    ``neighbor_label`` is (row, rank), ``given_label`` (row,); ``matrix`` (class, class), row = true
    class; ``given_counts`` (class,) rows of the pool; ``support`` the verdict on the matrix.
    """
    n_classes = len(matrix)
    labeled = given_label < n_classes if given_label.dtype.kind == "u" else given_label >= 0
    near, own = neighbor_label[labeled], given_label[labeled]
    plain = decide(near, n_classes, k, None).predicted
    inverse = np.asarray(np.linalg.pinv(matrix), np.float64)
    sums = [
        change_gains(
            plain,
            decide(near, n_classes, k, softened(matrix, given_counts, part)).predicted,
            own,
            inverse,
        )
        for part in PARTS
    ]
    return choose_part(np.stack(sums), support)
