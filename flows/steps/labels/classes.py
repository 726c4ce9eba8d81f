"""Labels of more than two classes: graph → k, transition matrix and decision rule, and label
qualities, in two passes → verdicts on the training labels, in source order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import attrgetter
from typing import Any

import numpy as np

from flows.engine.collectives.graph import Around, Asks, PoolGraph, over_graph
from flows.engine.collectives.rows import SourceRows, Table, over_rows
from flows.engine.collectives.sent import Facts, Sendings
from flows.engine.job import Job, Output
from flows.engine.results import LabelValue
from flows.options.params import Method
from flows.steps.graph.anchors import anchor_lists, sampled
from flows.steps.ingest.transform import TREES, heard, keep_forests
from flows.steps.labels.groups import Voted, find_wrong, group_of, has_groups, read_wrong
from flows.steps.labels.verdicts import LabelIssues, write_verdicts
from pipeline.arrays import Float32, Float64, Int32, Int64, Integers, UInt8
from pipeline.blocks.logits import can_learn
from pipeline.decision.choose_k import Choice, choose
from pipeline.decision.class_rule import (
    Decided,
    decide,
    decide_weighed,
    likeliest,
    share_of,
    temper,
)
from pipeline.decision.class_votes import (
    SIZES,
    ClassVotes,
    class_losses,
    class_votes,
    contradicted,
    vote_sizes,
)
from pipeline.decision.quality import (
    FIT_ROWS,
    KEPT,
    SMOOTHED,
    Correction,
    TopClasses,
    Weights,
    chances,
    correction,
    fit_first,
    fit_weights,
    hear_models,
    model_chances,
    reach_of,
    smoothed_feature,
    vote_features,
)
from pipeline.decision.suspects import first_pass, second_pass
from pipeline.decision.suspects import smoothed_features as features_of
from pipeline.decision.tempering import (
    MatrixDecision,
    Worth,
    assumed,
    believed,
    softened,
    worth,
)
from pipeline.decision.whose import Place, Whose
from pipeline.knn.lists import ABSENT
from pipeline.knn.threads import Threads
from pipeline.noise.group_cells import LEVELS, level_of
from pipeline.noise.groups import Whole
from pipeline.noise.rates import Support
from pipeline.noise.regions import Regions
from pipeline.noise.transition import transition_matrix
from storage.arrays.groups import Arrays, read_array, read_group
from storage.runs.run import Run

NEEDS = ("given_label", "neighbor", "neighbor_label", "distance")


@dataclass(frozen=True)
class VoteRule:
    """How a row is predicted by the labels of its neighbors."""

    k: int
    n_classes: int
    decision: MatrixDecision
    weighed: Weights | None
    """Weights of neighborhoods of all sizes, which predict; None: the vote of one k."""

    @property
    def n_neighbors(self) -> int:
        if self.weighed is None:
            return self.k
        others = bool(self.weighed.trees) + (self.weighed.reach is not None)
        n_sizes = len(self.weighed.weight) - others
        return max(self.k, SIZES[n_sizes - 1])

    def matrix(self, run: Run) -> Float64 | None:
        """The matrix by which the vote of one k is corrected; None for the plain vote."""
        part = self.decision.part
        return None if part == 0 else read_array(run.group("transition"), "decision")

    def decide(
        self, run: Run, near: Integers, distance: Float32, features: Callable[[], Float32]
    ) -> Decided:
        """Predictions of new rows by labels and distances (row, rank) of the nearest in the pool of
        a run, and by the rows' features where models are heard."""
        if self.weighed is None:
            return decide(near, self.n_classes, self.k, self.matrix(run))
        trees = heard(self.weighed.trees, run, model_chances, features, are_new=True)
        return decide_weighed(near, read_correction(run), self.weighed, trees, reach_of(distance))


@dataclass(frozen=True)
class ClassEstimates:
    """k, and what the group `transition` does not hold of the matrix."""

    k: int
    k_curve: Choice
    support: Support
    """Verdict on the class worst off."""
    reason: str
    class_support: list[Support]
    prior: list[float]
    """Shares of the clean classes."""
    regions: list[Regions | None]
    """For each class, the test whether its mistakes depend on the features."""
    decision: MatrixDecision
    first: Weights
    """Weights of the first pass of label qualities."""
    worth: Worth | None
    """What they are worth for predictions; None where the vote of one k is asked for."""

    @property
    def rule(self) -> VoteRule:
        taken = self.worth is not None and self.worth.taken
        return VoteRule(self.k, len(self.prior), self.decision, self.first if taken else None)

    @property
    def n_neighbors(self) -> int:
        """Neighbors that the prediction of a row takes."""
        return self.rule.n_neighbors

    def whole(self, run: Run, classes: list[LabelValue], counts: list[int]) -> Whole:
        """What is known of all rows together."""
        group = run.group("transition")
        matrix, low, high = (read_array(group, name) for name in ("matrix", "low", "high"))
        # by the errors of class alone, .89 of the weak intervals of groups' shares would hold
        error = np.diag(high - low) / (2.0 * 1.96)
        return Whole(classes, matrix, np.array(self.prior), error, self.class_support)

    def voted(self, job: Job, graph: PoolGraph) -> Voted:
        """What the neighbors of all rows say, in a pass of its own."""
        votes = over_graph(
            *(job, graph, "group-votes", partial(vote, n_classes=len(self.prior), k=self.k)),
            needs=("neighbor", "neighbor_label"),
            gives={"likely": "i2", "level": "i1"},
            reading=partial(_matrix, rule=self.rule),
        )
        return Voted([votes], _votes, LEVELS)


def _votes(at: SourceRows) -> tuple[Integers, Integers]:
    return at.columns["likely"], at.columns["level"]


def _matrix(run: Run, rule: VoteRule) -> dict[str, Any]:
    return {"matrix": rule.matrix(run)}


def vote(at: Around, n_classes: int, k: int, matrix: Any) -> Arrays:
    """The likeliest class of some rows by their neighbors, and how sure they are."""
    decided = decide(neighbor_codes(at), n_classes, k, matrix)
    return {"likely": decided.predicted, "level": level_of(decided.chance.max(axis=1))}


def labels_of(neighbor: Int64, label: Integers) -> Int32:
    """Neighbors' labels as codes, -1 in empty places whatever the type of the stored ones."""
    return np.where(neighbor == ABSENT, -1, label.astype(np.int32)).astype(np.int32)


def count_classes(job: Job, graph: PoolGraph, n_classes: int, grid: tuple[int, ...]) -> Sendings:
    """Losses for each k of a grid; a sample of rows; and which rows each block has as neighbors."""
    return over_graph(
        *(job, graph, "regression", partial(count, n_classes=n_classes, grid=grid)),
        needs=NEEDS,
        asks=Asks(own=True),
        portion=None,
    )


def count(at: Around, n_classes: int, grid: tuple[int, ...]) -> Facts:
    """Losses of one block, and its sampled rows."""
    given = at.of_row["given_label"]
    losses = class_losses(neighbor_codes(at), given, n_classes, grid)
    drawn = at.drawn(FIT_ROWS)
    sample = {name: at.of_row[name][drawn] for name in ("given_label", "neighbor_label")}
    sample["reach"] = reach_of(at.of_row["distance"][drawn])
    return Facts(drawn={"row": at.row[drawn], **sample}, left=losses.tolist())


def neighbor_codes(at: Around) -> Int32:
    """(row, rank) neighbors' labels as codes, -1 in empty places."""
    return labels_of(at.of_row["neighbor"], at.of_row["neighbor_label"])


def read_sample(
    sample: Arrays, n_classes: int, trees: UInt8 | None = None
) -> tuple[Integers, Integers, ClassVotes]:
    """Labels of the sampled rows' neighbors (row, rank), their own, and their votes, beside what
    models say (row, class); rows ascending."""
    near, own, reach = sample["neighbor_label"], sample["given_label"], sample["reach"]
    return near, own, class_votes(near, own, n_classes, vote_sizes(near.shape[1]), trees, reach)


def estimate_classes(
    job: Job,
    graph: PoolGraph,
    given: list[int],
    counted: Sendings,
    grid: tuple[int, ...],
    params: Method,
) -> ClassEstimates:
    """k, the transition matrix, how far it corrects votes; writes the group `transition`.

    given : rows given each class
    """
    pool = graph.pool

    def estimate(run: Run) -> Output:
        n_classes, counts = len(given), np.asarray(given)
        losses = np.sum(counted.left(list[int]), axis=0)
        choice = choose(losses, pool.n_rows, grid)
        k = params.k or choice.k
        lists, machine = anchor_lists(run, graph), Threads(job.machine().threads)
        lists["label"] = lists["label"].astype(np.int64)
        fitted = transition_matrix(**lists, n_classes=n_classes, threads=machine)
        sample = counted.drawn()
        near, own, votes = read_sample(sample, n_classes)
        matrix = believed(fitted, counts)
        errors = fitted.standard_errors
        decision = temper(near, own, k, matrix, counts, errors)
        assert fitted.interval is not None
        by = correction(assumed(fitted, counts, contradicted(votes)), counts)
        prior = counts / counts.sum() if fitted.prior is None else fitted.prior
        reach = None if graph.mates else votes.reach
        first = fit_first(replace(votes, reach=reach), by, machine)
        says, forests, worth_it = None, None, None
        if can_learn(pool.n_features) and not graph.mates.differ:  # models learn what mates share
            x = sampled(run, "partition", sample["row"])
            first, says, forests = hear_models(first, near, own, by, x, machine, reach)
        if params.k is None:
            labeled = (own >= 0) & (own < n_classes)
            some, labels = near[labeled], own[labeled]
            trees = None if says is None else says[labeled]
            far = sample["reach"][labeled]
            part = None if decision.part == 0 else softened(matrix, counts, decision.part)
            worth_it = worth(
                decide(some, n_classes, k, part).predicted,
                decide_weighed(some, by, first, trees, far).predicted,
                *(labels, matrix, errors),
            )
        transition = {
            "matrix": fitted.matrix,
            "low": fitted.interval[:, :, 0],
            "high": fitted.interval[:, :, 1],
            "decision": softened(matrix, counts, decision.part),
        }
        written = run.write("transition", "transition", transition)
        written += run.write("correction", "correction", vars(by))
        written += [] if forests is None else keep_forests(run, TREES, forests)
        return Output(
            written,
            ClassEstimates(
                k=k,
                k_curve=choice,
                support=fitted.support,
                reason=fitted.reason,
                class_support=list(fitted.class_support),
                prior=prior.tolist(),
                regions=[None if test is None else test.to_json() for test in fitted.regions],
                decision=decision,
                first=first,
                worth=worth_it,
            ),
        )

    return job.result("rates", estimate, ClassEstimates)


def read_correction(run: Run) -> Correction:
    return Correction(**read_group(run.store, "correction"))


def find_class_issues(
    job: Job, graph: PoolGraph, counted: Sendings, estimates: ClassEstimates
) -> LabelIssues:
    """Write the group `labels`."""
    n_classes = estimates.rule.n_classes
    models, gives = None, {"code": f"({KEPT},)i2", "chance": f"({KEPT},)f4"}
    if digest := estimates.first.trees:
        hear = partial(chances_by_models, digest=digest)
        models = over_rows(job, graph, "model-chances", hear, requests=counted)
        gives["trees"] = f"({n_classes},)u1"
    tops = over_graph(
        *(job, graph, "first-pass", partial(top, n_classes=n_classes, first=estimates.first)),
        needs=NEEDS,
        known=models,
        gives=gives,
        reading=corrected,
    )
    relay = partial(with_group, places=()) if has_groups(job.run) else None
    relayed = over_rows(job, graph, "relay", relay, of=[tops], requests=counted)
    smoothed = over_graph(
        *(job, graph, "smoothing", partial(smooth, n_classes=n_classes)),
        needs=NEEDS,
        known=relayed,
    )
    fit = partial(_fit, job, graph, n_classes, digest, counted, smoothed)
    second = job.result("weights", fit, Weights)
    if second.places:
        relay = partial(with_group, places=second.places)
        relayed = over_rows(job, graph, "relay-places", relay, of=[tops], requests=counted)
    passed = over_graph(
        *(job, graph, "second-pass"),
        partial(judge, rule=estimates.rule, second=second),
        needs=NEEDS,
        known=relayed,
        gives={
            **dict.fromkeys(("predicted_label", "likely_label"), "i2"),
            **{"label_quality": "f4", "is_label_issue": "?", "given_share": "f4"},
        },
        reading=partial(corrected, rule=estimates.rule, places=second.places),
    )
    table = Table("labels", "class_labels", graph.pool.label_dtype().str)
    return write_verdicts(job, graph, attrgetter("columns"), [passed], table, {"k": estimates.k})


def corrected(
    run: Run, rule: VoteRule | None = None, places: Sequence[Place] = ()
) -> dict[str, Any]:
    """The correction of label qualities; with a rule, the matrix that corrects its votes of one k,
    if these predict, and how often groups, or places, are wrong."""
    by = read_correction(run)
    if rule is None:
        return {"by": by}
    matrix = rule.matrix(run) if rule.weighed is None else None
    return {"by": by, "matrix": matrix, "wrong": read_wrong(run, places, by.matrix)}


def chances_by_models(at: SourceRows, digest: str) -> Arrays:
    trees = heard(digest, at.pool.run, model_chances, lambda: at.read("x"))
    assert trees is not None
    return {"trees": trees}


def votes_of(at: Around, n_classes: int) -> ClassVotes:
    near, trees, reach = neighbor_codes(at), by_models(at), reach_of(at.of_row["distance"])
    sizes = vote_sizes(near.shape[1])
    return class_votes(near, at.of_row["given_label"], n_classes, sizes, trees, reach)


def by_models(at: Around) -> UInt8 | None:
    """(row, class) what models say of some rows; None where none are heard."""
    return at.known["trees"][at.own] if "trees" in at.known else None


def top(at: Around, n_classes: int, first: Weights, by: Correction) -> Arrays:
    """The likeliest classes of some rows, for their neighbors: codes from 1, 0 where there are
    fewer than `KEPT`; and what models say, as the next pass wants to know that again."""
    tops, trees = first_pass(votes_of(at, n_classes), by, first), by_models(at)
    missing = ((0, 0), (0, KEPT - tops.code.shape[1]))
    made = {"code": np.pad(tops.code + 1, missing), "chance": np.pad(tops.chance, missing)}
    return made if trees is None else {**made, "trees": trees}


def tops_around(at: Around) -> TopClasses:
    """(row, rank, KEPT) what the first pass says of the neighbors; nothing in empty places."""
    code = at.of_neighbors("code", SMOOTHED).astype(np.int32) - 1
    return TopClasses(code, at.of_neighbors("chance", SMOOTHED))


def smooth(at: Around, n_classes: int) -> Facts:
    """The neighbors' average posterior of the sampled rows."""
    drawn = at.drawn(FIT_ROWS)
    if not drawn.any():
        return Facts()
    some = at.take(drawn)
    code, distance = votes_of(some, n_classes).code, some.of_row["distance"]
    feature = smoothed_feature(code, tops_around(some), distance, n_classes)
    return Facts(drawn={"row": some.row, "feature": feature})


def _fit(
    job: Job,
    graph: PoolGraph,
    n_classes: int,
    digest: str,
    counted: Sendings,
    smoothed: Sendings,
    run: Run,
) -> Output:
    by, sample, around = read_correction(run), counted.drawn(), smoothed.drawn()
    x = cache(partial(sampled, run, "partition", sample["row"]))
    trees = heard(digest, run, model_chances, x)
    votes = read_sample(sample, n_classes, trees)[2]
    features = np.concatenate([vote_features(votes, by), around["feature"]], axis=2)
    weights = fit_weights(features, votes, by, Threads(job.machine().threads), smoothed=True)

    def before() -> tuple[Float64, Int32]:
        return chances(features, votes, weights).chance, votes.code

    known = sample["row"], x, sample["given_label"], by.matrix, before
    written, places = find_wrong(run, graph, *known)
    return Output(written, replace(weights, places=places))


def with_group(at: SourceRows, places: Sequence[Place]) -> Arrays:
    """What is known of some rows, and whose labels they have, or in which place they are."""
    return {**at.columns, "group": group_of(at, places).astype(np.int16)}


def judge(
    at: Around,
    rule: VoteRule,
    second: Weights,
    by: Correction,
    matrix: Any,
    wrong: Float64 | None,
) -> Arrays:
    """Qualities and predictions of some rows; ``wrong``: how often each group is."""
    votes, near = votes_of(at, rule.n_classes), neighbor_codes(at)
    features = features_of(votes, by, tops_around(at), at.of_row["distance"])
    whose = None
    if wrong is not None:
        whose = Whose(at.known["group"][at.own], wrong, second.places)
    suspects = second_pass(features, votes, by, second, whose)
    if rule.weighed is None:
        predicted = decide(near, rule.n_classes, rule.k, matrix).predicted
    else:
        before = chances(features[:, :, :-1], votes, rule.weighed)
        predicted = likeliest(votes.code, before.chance)
    return {
        "predicted_label": predicted,
        "likely_label": suspects.likely_class,
        "label_quality": suspects.label_quality,
        "is_label_issue": suspects.is_label_issue,
        "given_share": share_of(near, rule.k, at.of_row["given_label"]),
    }
