"""Labels by which one group means another class than others do: its codes were exchanged, or count
from another number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Integers
from pipeline.knn.lists import wilson

FEWEST = 25
"""Rows of a label at least, of one group and of all others."""


@dataclass(frozen=True)
class Meaning:
    """One label of a group, most of whose rows are of another class."""

    group: int
    given: int
    means: int
    """The class that they seem to be of."""
    rows: int
    """Rows that the group gave the label."""
    share: float
    """Share of these that are of that class."""


def other_meanings(group: Integers, given: Integers, likely: Integers) -> list[Meaning]:
    """Labels of a group most of whose rows are surely of one other class, while most rows that have
    this label from other groups surely are not; by group and label.

    Where classes overlap, rows of a rare label look like another class whoever gave it; and if a
    group guesses, most of its rows are of no class.

    Parameters
    ----------
    group : (row,) from 0; -1 is nobody
    given : (row,) codes of given labels
    likely : (row,) codes of the classes that neighbors tell, the row's own label left out
    """
    group, given, likely = (column.astype(np.int64) for column in (group, given, likely))
    n_classes = int(max(given.max(initial=0), likely.max(initial=0))) + 1
    pair, label = given * n_classes + likely, (group + 1) * n_classes + given
    pairs, labels = np.bincount(pair, minlength=n_classes**2), np.bincount(given)
    rows = np.bincount(label)
    cells, counts = np.unique(label * n_classes + likely, return_counts=True)
    meanings = []
    for cell, count in zip(cells.tolist(), counts.tolist(), strict=True):
        own, means = divmod(cell, n_classes)
        who, code = own // n_classes - 1, own % n_classes
        here, others = int(rows[own]), int(labels[code] - rows[own])
        if who < 0 or means == code or 2 * count <= here or min(here, others) < FEWEST:
            continue
        elsewhere = int(pairs[code * n_classes + means]) - count
        if wilson(count / here, here)[0] > 0.5 > wilson(elsewhere / others, others)[1]:
            meanings.append(Meaning(who, code, means, here, count / here))
    return meanings
