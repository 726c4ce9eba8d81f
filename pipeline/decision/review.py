"""Which labels a person should look at first, and what the answers say of all labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betaincinv

from pipeline.arrays import Bools, Float64, Floating, Int64, Integers
from pipeline.blocks.sampling import row_hash
from pipeline.streams import Stream

Verdict = Callable[[Int64], Integers]
"""(row, class) votes → (row,) labels"""

VOTES = 1 << 22
"""Counts of votes held at once."""
STREAMS = {
    "useful": Stream.REVIEW_USEFUL,
    "suspects": Stream.REVIEW_SUSPECTS,
    "rows": Stream.REVIEW_ROWS,
}


def sensitive(votes: Int64, verdict: Verdict | None = None) -> Bools:
    """(row, class): whether a verdict changes if a vote for the class turns out to be wrong.

    votes : (row, class) neighbors by given label. The wrong vote goes to the class that has most of
        the others; ties: the lowest. False where the class has no vote.
    verdict : None for the plain vote, in which the lower of two equal classes wins
    """
    changed = np.zeros(votes.shape, np.bool_)
    at = np.arange(len(votes))
    if verdict is None:  # only the winner can lose, to the next, by two votes
        first = votes.argmax(axis=1)
        others = votes.copy()
        others[at, first] = -1
        second = others.argmax(axis=1)
        ahead = votes[at, first] - votes[at, second]
        falls = (ahead < 2) | ((ahead == 2) & (second < first))
        changed[at, first] = falls & (votes[at, first] > 0)
        return changed
    now = verdict(votes)
    for label in range(votes.shape[1]):
        others = votes.copy()
        others[:, label] = -1
        moved = votes.copy()
        moved[:, label] -= 1
        moved[at, others.argmax(axis=1)] += 1
        has = votes[:, label] > 0
        changed[has, label] = (verdict(moved[has]) != now[has]) if has.any() else False
    return changed


def verdicts_moved(
    neighbor: Int64, neighbor_label: Integers, n_classes: int, verdict: Verdict | None = None
) -> tuple[Int64, Int64]:
    """Rows, ascending, and how many of these verdicts change if the row's label turns out to be
    wrong; rows that change none are left out.

    neighbor, neighbor_label : (row, k) the voters, negative where lists end
    """
    portion = max(1, VOTES // n_classes)
    moved = [
        _moved(neighbor[i : i + portion], neighbor_label[i : i + portion], n_classes, verdict)
        for i in range(0, len(neighbor), portion)
    ]
    row, times = np.unique(np.concatenate([np.empty(0, np.int64), *moved]), return_counts=True)
    return row, times.astype(np.int64)


def _moved(
    neighbor: Int64, neighbor_label: Integers, n_classes: int, verdict: Verdict | None
) -> Int64:
    """The rows that change a verdict, once for each verdict."""
    there = neighbor >= 0
    label = np.where(there, neighbor_label, 0).astype(np.int64)
    cell = np.arange(len(label))[:, None] * n_classes + label
    votes = np.bincount(cell[there], minlength=len(label) * n_classes).reshape(-1, n_classes)
    changed = sensitive(votes.astype(np.int64), verdict)
    moves = np.take_along_axis(changed, label, axis=1) & there
    return neighbor[moves].astype(np.int64)


def usefulness(label_quality: Floating, moved: Int64) -> Float64:
    """(row,) chance that the label is wrong, times the verdicts that its correction changes: the
    row's own and those of the rows it votes for."""
    return chance_wrong(label_quality, moved) * (1.0 + moved)


def chance_wrong(label_quality: Floating, moved: Int64) -> Float64:
    """(row,) chance that the label is wrong, whatever its correction changes."""
    return 1.0 - label_quality.astype(np.float64)


ORDERS = {"informative": usefulness, "surest": chance_wrong}
"""By what rows come first, unless they are drawn at random."""


def first(row: Int64, value: Floating | None, n: int, seed: int, stream: str) -> Int64:
    """Places of the n rows of greatest value; equal ones, or all without values, at random by row
    number. The first n of all rows are the first n of the first n of any parts."""
    tie = row_hash(row, seed, STREAMS[stream])
    order = np.lexsort((tie,)) if value is None else np.lexsort((tie, -value))
    return order[:n]


def interleaved(useful: Int64, suspects: Int64, rows: Int64, share: float) -> Int64:
    """One order of three, each row where it comes first: ``share`` of the places go to the rows
    drawn at random, to suspects and rows by turns; what runs out leaves its places to the others.
    """
    sources = [useful.tolist(), suspects.tolist(), rows.tolist()]
    at, due, turn = [0, 0, 0], 0.0, 0
    order: dict[int, None] = {}
    while any(at[i] < len(sources[i]) for i in range(3)):
        due += share
        random = due >= 1.0 - 1e-9
        wanted = [1 + turn, 2 - turn, 0] if random else [0, 1 + turn, 2 - turn]
        taken = next(i for i in wanted if at[i] < len(sources[i]))
        if random:
            due, turn = due - 1.0, 1 - turn
        order[sources[taken][at[taken]]] = None
        at[taken] += 1
    return np.array(list(order), np.int64)


def answered_draws(place: Int64, answered: Bools) -> Int64:
    """Places of the rows of a random draw that count: those before its first row without an answer.
    Later ones, answered early for another reason, would make the sample uneven.

    place : (row,) place of each row in the draw, -1 where it is not in it
    """
    drawn = np.flatnonzero(place >= 0)
    drawn = drawn[np.argsort(place[drawn])]
    return drawn[: int(np.argmin(np.append(answered[drawn], False)))]


def alike(row: Int64, pair: Int64, neighbor: Int64, most: int) -> Int64:
    """(row,) group of each row, named by its first member's place: rows of one ``pair`` (given and
    likely class) that are among each other's nearest, at most ``most`` of them.

    row : (row,) in the order they are looked at; neighbor : (row, rank) rows, negative where lists
    end. A row starts a group unless it is in one; its group takes the rows of its list, then those
    of their lists, and so on, nearest first.
    """
    place = {int(one): at for at, one in enumerate(row)}
    near: list[list[int]] = [
        [place[one] for one in line if one in place and pair[place[one]] == pair[at]]
        for at, line in enumerate(neighbor.tolist())
    ]
    group = np.full(len(row), -1, np.int64)
    for start in range(len(row)):
        if group[start] >= 0:
            continue
        members, visited = [start], 0
        group[start] = start
        while visited < len(members) and len(members) < most:
            for other in near[members[visited]]:
                if group[other] < 0 and len(members) < most:
                    group[other] = start
                    members.append(other)
            visited += 1
    return group


def share_interval(hits: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Jeffreys' interval of a share of which ``hits`` of ``n`` drawn at random are, equal tails;
    (0, 1) for n = 0. Brown, Cai & DasGupta 2001."""
    if n == 0:
        return 0.0, 1.0
    tail = (1.0 - level) / 2.0
    low = betaincinv(hits + 0.5, n - hits + 0.5, tail) if hits else 0.0
    high = betaincinv(hits + 0.5, n - hits + 0.5, 1.0 - tail) if hits < n else 1.0
    return float(low), float(high)
