"""Which annotators agree by more than the row's class: one copies from the other, or both from one
source.

If two annotators err independently given the class, their agreement beyond chance is that of the
first with all others, times that of the second with them, over that of the others among each other
(Spearman's tetrads). Rows that are hard for all raise all four alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, triu
from scipy.special import ndtri

from pipeline.arrays import Float64, Int32, Int64, Integers
from pipeline.labels import ClassName

MOST_PAIRS = 1 << 24
"""Pairs of annotations that are counted in one part of the rows."""
FEW = 30
"""Rows that two annotators share, and pairs of annotations of each other kind, at least."""
MOST = 1000
"""Annotators that are compared, those of most shared rows."""
LIFT, SURELY, BY_CHANCE = 0.1, 4.0, 1e-3
"""By how much agreement has to exceed the expected one: a share of rows, and standard errors; if
pairs are many, as many as leave this chance that any of them does."""


@dataclass(frozen=True)
class AlikePair:
    """Two annotators who agree by more than the class."""

    first: ClassName
    second: ClassName
    rows: int
    """That both labeled."""
    agreement: float
    expected: float
    """By how they agree with the others."""


def pair_counts(
    start: Int64, annotator: Int32, label: Integers, n_annotators: int
) -> dict[str, Int64]:
    """(pair,) `pair` of annotators, the lower code times `n_annotators` plus the other, the rows
    that are `shared` and those where labels are `equal`; of the first rows where pairs are many.

    start : (row + 1,) where the annotations (annotation,) of each row begin
    """
    n = np.diff(start)
    n = n[: np.searchsorted(np.cumsum(n * (n - 1) // 2), MOST_PAIRS, "right")]
    row = np.repeat(np.arange(len(n)), n)
    who, what = annotator[: len(row)], label[: len(row)].astype(np.int64)
    one, shape = np.ones(len(row), np.int64), (len(row), n_annotators)
    cell = np.unique(row * (what.max(initial=0) + 1) + what, return_inverse=True)[1]
    of_row, of_label = (csr_array((one, (at, who)), shape) for at in (row, cell))
    shared = triu(of_row.T @ of_row, 1).tocoo()
    equal = (of_label.T @ of_label)[shared.row, shared.col] if shared.nnz else shared.data
    pair = shared.row.astype(np.int64) * n_annotators + shared.col
    return {"pair": pair, "shared": shared.data, "equal": np.asarray(equal, np.int64)}


def alike(
    names: Sequence[ClassName], parts: Iterable[Mapping[str, Int64]], given: Float64
) -> list[AlikePair]:
    """Pairs that agree by more than the class, those of most agreement beyond it first; the second
    of a pair is in no later one.

    names : (annotator,)
    parts : `pair_counts` of parts of the rows
    given : (annotator, class) labels given
    """
    pair, counts = np.empty(0, np.int64), np.empty((2, 0))
    for part in parts:
        pair, place = np.unique(np.concatenate([pair, part["pair"]]), return_inverse=True)
        more = np.hstack([counts, [part["shared"], part["equal"]]])
        counts = np.array([np.bincount(place, one, len(pair)) for one in more])
    first, second = np.divmod(pair, len(given))
    rows = np.bincount(np.concatenate([first, second]), np.tile(counts[0], 2), len(given))
    who = np.sort(np.argsort(-rows, kind="stable")[:MOST])
    used = np.isin(first, who) & np.isin(second, who)
    at = tuple(np.searchsorted(who, one[used]) for one in (first, second))
    shared, equal = np.zeros((2, len(who), len(who)))
    shared[at], equal[at] = counts[:, used]
    shared, equal = shared + shared.T, equal + equal.T
    share = given[who] / np.maximum(given[who].sum(axis=1, keepdims=True), 1.0)
    chance = share @ share.T
    surely = max(SURELY, -float(ndtri(BY_CHANCE / max(int((shared >= FEW).sum()) // 2, 1))))
    pairs: list[AlikePair] = []
    while True:
        lift, errors = _beyond(shared, equal - shared * chance, chance)
        if errors.max() < surely:
            return pairs
        most = np.where(errors > surely / 2, lift * shared, 0.0)  # where some copy, others seem to
        i, j = sorted(map(int, np.unravel_index(most.argmax(), most.shape)))
        n, share_equal = int(shared[i, j]), float(equal[i, j] / shared[i, j])
        two = names[who[i]], names[who[j]]
        pairs.append(AlikePair(*two, n, share_equal, share_equal - float(lift[i, j])))
        for counted in (shared, equal):
            counted[j] = counted[:, j] = 0.0


def _beyond(shared: Float64, beyond: Float64, chance: Float64) -> tuple[Float64, Float64]:
    """(annotator, annotator) share of the rows in which two agree above what is expected, and by
    how many standard errors; 0 where that is little, or on few rows. Others weigh as they agree
    with all: who labels by chance tells nothing of a pair."""
    weight = np.maximum(beyond.sum(axis=1) / np.maximum(shared.sum(axis=1), 1.0), 0.0)
    weight /= max(float(weight.max()), 1e-12)

    def beside(counts: Float64, weight: Float64) -> Float64:
        """(3, annotator, annotator) sums over what the first has with others, the second has with
        others, and these have among themselves."""
        first = (counts @ weight)[:, None] - counts * weight
        both = counts * weight * weight[:, None]
        of = both.sum(axis=1)
        return np.array([first, first.T, of.sum() - 2.0 * (of[:, None] + of - both)])

    size = np.maximum(beside(shared, weight), 1e-12)
    one, other, among = beside(beyond, weight) / size
    size = size**2 / np.maximum(beside(shared, weight**2), 1e-12)
    least = np.sqrt(2.0 / np.maximum(size[2], 1.0))
    level = np.maximum(among, least)
    expected = np.clip(chance + np.maximum(one * other / level, 0.0), 0.02, 0.98)
    n = np.maximum(shared, 1.0)
    parts = (other, one, np.sqrt(2.0) * one * other / level)
    open_ = (np.square(np.array(parts) / level) / np.maximum(size, 1.0)).sum(axis=0)
    error = np.sqrt(expected * (1.0 - expected) / n + 0.25 * open_)
    enough = np.minimum(shared, size.min(axis=0)) >= FEW
    lift = beyond / n + chance - expected
    return lift, np.where(enough & (among >= least) & (lift > LIFT), lift / error, 0.0)
