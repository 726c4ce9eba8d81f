"""What is on the list, what was answered, and what comes next."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flows.engine.results import LabelValue
from flows.report.review import Measured, measure
from storage.answers import Answer, AnswersFile, Asked
from storage.arrays.groups import Arrays
from storage.errors import InputError

RESERVED_SECONDS = 300.0
"""A row that one tab has shown is kept from others so long, unless the tab says that it closes."""
NEIGHBORS = ("neighbor", "distance", "neighbor_label")
KEYS = 9
"""Labels that a key chooses, the given one among them."""
NEAREST = 10
"""Neighbors shown."""
IMPORTED, GROUP = "imported", "group"


@dataclass(frozen=True)
class Filters:
    """Which rows are wanted; None is any."""

    given: int | None = None
    likely: int | None = None
    low: float = 0.0
    """Chance that the label is wrong, at least."""
    high: float = 1.0
    group: int | None = None
    """Row of a group's first member."""


@dataclass
class Desk:
    """One list under review; used by several tabs at once."""

    queue: Arrays
    """The columns of the group `review`."""
    file: AnswersFile
    labels: list[LabelValue]
    budget: int
    expected: float
    """Share of wrong labels that the training estimates."""
    optional: bool = True
    """Whether a reviewer may say that they do not know."""
    waiting: bool = False
    """Whether more questions will come when these are answered."""
    _reserved: dict[int, tuple[str, float]] = field(default_factory=dict)
    _times: deque[float] = field(default_factory=lambda: deque(maxlen=30))
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.put(self.queue)

    def put(self, queue: Arrays) -> None:
        """Ask about these rows from now on."""
        members: dict[int, list[int]] = {}
        for at, group in enumerate(queue["group"].tolist()):
            members.setdefault(group, []).append(at)
        with self._lock:
            self.queue, self._members = queue, members
            self._row, self._group = queue["row"].tolist(), queue["group"].tolist()
            self._place = {row: at for at, row in enumerate(self._row)}

    def __contains__(self, row: int) -> bool:
        """Whether a row is on the list, or near one that is."""
        return row in self._place or (row >= 0 and bool((self.queue["neighbor"] == row).any()))

    def next(
        self, n: int, tab: str, filters: Filters, known: Set[int] = frozenset()
    ) -> list[dict[str, Any]]:
        """The next n questions for a tab but those of `known` rows, which it has; each is kept from
        other tabs for a while."""
        with self._lock:
            self.file.refresh()
            answers = self.file.answers
            n = min(n, self.left() - sum(row not in answers for row in known))
            if n <= 0:
                return []
            now = time.monotonic()
            cards: list[dict[str, Any]] = []
            passed = self._passed()
            if self.left() > len(passed):
                passed = frozenset()  # there is time left for who was asked about them
            for at in sorted(self._open(filters), key=lambda at: at not in passed):
                holder, until = self._reserved.get(self._row[at], (tab, 0.0))
                if holder != tab and until > now and at not in passed:
                    continue
                self._reserved[self._row[at]] = tab, now + RESERVED_SECONDS
                if self._row[at] in known:
                    continue
                cards.append(self.card(at))
                if len(cards) == n:
                    break
            return cards

    def leave(self, tab: str) -> None:
        """Give back what a tab that closes has shown."""
        with self._lock:
            self._reserved = {row: kept for row, kept in self._reserved.items() if kept[0] != tab}

    def _passed(self) -> Set[int]:
        """Places of rows drawn at random that have no answer while later ones of their draw have:
        until they do, those do not count."""
        answered = np.array([row in self.file.answers for row in self._row], np.bool_)
        passed: set[int] = set()
        for draw in ("suspect_draw", "row_draw"):
            place = self.queue[draw]
            last = place[answered & (place >= 0)].max(initial=-1)
            passed.update(np.flatnonzero(~answered & (place >= 0) & (place < last)).tolist())
        return passed

    def _open(self, filters: Filters) -> Iterator[int]:
        """Places of rows nobody has answered, in order."""
        q, answers = self.queue, self.file.answers
        wrong = 1.0 - q["label_quality"]
        fits = (wrong >= filters.low - 1e-6) & (wrong <= filters.high + 1e-6)
        if filters.given is not None:
            fits &= q["given_label"] == filters.given
        if filters.likely is not None:
            fits &= q["likely_label"] == filters.likely
        if filters.group is not None:
            at = self._place.get(filters.group)
            fits &= q["group"] == (-1 if at is None else self._group[at])
        return (at for at in np.flatnonzero(fits).tolist() if self._row[at] not in answers)

    def card(self, at: int) -> dict[str, Any]:
        """A question as the page shows it; labels are places among the label values, -1 is none."""
        q = self.queue
        given, likely = int(q["given_label"][at]), int(q["likely_label"][at])
        there = q["neighbor"][at] >= 0
        voting = q["neighbor_label"][at][there]
        votes = np.bincount(voting[voting >= 0], minlength=len(self.labels)).astype(np.int64)
        choices = sorted(range(len(votes)), key=lambda c: (c != likely, -votes[c], c != given, c))
        if len(choices) <= KEYS:
            choices.sort()  # a key stands for the same label all along
        elif given >= 0:
            choices = list(dict.fromkeys([*choices[: KEYS - 1], given, *choices]))
        near = slice(0, NEAREST)
        columns = (q[name][at][there][near].tolist() for name in NEIGHBORS)
        alike = [self._row[m] for m in self._members[self._group[at]] if m != at]
        return {
            "row": self._row[at],
            "given": given,
            "likely": likely,
            "choices": choices,
            "wrong": round(1.0 - float(q["label_quality"][at]), 4),
            "moved": int(q["moved"][at]),
            "random": bool(q["suspect_draw"][at] >= 0 or q["row_draw"][at] >= 0),
            "votes": votes.tolist(),
            "neighbors": [
                {"row": row, "distance": round(distance, 4), "label": label}
                for row, distance, label in zip(*columns, strict=True)
            ],
            "group": self._row[self._group[at]],
            "alike": [row for row in alike if row not in self.file.answers],
        }

    def card_of(self, row: int) -> dict[str, Any]:
        """The question of one row; `InputError` where it is not on the list."""
        with self._lock:
            return self.card(self._at(row))

    def _at(self, row: int) -> int:
        if row not in self._place:
            raise InputError(f"row {row} is not on this review's list; reload the page")
        return self._place[row]

    def answer(
        self, name: str, row: int, label: int | None, reviewer: str, with_group: bool
    ) -> bool:
        """Keep an answer, on the disk when this returns; False where it is kept already.

        label : place among the label values, None where the reviewer does not know

        Raises `InputError` where the row is not on the list, or there is no such label.
        """
        if label is not None and not 0 <= label < len(self.labels):
            raise InputError(f"label {label}: there are {len(self.labels)} labels; reload the page")
        if label is None and not self.optional:
            raise InputError(f"row {row}: a label is wanted of each row; leave it, or give one")
        with self._lock:  # the list may be another one from one moment to the next
            at = self._at(row)
            rows = [self._question(at)]
            if with_group:
                members = self._members[self._group[at]]
                rows += [
                    self._question(m, GROUP)
                    for m in members
                    if m != at and self._row[m] not in self.file.answers
                ]
            value = None if label is None else self.labels[label]
            kept = self.file.add(Answer.now(rows, value, reviewer, name))
            if kept:
                self._times.append(time.monotonic())
            return kept > 0

    def _question(self, at: int, drawn: str | None = None) -> Asked:
        q = self.queue
        why = "suspects" if q["suspect_draw"][at] >= 0 else "useful"
        why = "rows" if q["row_draw"][at] >= 0 else why
        suspect = bool(q["is_label_issue"][at])
        given = int(q["given_label"][at])
        if given < 0:
            return Asked(self._row[at], None, drawn or "wanted", suspect)
        return Asked(self._row[at], self.labels[given], drawn or why, suspect)

    def undo(self, name: str) -> dict[str, Any] | None:
        """Take an answer back, its whole group with it; the question again, None where there is
        no such answer."""
        with self._lock:
            undone = self.file.answers.answers.get(name)
            if undone and not self.optional and undone.rows[0].row not in self._place:
                return None  # more was asked for because of it
            answer = self.file.undo(name)
            if answer is None:
                return None
            at = self._place.get(answer.rows[0].row)
            return None if at is None else self.card(at)

    def answered(self) -> int:
        """Questions answered that stand; imported labels were no questions."""
        return sum(
            answer.rows[0].drawn != IMPORTED for answer in self.file.answers.answers.values()
        )

    def labeled(self, rows: list[int]) -> bool:
        """Whether the label of each row is known by now."""
        with self._lock:
            self.file.refresh()
            return all(self.file.answers.of_row(row).label is not None for row in rows)

    def left(self) -> int:
        """Questions that the budget still allows."""
        return self.budget - self.answered()

    def state(self, reviewer: str) -> dict[str, Any]:
        """Progress, pace, what the answers measure, and where reviewers disagree."""
        with self._lock:
            measured = self.measured().as_json()
            answers = self.file.answers
            mine = [a for a in answers.answers.values() if a.reviewer == reviewer]
            mine = [a for a in mine if a.rows[0].row in self._place]
            return {
                "answered": self.answered(),
                "budget": self.budget,
                "waiting": self.waiting,
                "per_minute": self._pace(),
                "last": mine[-1].id if mine else None,
                "measured": measured,
                "conflicts": [
                    {"row": one.row, "labels": one.labels, "listed": one.row in self._place}
                    for one in answers.rows()
                    if one.conflict
                ],
            }

    def measured(self) -> Measured:
        """What the answers, of other processes too, say of all labels."""
        self.file.refresh()
        return measure(self.queue, self.file.answers, self.labels, self.expected)

    def _pace(self) -> float | None:
        """Answers per minute lately; None before there are three."""
        if len(self._times) < 3:
            return None
        return 60.0 * (len(self._times) - 1) / max(1e-9, self._times[-1] - self._times[0])


def pairs(queue: Arrays) -> list[tuple[int, int, int]]:
    """(given, likely, rows on the list) of each pair of classes, most rows first."""
    columns = (queue[name].tolist() for name in ("given_label", "likely_label"))
    counts = Counter(zip(*columns, strict=True))
    return [(*pair, n) for pair, n in sorted(counts.items(), key=lambda one: (-one[1], one[0]))]
