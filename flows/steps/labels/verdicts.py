"""Counts → what label qualities of two classes take → verdicts on the training labels, in source
order; and how others read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from flows.engine.collectives.graph import Around, PoolGraph, over_graph
from flows.engine.collectives.rows import SourceRows, Table, over_rows
from flows.engine.collectives.sent import Facts, Sendings
from flows.engine.job import Job, Output
from flows.steps.graph.anchors import sampled
from flows.steps.ingest.pool import certain
from flows.steps.ingest.transform import heard
from flows.steps.labels.rates import RateEstimates
from pipeline.arrays import Bools, Float64, Floating, Integers
from pipeline.blocks.sampling import in_sample
from pipeline.decision.odds import (
    OddsWeights,
    WeighedVote,
    first_pass,
    fit_second,
    second_pass,
    smoothed_odds,
    tree_odds,
)
from pipeline.decision.quality import FIT_ROWS, SMOOTHED
from pipeline.decision.review import Verdict
from pipeline.methods import speculate_correct
from pipeline.methods.rules import Rule
from pipeline.streams import Stream
from storage.arrays.groups import Arrays
from storage.runs.run import Run


@dataclass(frozen=True)
class First:
    """What the first pass takes."""

    vote: WeighedVote
    grid: tuple[int, ...]
    """Sizes that rows are counted for."""

    def count(self, count: Integers) -> Integers:
        """(row, size) of the vote among counts (row, grid)."""
        return count[:, [self.grid.index(k) for k in self.vote.sizes]]

    def features(self, at: SourceRows) -> Float64:
        """(row, feature) what the vote weighs of some rows."""
        trees = heard(self.vote.trees, at.pool.run, tree_odds, lambda: at.read("x"))
        return self.vote.features(self.count(at.columns["count"]), trees)


@dataclass(frozen=True)
class LabelOdds:
    """What label qualities take besides counts."""

    first: First
    second: OddsWeights
    counted: Sendings
    smoothed: Sendings


def find_odds(
    job: Job, graph: PoolGraph, counted: Sendings, rates: RateEstimates, seed: int
) -> LabelOdds:
    """Let each row know what the first pass says of its neighbors."""
    first = First(rates.weighed, tuple(rates.k_curve.grid))
    kernel = partial(chance, first=first)
    relayed = over_rows(job, graph, "relay", kernel, of=[counted], requests=counted)
    smoothed = over_graph(
        *(job, graph, "smoothing", partial(smooth, n_rows=graph.pool.n_rows, seed=seed)),
        needs=("distance",),
        known=relayed,
        gives={"smoothed": "f4", "reach": "f4"},
    )
    fit = partial(_fit_second, counted, smoothed, first)
    second = job.result("weights", fit, OddsWeights)
    return LabelOdds(first, second, counted, smoothed)


def chance(at: SourceRows, first: First) -> Arrays:
    """What the first pass says of some rows: a byte each."""
    log_odds = first.vote.log_odds(first.features(at))
    return {"chance": first_pass(log_odds, at.read("y"), first.vote.assumed.correction())}


def smooth(at: Around, n_rows: int, seed: int) -> Facts:
    """What the neighbors of some rows say, and that of those in the sample."""
    near = at.of_neighbors("chance", SMOOTHED)
    smoothed, reach = smoothed_odds(near, at.of_row["distance"])
    columns: Arrays = {"row": at.row, "smoothed": smoothed, "reach": reach}
    drawn = np.flatnonzero(in_sample(at.row, n_rows, FIT_ROWS, seed, Stream.PARTITION))
    return Facts(columns, drawn={name: column[drawn] for name, column in columns.items()})


def _fit_second(counted: Sendings, smoothed: Sendings, first: First, run: Run) -> Output:
    """Weights of the second pass."""
    sample, around = counted.drawn(), smoothed.drawn()
    features = partial(sampled, run, "partition", sample["row"])
    trees = heard(first.vote.trees, run, tree_odds, features)
    weights = fit_second(
        first.vote.features(first.count(sample["count"]), trees),
        around["smoothed"],
        around["reach"],
        sample["given_label"],
        first.vote.assumed.correction(),
    )
    return Output([], weights)


_FINE = 1_000_000
"""Parts of a label in which chances are added up: whole numbers, in whatever order."""


@dataclass(frozen=True)
class Checked:
    """Suspect labels of a part."""

    issues: int
    wrong: int
    """Labels that are wrong, as their qualities have it, in ``_FINE`` parts."""

    @classmethod
    def of_rows(cls, is_label_issue: Bools, quality: Floating) -> Checked:
        wrong = np.rint(_FINE * (1.0 - quality.astype(np.float64)))
        return cls(int(is_label_issue.sum()), int(wrong.sum()))


@dataclass(frozen=True)
class LabelIssues:
    """Suspect labels in all."""

    n_label_issues: int
    n_wrong: float
    """Labels that are wrong, as their qualities have it."""

    @classmethod
    def of_parts(cls, parts: Sequence[Checked]) -> LabelIssues:
        return cls(sum(part.issues for part in parts), sum(part.wrong for part in parts) / _FINE)


class LabelVerdicts:
    """How the verdicts of a training on single labels are read, of more than two classes."""

    columns: ClassVar[tuple[str, ...]] = (
        *("given_label", "label_quality", "is_label_issue"),
        "likely_label",
    )
    """Of the group `labels`."""

    def likely(self, verdicts: Arrays) -> Integers:
        """(row,) the likeliest class of some rows."""
        return verdicts["likely_label"]

    def by_votes(self, k: int) -> Verdict | None:
        """The rule as a function of the votes of k neighbors; None: the plain vote stands for
        it."""
        return None

    def rules(self) -> list[speculate_correct.Rule]:
        """The rule as a function of voters, (sample, k) codes, where it is no plain vote."""
        return []


@dataclass(frozen=True)
class TwoVerdicts(LabelVerdicts):
    """The same of two classes: what is suspect is likelier the other one."""

    rule: Rule
    columns: ClassVar = LabelVerdicts.columns[:3]

    def likely(self, verdicts: Arrays) -> Integers:
        given = verdicts["given_label"]
        return np.where(verdicts["is_label_issue"], 1 - given, given)

    def by_votes(self, k: int) -> Verdict:
        return lambda votes: self.rule.predict(votes[:, 1] / k)

    def rules(self) -> list[speculate_correct.Rule]:
        return [lambda voter: self.rule.predict(np.mean(voter, axis=1))]


def find_label_issues(
    job: Job, graph: PoolGraph, rates: RateEstimates, odds: LabelOdds
) -> LabelIssues:
    """Write the group `labels`."""
    rule, k, table = rates.decision_rule, rates.k, Table("labels")
    kernel = partial(
        verdicts,
        k=k,
        rule=rule,
        first=odds.first,
        second=odds.second,
        weighed=rates.taken is not None,
    )
    of = [odds.counted, odds.smoothed]
    judged = over_rows(job, graph, "labels", kernel, of=of, table=table)

    def finish(run: Run) -> Output:
        written = table.finish(run, graph.pool, {"k": k, **asdict(rule)})
        return Output(written, LabelIssues.of_parts(judged.left(Checked)))

    return job.result("verdicts", finish, LabelIssues)


def verdicts(
    at: SourceRows, k: int, rule: Rule, first: First, second: OddsWeights, weighed: bool
) -> Facts:
    """Verdicts on some rows of the pool, predictions from their neighbors alone; `weighed`: by
    neighborhoods of all sizes."""
    count, given = at.columns["count"], at.read("y")
    around, reach = at.columns["smoothed"], at.columns["reach"]
    eta, vote, features = count[:, first.grid.index(k)] / k, first.vote, first.features(at)
    predicted = (vote.log_odds(features) >= 0).astype(np.int8) if weighed else rule.predict(eta)
    quality = second_pass(features, around, reach, given, vote.assumed.correction(), second)
    issue = quality < 0.5
    sure = certain(at.pool.run, at.rows)
    issue[sure], predicted[sure], quality[sure] = False, given[sure], 1.0
    columns = {
        "row": at.read("row"),
        "given_label": given,
        "predicted_label": predicted,
        "label_quality": quality.astype(np.float32),
        "is_label_issue": issue,
        "eta_corr": eta.astype(np.float32),
    }
    return Facts(columns, left=Checked.of_rows(issue, columns["label_quality"]))
