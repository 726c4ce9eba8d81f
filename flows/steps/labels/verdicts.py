"""Verdicts on single labels of any number of classes: written row by row, counted, read again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from flows.engine.collectives.graph import PoolGraph
from flows.engine.collectives.rows import SourceRows, Table, over_rows
from flows.engine.collectives.sent import Facts, Sendings
from flows.engine.job import Job, Output
from flows.steps.graph.lookup import certain
from pipeline.arrays import Integers, added
from pipeline.decision.review import Verdict
from pipeline.methods import speculate_correct
from pipeline.methods.rules import Rule
from storage.arrays.groups import Arrays
from storage.runs.run import Run

_FINE = 1_000_000
"""Units of a label in which chances are added up, as whole numbers do in any order."""


@dataclass(frozen=True)
class Checked:
    """Suspect labels of a part."""

    issues: int
    wrong: int
    """Expected number of wrong labels, by their qualities, in units of one ``_FINE``-th."""
    contradicted: int
    """Labels that are not those predicted."""


@dataclass(frozen=True)
class LabelIssues:
    """Suspect labels in all."""

    n_label_issues: int
    n_wrong: float
    """Expected number of wrong labels, by their qualities."""
    n_contradicted: int
    """Labels that are not those predicted."""


Kernel = Callable[[SourceRows], Arrays]


def write_verdicts(
    job: Job,
    graph: PoolGraph,
    kernel: Kernel,
    of: Sequence[Sendings],
    table: Table,
    about: Mapping[str, Any],
) -> LabelIssues:
    """Write the group `labels` by what the kernel says of rows; returns how many are suspect."""
    judged = over_rows(job, graph, "labels", partial(verdicts, kernel), of=of, table=table)

    def finish(run: Run) -> Output:
        written, total = table.finish(run, graph.pool, dict(about)), added(judged.left(Checked))
        return Output(written, LabelIssues(total.issues, total.wrong / _FINE, total.contradicted))

    return job.result("verdicts", finish, LabelIssues)


def verdicts(kernel: Kernel, at: SourceRows) -> Facts:
    """Verdicts on some rows of the pool; labels that somebody checked are certain."""
    given, sure, columns = at.read("y"), certain(at.pool.run, at.rows), dict(kernel(at))
    for name in {"predicted_label", "likely_label"} & columns.keys():
        columns[name] = columns[name].astype(given.dtype)
        columns[name][sure] = given[sure]
    issue, quality = columns["is_label_issue"], columns["label_quality"]
    issue[sure], quality[sure] = False, 1.0
    wrong = np.rint(_FINE * (1.0 - quality.astype(np.float64)))
    contradicted = int((columns["predicted_label"] != given).sum())
    left = Checked(int(issue.sum()), int(wrong.sum()), contradicted)
    return Facts({"row": at.read("row"), "given_label": given, **columns}, left=left)


@dataclass(frozen=True)
class LabelVerdicts:
    """How the verdicts of a training on single labels are read."""

    rule: Rule | None = None
    """The rule of two classes; None for more classes, which are treated as by the plain vote."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the group `labels`."""
        of_all = "given_label", "label_quality", "is_label_issue"
        return of_all if self.rule is not None else (*of_all, "likely_label")

    def likely(self, verdicts: Arrays) -> Integers:
        """(row,) the likeliest class of some rows: of two classes, the other one if a label is
        suspect."""
        if self.rule is None:
            return verdicts["likely_label"]
        given = verdicts["given_label"]
        return np.where(verdicts["is_label_issue"], 1 - given, given)

    def by_votes(self, k: int) -> Verdict | None:
        """The rule as a function of the votes of k neighbors; None for the plain vote."""
        rule = self.rule
        return None if rule is None else lambda votes: rule.predict(votes[:, 1] / k)

    def rules(self) -> list[speculate_correct.Rule]:
        """The rule as a function of the voters' (sample, k) codes; none for the plain vote."""
        rule = self.rule
        return [] if rule is None else [lambda voter: rule.predict(np.mean(voter, axis=1))]
