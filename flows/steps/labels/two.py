"""Labels of two classes: graph → counts, noise rates and threshold, and what label qualities take →
verdicts on the training labels, in source order."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cache, partial

import numpy as np
from scipy.special import expit

from flows.engine.collectives.graph import Around, Asks, PoolGraph, over_graph
from flows.engine.collectives.rows import SourceRows, Table, over_rows
from flows.engine.collectives.sent import Facts, Sendings
from flows.engine.job import Job, Output
from flows.engine.results import LabelValue
from flows.options.params import Method
from flows.steps.graph.anchors import anchor_lists, sampled
from flows.steps.graph.lookup import counts_as_given
from flows.steps.ingest.transform import TREES, heard, keep_forests
from flows.steps.labels.groups import Voted, find_wrong, group_of, read_wrong
from flows.steps.labels.verdicts import LabelIssues, write_verdicts
from pipeline.arrays import Float64, Int32, Integers
from pipeline.blocks.logits import can_learn
from pipeline.decision.choose_k import Choice, choose, squared_losses
from pipeline.decision.odds import (
    OddsWeights,
    WeighedVote,
    assumed,
    first_pass,
    fit_second,
    hear_models,
    judged_by_places,
    odds_around,
    own_odds,
    second_pass,
    sizes_among,
    smoothed_odds,
    tree_odds,
    weighed_vote,
    without_mistakes,
)
from pipeline.decision.quality import FIT_ROWS, SMOOTHED, reach_of
from pipeline.decision.tempering import Worth, worth
from pipeline.decision.threshold import (
    Decision,
    credible,
    predict,
    tempered,
    threshold,
    vote_table,
)
from pipeline.decision.votes import counts, extremes_with_self
from pipeline.decision.whose import Whose, of_two
from pipeline.knn.threads import Threads
from pipeline.methods.rknn import FoldScores
from pipeline.methods.rules import Rule, rule_of
from pipeline.noise.extrema import minmax
from pipeline.noise.groups import Whole
from pipeline.noise.rates import NoiseRates, clean_shares
from pipeline.noise.rates import given as known
from pipeline.noise.transition import of_rates, transition_matrix
from storage.arrays.groups import Arrays, read_array
from storage.runs.run import Run


@dataclass(frozen=True)
class OwnRates:
    """k and the rates, chosen a rule's own way, and the evidence for the report."""

    k: int
    rates: NoiseRates
    """Their method is the rule's name."""
    folds: FoldScores | None = None


@dataclass(frozen=True)
class Counted:
    """Counts of one block, as far as rates and k need them; by size of the grid."""

    losses: list[int]
    extremes: list[list[int]]
    votes: list[list[list[int]]]


@dataclass(frozen=True)
class RateEstimates:
    """k, the noise rates by every method tried, and the rule."""

    noise: str
    """Method of the rates that count."""
    k: int
    """Neighbors whose labels are averaged."""
    k_curve: Choice
    estimates: dict[str, NoiseRates]
    folds: FoldScores | None
    decision_rule: Rule
    decision: Decision
    weighed: WeighedVote
    """The first pass of label qualities."""
    worth: Worth | None
    """What it is worth for predictions; None where the vote of one k is asked for."""

    @property
    def taken(self) -> WeighedVote | None:
        """The vote that predicts; None: that of one k."""
        return self.weighed if self.worth is not None and self.worth.taken else None

    @property
    def n_neighbors(self) -> int:
        """Neighbors that the prediction of a row takes."""
        return self.k if self.taken is None else self.taken.sizes[-1]

    def of_sizes(self, count: Integers) -> Integers:
        """(row, size) of the first pass among counts (row, grid)."""
        return count[:, [self.k_curve.grid.index(k) for k in self.weighed.sizes]]

    def features(self, at: SourceRows) -> Float64:
        """(row, feature) what the first pass weighs of some rows."""
        trees = heard(self.weighed.trees, at.pool.run, tree_odds, lambda: at.read("x"))
        return self.weighed.features(self.of_sizes(at.columns["count"]), trees)

    @property
    def rates(self) -> NoiseRates:
        return self.estimates[self.noise]

    @property
    def crossfitted(self) -> NoiseRates:
        """The rates that are no plain extremes."""
        return self.estimates.get("given") or self.estimates["crossfit"]

    def whole(self, run: Run, classes: list[LabelValue], counts: list[int]) -> Whole:
        """What is known of all rows together; `counts` are the rows given each class."""
        rates, given = self.crossfitted, counts_as_given(run, counts)[1] / sum(counts)
        shares = np.array(clean_shares(rates.p0, rates.p1, given))
        error, support = np.array(rates.standard_errors), [rates.support] * 2
        return Whole(classes, of_rates(rates).matrix, shares, error, support)

    def voted(self, job: Job, graph: PoolGraph) -> Voted:
        """What the neighbors of all rows say: the counts that the verdicts hold."""
        rates = self.crossfitted
        at_least = 0.5 if rates.doubtful else threshold(rates.p0, rates.p1)
        kernel = partial(counted_votes, k=self.k, at_least=at_least)
        return Voted([], kernel, self.k + 1)


def counted_votes(at: SourceRows, k: int, at_least: float) -> tuple[Integers, Integers]:
    """The likelier class of some rows, 1 where its share of the k neighbors is large enough, and
    how many of them are given it."""
    share = read_array(at.pool.run.group("labels"), "eta_corr", at.rows).astype(np.float64)
    ones = np.rint(share * k).astype(np.int64)
    likely = predict(ones / k, at_least)
    return likely, np.where(likely == 1, ones, k - ones)


def count_labels(job: Job, graph: PoolGraph, grid: tuple[int, ...]) -> Sendings:
    """Counts of label 1 for each k of a grid and the reach of each row, sent to source order; a
    sample of them; and which rows each block has as neighbors."""
    return over_graph(
        *(job, graph, "regression", partial(count, grid=grid)),
        needs=("given_label", "neighbor_label", "distance"),
        gives={"count": f"({len(grid)},)i2", "reach": "f4"},
        asks=Asks(),
        portion=None,
    )


def count(at: Around, grid: tuple[int, ...]) -> Facts:
    """Counts of one block, and for each k of the grid what choosing among them takes."""
    label, given = at.of_row["neighbor_label"], at.of_row["given_label"]
    ones, reach, drawn = counts(label, grid), reach_of(at.of_row["distance"]), at.drawn(FIT_ROWS)
    columns = {"row": at.row, "given_label": given, "count": ones, "reach": reach}
    return Facts(
        {"count": ones, "reach": reach},
        drawn={name: column[drawn] for name, column in columns.items()},
        left=Counted(
            squared_losses(ones, given, grid).tolist(),
            extremes_with_self(given, label, grid).tolist(),
            [vote_table(c, given, k).tolist() for c, k in zip(ones.T, grid, strict=True)],
        ),
    )


def estimate_rates(
    job: Job,
    graph: PoolGraph,
    counted: Sendings,
    grid: tuple[int, ...],
    params: Method,
    own: OwnRates | None = None,
) -> RateEstimates:
    """k, the estimates of the rates, and the rule.

    own : k and rates of the rule's own pass, if it has one
    """
    filled, threads = counted.left(Counted), Threads(job.machine().threads)
    pool = graph.pool

    def estimate(run: Run) -> Output:
        losses = np.sum([counts.losses for counts in filled], axis=0)
        choice = choose(losses, pool.n_rows, grid)
        k = own.k if own else params.k or choice.k
        at = grid.index(k)
        extremes = np.concatenate([np.asarray(counts.extremes)[:, at] for counts in filled])
        estimates = {"minmax": minmax(extremes / k, k, pool.n_rows)}
        chosen: str = params.noise
        if params.p0 is not None and params.p1 is not None:
            chosen, estimates["given"] = "given", known(params.p0, params.p1)
        elif chosen == "crossfit":
            read = transition_matrix(**anchor_lists(run, graph), n_classes=2, threads=threads)
            assert read.rates is not None
            estimates["crossfit"] = read.rates
        if own:
            chosen, estimates[own.rates.method] = own.rates.method, own.rates
        sample, x, alone = counted.drawn(), None, not graph.mates
        count, given = sample["count"], sample["given_label"]
        if can_learn(pool.n_features):
            x = sampled(run, "partition", sample["row"])
            if alone:
                estimates[chosen] = judged_by_places(estimates[chosen], count, grid, given, x)
        rates = estimates[chosen]
        votes = [np.sum([counts.votes[i] for counts in filled], axis=0) for i in range(len(grid))]
        decided_by = credible(rates, [votes[at]])
        decision = tempered(decided_by, votes[at], params.objective)
        rule = rule_of(decided_by, decision)
        sizes = sizes_among(grid)
        of_sizes = count[:, [grid.index(size) for size in sizes]]
        reach = sample["reach"]
        weighed = weighed_vote(
            of_sizes, sizes, given, assumed(rates, votes), reach if alone else None
        )
        features, forests, worth_it = weighed.features(of_sizes), None, None
        if x is not None:
            weighed, features, forests = hear_models(
                weighed, of_sizes, given, x, threads, alone, reach
            )
        if chosen == "crossfit" and params.k is None and params.objective == "accuracy":
            predicted = (weighed.log_odds(features, reach) >= 0).astype(np.int8)
            matrix = of_rates(known(rule.p0, rule.p1)).matrix
            of_one_k = rule.predict(count[:, at] / k)
            worth_it = worth(of_one_k, predicted, given, matrix, rates.risk(given.mean()))
        return Output(
            [] if forests is None else keep_forests(run, TREES, forests),
            RateEstimates(
                noise=chosen,
                k=k,
                k_curve=choice,
                estimates=estimates,
                folds=own.folds if own else None,
                decision_rule=rule,
                decision=decision,
                weighed=weighed,
                worth=worth_it,
            ),
        )

    return job.result("rates", estimate, RateEstimates)


def find_label_issues(
    job: Job, graph: PoolGraph, counted: Sendings, rates: RateEstimates
) -> LabelIssues:
    """Write the group `labels`, by what the first pass says of each row's neighbors."""
    kernel = partial(chance, rates=rates)
    relayed = over_rows(job, graph, "relay", kernel, of=[counted], requests=counted)
    smoothed = over_graph(
        *(job, graph, "smoothing", smooth),
        needs=("distance",),
        known=relayed,
        gives={"smoothed": "f4"},
    )
    fit = partial(_fit_second, graph, counted, smoothed, rates)
    judge = partial(verdicts, rates=rates, second=job.result("weights", fit, OddsWeights))
    about = {"k": rates.k, **asdict(rates.decision_rule)}
    return write_verdicts(job, graph, judge, [counted, smoothed], Table("labels"), about)


def chance(at: SourceRows, rates: RateEstimates) -> Arrays:
    """What the first pass says of some rows: a byte each."""
    log_odds = rates.weighed.log_odds(rates.features(at), at.columns["reach"])
    return {"chance": first_pass(log_odds, at.read("y"), rates.weighed.assumed.correction())}


def smooth(at: Around) -> Facts:
    """What the neighbors of some rows say, and that of those in the sample."""
    near = at.of_neighbors("chance", SMOOTHED)
    columns: Arrays = {"row": at.row, "smoothed": smoothed_odds(near, at.of_row["distance"])}
    drawn = at.drawn(FIT_ROWS)
    return Facts(columns, drawn={name: column[drawn] for name, column in columns.items()})


def _fit_second(
    graph: PoolGraph, counted: Sendings, smoothed: Sendings, rates: RateEstimates, run: Run
) -> Output:
    sample, around, vote = counted.drawn(), smoothed.drawn(), rates.weighed
    x = cache(partial(sampled, run, "partition", sample["row"]))
    trees = heard(vote.trees, run, tree_odds, x)
    features = vote.features(rates.of_sizes(sample["count"]), trees)
    near, given = (features, around["smoothed"], sample["reach"]), sample["given_label"]
    by = vote.assumed.correction()
    weights = fit_second(*near, given, by)

    def chances() -> tuple[Float64, Int32]:
        return of_two(expit(odds_around(*near, weights)))

    written, places = find_wrong(run, graph, sample["row"], x, given, by.matrix, chances)
    return Output(written, replace(weights, places=places))


def verdicts(at: SourceRows, rates: RateEstimates, second: OddsWeights) -> Arrays:
    """Verdicts on some rows of the pool, predictions from their neighbors alone."""
    given, vote, features = at.read("y"), rates.weighed, rates.features(at)
    eta = at.columns["count"][:, rates.k_curve.grid.index(rates.k)] / rates.k
    predicted = (
        rates.decision_rule.predict(eta)
        if rates.taken is None
        else (vote.log_odds(features, at.columns["reach"]) >= 0).astype(np.int8)
    )
    by, places = vote.assumed.correction(), second.places
    around = odds_around(features, at.columns["smoothed"], at.columns["reach"], second)
    wrong, whose = read_wrong(at.pool.run, places, by.matrix), None
    if wrong is not None:
        whose = Whose(group_of(at, places), wrong, places)
        around = without_mistakes(around, whose)
    own = own_odds(given, by, whose)
    quality = second_pass(around, given, own, second)
    return {
        "predicted_label": predicted,
        "label_quality": quality.astype(np.float32),
        "is_label_issue": quality < 0.5,
        "eta_corr": eta.astype(np.float32),
    }
