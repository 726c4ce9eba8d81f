"""What other models are trained on once labels are judged: fewer rows, other labels, or weights."""

from __future__ import annotations

import numpy as np

from pipeline.arrays import Bools, Float64, Integers

WAYS = ("drop", "relabel", "weight", "soft")
"""Suspect labels are left out, or replaced; each label counts by its chance to be right, or every
row has all labels by their chances."""
Codes = Integers


def kept(given: Codes, suspect: Bools, n_classes: int) -> Bools:
    """(row,) rows whose label is left as it is: all but the suspect ones; a class that had no
    others keeps all of its own, so that a model knows it."""
    rest = np.bincount(given[~suspect], minlength=n_classes)
    return np.asarray(~suspect | (rest[given] == 0))


def soft_labels(given: Codes, likely: Codes, quality: Float64, matrix: Float64) -> Float64:
    """(row, class) chances of the true class; rows add up to 1.

    The given label has its quality. The rest is the likely label's where that is another one, else
    it is shared among the classes as `matrix` (class, class), P(given | true), says that they are
    mistaken for the given one, all alike where it says of none.
    """
    n = np.arange(len(given))
    share = matrix.T.astype(np.float64)
    np.fill_diagonal(share, 0.0)
    share = np.where(share.sum(axis=1, keepdims=True) > 0, share, 1.0 - np.eye(len(matrix)))
    share /= share.sum(axis=1, keepdims=True)
    soft = (1.0 - quality)[:, None] * share[given]
    other = likely != given
    soft[other] = 0.0
    soft[n[other], likely[other]] = 1.0 - quality[other]
    soft[n, given] = quality
    return np.asarray(soft)
