"""Graph → label qualities of more than two classes, in two passes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flows.engine.collectives.graph import Around, PoolGraph, over_graph
from flows.engine.collectives.rows import SourceRows, Table, over_rows
from flows.engine.collectives.sent import Facts, Sendings
from flows.engine.job import Job, Output
from flows.steps.graph.anchors import sampled
from flows.steps.ingest.pool import certain
from flows.steps.ingest.transform import heard
from flows.steps.labels.classes import (
    ClassEstimates,
    VoteRule,
    neighbor_codes,
    read_correction,
    read_sample,
)
from flows.steps.labels.verdicts import Checked, LabelIssues
from pipeline.blocks.sampling import in_sample
from pipeline.decision.class_rule import decide, likeliest, share_of
from pipeline.decision.class_votes import ClassVotes, class_votes, vote_sizes
from pipeline.decision.quality import (
    FIT_ROWS,
    KEPT,
    SMOOTHED,
    Correction,
    TopClasses,
    Weights,
    chances,
    fit_weights,
    model_chances,
    reach_of,
    smoothed_feature,
    vote_features,
)
from pipeline.decision.suspects import first_pass, second_pass
from pipeline.decision.suspects import smoothed_features as features_of
from pipeline.streams import Stream
from storage.arrays.groups import Arrays
from storage.runs.run import Run

NEEDS = ("given_label", "neighbor", "neighbor_label")


def find_class_issues(
    job: Job, graph: PoolGraph, counted: Sendings, estimates: ClassEstimates, seed: int
) -> LabelIssues:
    """Write the group `labels`."""
    n_classes, n_rows = estimates.rule.n_classes, graph.pool.n_rows
    by_models, gives = None, {"code": f"({KEPT},)i2", "chance": f"({KEPT},)f4"}
    if digest := estimates.first.trees:
        hear = partial(chances_by_models, digest=digest)
        by_models = over_rows(job, graph, "model-chances", hear, requests=counted)
        gives["trees"] = f"({n_classes},)u1"
    tops = over_graph(
        *(job, graph, "first-pass", partial(top, n_classes=n_classes, first=estimates.first)),
        needs=NEEDS,
        known=by_models,
        gives=gives,
        reading=corrected,
    )
    relayed = over_rows(job, graph, "relay", None, of=[tops], requests=counted)
    smoothed = over_graph(
        *(job, graph, "smoothing"),
        partial(smooth, n_classes=n_classes, n_rows=n_rows, seed=seed),
        needs=(*NEEDS, "distance"),
        known=relayed,
    )
    fit = partial(_fit, n_classes=n_classes, digest=digest, counted=counted, smoothed=smoothed)
    second = job.result("weights", fit, Weights)
    judged = over_graph(
        *(job, graph, "second-pass"),
        partial(judge, rule=estimates.rule, second=second),
        needs=(*NEEDS, "distance"),
        known=relayed,
        gives={
            **dict.fromkeys(("predicted_label", "likely_label"), "i2"),
            **{"label_quality": "f4", "is_label_issue": "?", "given_share": "f4"},
        },
        reading=partial(corrected, rule=estimates.rule),
    )
    table = Table("labels", "class_labels", graph.pool.label_dtype().str)
    written = over_rows(job, graph, "labels", verdicts, of=[judged], table=table)

    def finish(run: Run) -> Output:
        made = table.finish(run, graph.pool, {"k": estimates.k})
        return Output(made, LabelIssues.of_parts(written.left(Checked)))

    return job.result("verdicts", finish, LabelIssues)


def corrected(run: Run, rule: VoteRule | None = None) -> dict[str, Any]:
    """The correction of label qualities; with a rule, the matrix that corrects its votes of one k,
    if these predict."""
    by: dict[str, Any] = {"by": read_correction(run)}
    if rule is None:
        return by
    return {**by, "matrix": rule.matrix(run) if rule.weighed is None else None}


def chances_by_models(at: SourceRows, digest: str) -> Arrays:
    """What models say of some rows."""
    trees = heard(digest, at.pool.run, model_chances, lambda: at.read("x"))
    assert trees is not None
    return {"trees": trees}


def votes_of(at: Around, n_classes: int) -> ClassVotes:
    near = neighbor_codes(at)
    votes = class_votes(near, at.of_row["given_label"], n_classes, vote_sizes(near.shape[1]))
    return replace(votes, trees=at.known["trees"][at.own]) if "trees" in at.known else votes


def top(at: Around, n_classes: int, first: Weights, by: Correction) -> Arrays:
    """The likeliest classes of some rows, for their neighbors: codes from 1, 0 where there are
    fewer than `KEPT`; and what models say, as the next pass wants to know that again."""
    votes = votes_of(at, n_classes)
    tops = first_pass(votes, by, first)
    missing = ((0, 0), (0, KEPT - tops.code.shape[1]))
    by_models = {} if votes.trees is None else {"trees": votes.trees}
    made = {"code": np.pad(tops.code + 1, missing), "chance": np.pad(tops.chance, missing)}
    return made | by_models


def tops_around(at: Around) -> TopClasses:
    """(row, rank, KEPT) what the first pass says of the neighbors; nothing in empty places."""
    code = at.of_neighbors("code", SMOOTHED).astype(np.int32) - 1
    return TopClasses(code, at.of_neighbors("chance", SMOOTHED))


def smooth(at: Around, n_classes: int, n_rows: int, seed: int) -> Facts:
    """The neighbors' average posterior of the sampled rows, and how far they are."""
    drawn = in_sample(at.row, n_rows, FIT_ROWS, seed, Stream.PARTITION)
    if not drawn.any():
        return Facts()
    some = at.take(drawn)
    code, distance = votes_of(some, n_classes).code, some.of_row["distance"]
    feature = smoothed_feature(code, tops_around(some), distance, n_classes)
    return Facts(drawn={"row": some.row, "feature": feature, "reach": reach_of(distance)})


def _fit(run: Run, n_classes: int, digest: str, counted: Sendings, smoothed: Sendings) -> Output:
    """Weights of the second pass."""
    by, sample, around = read_correction(run), counted.drawn(), smoothed.drawn()
    features_of_sample = partial(sampled, run, "partition", sample["row"])
    trees = heard(digest, run, model_chances, features_of_sample)
    votes = replace(read_sample(sample, n_classes)[2], trees=trees)
    features = np.concatenate([vote_features(votes, by), around["feature"]], axis=2)
    return Output([], fit_weights(features, votes, by, around["reach"]))


def judge(at: Around, rule: VoteRule, second: Weights, by: Correction, matrix: Any) -> Arrays:
    """Qualities and predictions of some rows."""
    votes, near = votes_of(at, rule.n_classes), neighbor_codes(at)
    distance = at.of_row["distance"]
    features = features_of(votes, by, tops_around(at), distance)
    suspects = second_pass(features, reach_of(distance), votes, by, second)
    if rule.weighed is None:
        predicted = decide(near, rule.n_classes, rule.k, matrix).predicted
    else:
        before = chances(features[:, :, :-1], votes.code, rule.weighed)
        predicted = likeliest(votes.code, before.chance)
    return {
        "predicted_label": predicted,
        "likely_label": suspects.likely_class,
        "label_quality": suspects.label_quality,
        "is_label_issue": suspects.is_label_issue,
        "given_share": share_of(near, rule.k, at.of_row["given_label"]),
    }


def verdicts(at: SourceRows) -> Facts:
    """Verdicts on some rows of the pool; labels that somebody checked are certain."""
    given, sure, columns = at.read("y"), certain(at.pool.run, at.rows), dict(at.columns)
    for name in ("predicted_label", "likely_label"):
        columns[name] = columns[name].astype(given.dtype)
        columns[name][sure] = given[sure]
    columns["is_label_issue"][sure], columns["label_quality"][sure] = False, 1.0
    left = Checked.of_rows(columns["is_label_issue"], columns["label_quality"])
    return Facts({"row": at.read("row"), "given_label": given, **columns}, left=left)
