"""Verdicts and graph → the rows that a person should look at, in the order they come."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from flows.engine.collectives.graph import Around, PoolGraph, over_graph
from flows.engine.collectives.rows import SourceRows, over_rows
from flows.engine.collectives.sent import Facts, Sendings
from flows.engine.job import Job, Output
from flows.options.params import ReviewParams
from flows.steps.graph.lookup import certain, lists_of, source_rows
from flows.steps.labels.classes import labels_of
from flows.steps.labels.verdicts import LabelVerdicts
from pipeline.arrays import Floating, Int64
from pipeline.decision import review
from pipeline.knn.places import places
from storage.arrays.groups import read_array
from storage.runs.run import Run

DRAWS = ("useful", "suspects", "rows")
SPARE = 4
"""Suspects looked through per question: those alike are answered together, and some filtered."""
FEWEST = 400
LARGEST_GROUP = 24
"""Alike suspects that are answered at once, at most: they should fit on a screen."""


def _first(
    row: Int64, quality: Floating, times: Int64, among: dict[str, Int64], params: ReviewParams
) -> dict[str, Int64]:
    """Places of the rows that come first of each kind: of the most useful more than questions, of
    those drawn at random their share.

    among : by kind the places of its rows
    """
    value, random = review.ORDERS[params.order](quality, times), params.random_share
    sizes = dict.fromkeys(DRAWS, math.ceil(params.budget * random))
    sizes["useful"] = max(FEWEST, SPARE * params.budget)
    first = {}
    for name in DRAWS:
        some = among[name]
        by = value[some] if name == "useful" else None
        first[name] = some[review.first(row[some], by, sizes[name], params.seed, name)]
    return first


def order_review(
    job: Job,
    graph: PoolGraph,
    n_classes: int,
    k: int,
    verdicts: LabelVerdicts,
    params: ReviewParams,
) -> None:
    """Write the group `review`: the rows of a finished training to look at, in order, with their
    neighbors, of which k vote."""
    moves = over_graph(
        *(job, graph, "review-moved", partial(moved, n_classes=n_classes, k=k, verdicts=verdicts)),
        needs=("neighbor", "neighbor_label"),
        portion=None,
    )
    kernel = partial(draw, verdicts=verdicts, params=params)
    drawn = over_rows(job, graph, "review-draw", kernel, others=moves)
    job.once("review", lambda run: _write(run, graph, n_classes, k, params, drawn))


def moved(at: Around, n_classes: int, k: int, verdicts: LabelVerdicts) -> Facts:
    """How many verdicts of one block each row can move."""
    neighbor, label = (at.of_row[name][:, :k] for name in ("neighbor", "neighbor_label"))
    codes = labels_of(neighbor, label)
    row, times = review.verdicts_moved(neighbor, codes, n_classes, verdicts.by_votes(k))
    return Facts(others={"row": row, "moved": times})


def draw(at: SourceRows, verdicts: LabelVerdicts, params: ReviewParams) -> Facts:
    """The rows of one part that may be among the most useful, or are drawn at random."""
    row = np.arange(at.rows.start, at.rows.stop)
    times = np.zeros(len(row), np.int64)
    if at.others:
        np.add.at(times, at.others["place"], at.others["moved"])
    group = at.pool.run.group("labels")
    judged = {name: read_array(group, name, at.rows) for name in verdicts.columns}
    judged["given_label"] = judged["given_label"].astype(np.int32)
    judged["likely_label"] = verdicts.likely(judged).astype(np.int32)
    suspect = np.flatnonzero(judged["is_label_issue"])
    unsure = np.ones(len(row), np.bool_)
    unsure[certain(at.pool.run, at.rows)] = False
    among = {"useful": suspect, "suspects": suspect, "rows": np.flatnonzero(unsure)}
    first = _first(row, judged["label_quality"], times, among, params)
    places = [first[name] for name in DRAWS]
    which = np.concatenate(places)
    chosen = {name: column[which] for name, column in judged.items()}
    stream = np.concatenate([np.full(len(some), n) for n, some in enumerate(places)])
    return Facts(drawn={"row": row[which], "stream": stream, "moved": times[which], **chosen})


def _write(
    run: Run, graph: PoolGraph, n_classes: int, k: int, params: ReviewParams, sent: Sendings
) -> Output:
    """Choose among what the parts drew, find the neighbors and the groups of alike suspects."""
    trained, drawn = graph.pool.run, list(sent.drawn_by_part())
    every = {name: np.concatenate([part[name] for part in drawn]) for name in drawn[0]}
    stream = every.pop("stream")
    among = {name: np.flatnonzero(stream == number) for number, name in enumerate(DRAWS)}
    first = _first(every["row"], every["label_quality"], every["moved"], among, params)
    useful, suspects, rows = (every["row"][first[name]] for name in DRAWS)
    row = review.interleaved(useful, suspects, rows, params.random_share)
    _, once = np.unique(every["row"], return_index=True)
    at = once[np.searchsorted(every["row"][once], row)]
    columns = {key: column[at] for key, column in every.items()}
    lists = lists_of(trained, graph.n_blocks, k, row)
    draws = {"suspect_draw": places(suspects, row), "row_draw": places(rows, row)}
    pair = columns["given_label"].astype(np.int64) * n_classes + columns["likely_label"]
    random = (draws["suspect_draw"] >= 0) | (draws["row_draw"] >= 0)
    pair[random | ~columns["is_label_issue"]] = -1  # looked at one by one
    pair[pair < 0] = -1 - np.arange((pair < 0).sum())
    group = review.alike(row, pair, lists["neighbor"], LARGEST_GROUP)
    columns["row"] = source_rows(trained, columns["row"])
    lists["neighbor"] = source_rows(trained, lists["neighbor"])
    return Output(run.write("review", "review", {**columns, **draws, "group": group, **lists}))
