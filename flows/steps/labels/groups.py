"""Verdicts and votes → noise rates by whose label it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.engine.collectives import (
    Around,
    Facts,
    PoolGraph,
    Sendings,
    SourceRows,
    over_graph,
    over_rows,
)
from flows.engine.job import Job, Output
from flows.engine.results import LabelValue, Result
from flows.steps.graph.lookup import pick
from flows.steps.ingest.pool import certain
from flows.steps.labels.classes import ClassEstimates, decision_matrix, neighbor_codes
from flows.steps.labels.rates import RateEstimates
from pipeline.decision.class_rule import decide
from pipeline.decision.tempering import MatrixDecision
from pipeline.decision.threshold import predict, threshold
from pipeline.noise.group_cells import (
    LEVELS,
    NEAREST,
    GroupCells,
    Layout,
    apart,
    level_of,
    together,
)
from pipeline.noise.groups import Groups, group_rates
from storage.arrays.groups import Arrays, array, read_array
from storage.runs.pool import Pool
from storage.runs.run import Run

ANCHORS = 2000
"""Rows whose neighbors tell whether groups live apart."""


@dataclass(frozen=True)
class Grouped(Result):
    """The rates of all groups."""

    groups: Groups


def find_groups(
    job: Job,
    graph: PoolGraph,
    classes: list[LabelValue],
    counts: list[int],
    estimated: RateEstimates | ClassEstimates,
) -> Groups:
    """How often each group's labels are wrong; one pass over the pool, no new distances.

    classes, counts : labels by code, and the rows given each
    """
    pool, votes = graph.pool, []
    about: dict[str, Any] = job.run.group(pool.path).attrs.asdict()
    values, column = about["group_values"], about["group_name"]
    at, levels = 0.0, LEVELS
    if isinstance(estimated, RateEstimates):
        rates = estimated.crossfitted
        at, levels = threshold(rates.p0, rates.p1), estimated.k + 1
    else:
        votes = [find_votes(job, graph, len(classes), estimated)]
    layout = Layout(len(values), len(classes), levels)
    counted = over_rows(
        *(job, graph, "group-counts", partial(count, layout=layout, threshold=at)), of=votes
    )

    def estimate(run: Run) -> Output:
        near = _neighbors_groups(run, pool)
        cells = together(GroupCells(**part) for part in counted.drawn_by_part())
        whole = estimated.whole(run, classes, counts)
        whole = replace(whole, apart=apart(near[:, 0], near[:, 1:]))
        return Output([], Grouped(group_rates(cells, layout, whole, column, values)))

    return Grouped.of(job.once("groups", estimate)).groups


def _neighbors_groups(run: Run, pool: Pool) -> npt.NDArray[np.int16]:
    """(row, 1 + neighbor) groups of some anchors, evenly spaced, and of their nearest rows."""
    n_anchors = array(run.group("anchors"), "neighbor").shape[0]
    places = np.linspace(0, n_anchors - 1, min(n_anchors, ANCHORS)).astype(np.int64)
    lists = pick(run, "anchors", "neighbor", places)[:, : NEAREST + 1]
    return pick(run, pool.path, "group", lists.ravel()).reshape(lists.shape)


def find_votes(job: Job, graph: PoolGraph, n_classes: int, estimates: ClassEstimates) -> Sendings:
    """What the neighbors of all rows of more than two classes say."""
    return over_graph(
        *(job, graph, "group-votes", partial(vote, n_classes=n_classes, k=estimates.k)),
        needs=("neighbor", "neighbor_label"),
        gives={"likely": "i2", "level": "i1"},
        reading=partial(_matrix, decision=estimates.decision),
    )


def _matrix(run: Run, decision: MatrixDecision) -> dict[str, Any]:
    return {"matrix": decision_matrix(run, decision)}


def vote(at: Around, n_classes: int, k: int, matrix: Any) -> Arrays:
    """The likeliest class of some rows by their neighbors, and how sure they are."""
    decided = decide(neighbor_codes(at), n_classes, k, matrix)
    return {"likely": decided.predicted, "level": level_of(decided.chance.max(axis=1))}


def count(at: SourceRows, layout: Layout, threshold: float) -> Facts:
    """Count some rows by group, class and level.

    threshold : of two classes, the share of neighbors given 1 that divides them
    """
    run, span = at.pool.run, slice(at.rows.start, at.rows.stop)
    labels = run.group("labels")
    if at.columns:
        likely, level = at.columns["likely"], at.columns["level"]
    else:
        k = layout.n_levels - 1
        share = read_array(labels, "eta_corr", span).astype(np.float64)
        ones = np.rint(share * k).astype(np.int64)
        likely = predict(ones / k, threshold)
        level = np.where(likely == 1, ones, k - ones)
    cells = layout.count(
        at.read("group"),
        likely,
        level,
        at.read("y"),
        read_array(labels, "is_label_issue", span),
        certain(run, at.rows),
    )
    return Facts(drawn=cells._asdict())
