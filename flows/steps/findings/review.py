"""Verdicts and graph → the rows that a person should look at, in the order they come."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from flows.engine.collectives.graph import Around, PoolGraph, over_graph
from flows.engine.collectives.rows import SourceRows, over_rows
from flows.engine.collectives.sent import Facts
from flows.engine.job import Job, Output
from flows.steps.graph.lookup import lists_of, source_rows
from flows.steps.ingest.pool import certain
from flows.steps.labels.classes import labels_of
from flows.steps.labels.verdicts import LabelVerdicts
from pipeline.arrays import Int64
from pipeline.decision import review
from storage.arrays.groups import Arrays, read_array, write_group
from storage.runs.pool import Pool
from storage.runs.run import Run

DRAWS = ("useful", "suspects", "rows")
LARGEST_GROUP = 24
"""Alike suspects that are answered at once, at most: they should fit on a screen."""


@dataclass(frozen=True)
class ReviewedTraining:
    """What is read of a finished training."""

    run: Run
    pool: Pool
    n_blocks: int
    n_classes: int
    k: int
    verdicts: LabelVerdicts


@dataclass(frozen=True)
class ReviewSize:
    """How many rows of each kind."""

    useful: int
    random: int
    """Of suspects, and as many of all rows."""
    share: float
    """Of the order that is drawn at random."""
    seed: int
    order: str
    """One of `review.ORDERS`."""

    def of(self, stream: str) -> int:
        return self.useful if stream == "useful" else self.random


def order_review(job: Job, trained: ReviewedTraining, wanted: ReviewSize) -> None:
    """Write the group `review`: the rows to look at, in order, with their neighbors."""
    graph = PoolGraph(trained.pool, trained.n_blocks)
    moves = over_graph(
        *(job, graph, "review-moved", partial(moved, trained=trained)),
        needs=("neighbor", "neighbor_label"),
        portion=None,
    )
    kernel = partial(draw, trained=trained, wanted=wanted)
    drawn = over_rows(job, graph, "review-draw", kernel, others=moves)
    job.once("review", lambda run: _write(run, trained, wanted, list(drawn.drawn_by_part())))


def moved(at: Around, trained: ReviewedTraining) -> Facts:
    """How many verdicts of one block each row can move."""
    neighbor, label = (at.of_row[name][:, : trained.k] for name in ("neighbor", "neighbor_label"))
    codes = labels_of(neighbor, label)
    by_votes = trained.verdicts.by_votes(trained.k)
    row, times = review.verdicts_moved(neighbor, codes, trained.n_classes, by_votes)
    return Facts(others={"row": row, "moved": times})


def draw(at: SourceRows, trained: ReviewedTraining, wanted: ReviewSize) -> Facts:
    """The rows of one part that may be among the most useful, or are drawn at random."""
    row, span = np.arange(at.rows.start, at.rows.stop), slice(at.rows.start, at.rows.stop)
    times = np.zeros(at.n, np.int64)
    if at.others:
        np.add.at(times, at.others["place"], at.others["moved"])
    group = trained.run.group("labels")
    verdicts = {name: read_array(group, name, span) for name in trained.verdicts.columns}
    verdicts["given_label"] = verdicts["given_label"].astype(np.int32)
    verdicts["likely_label"] = trained.verdicts.likely(verdicts).astype(np.int32)
    value = review.ORDERS[wanted.order](verdicts["label_quality"], times)
    suspect = np.flatnonzero(verdicts["is_label_issue"])
    unsure = np.ones(len(row), np.bool_)
    unsure[certain(trained.run, at.rows)] = False
    among = {"useful": suspect, "suspects": suspect, "rows": np.flatnonzero(unsure)}
    places = []
    for name in DRAWS:
        some = among[name]
        by = value[some] if name == "useful" else None
        best = review.first(row[some], by, wanted.of(name), wanted.seed, name)
        places.append(some[best])
    which = np.concatenate(places)
    chosen = {name: column[which] for name, column in verdicts.items()}
    stream = np.concatenate([np.full(len(some), n) for n, some in enumerate(places)])
    return Facts(drawn={"row": row[which], "stream": stream, "moved": times[which], **chosen})


def _write(run: Run, trained: ReviewedTraining, wanted: ReviewSize, drawn: list[Arrays]) -> Output:
    """Choose among what the parts drew, find the neighbors and the groups of alike suspects."""
    every = {name: np.concatenate([part[name] for part in drawn]) for name in drawn[0]}
    stream, rows_of = every.pop("stream"), {}
    for number, name in enumerate(DRAWS):
        some = np.flatnonzero(stream == number)
        value = review.ORDERS[wanted.order](every["label_quality"][some], every["moved"][some])
        by = value if name == "useful" else None
        best = review.first(every["row"][some], by, wanted.of(name), wanted.seed, name)
        rows_of[name] = every["row"][some][best]
    useful, suspects, rows = (rows_of[name] for name in DRAWS)
    row = review.interleaved(useful, suspects, rows, wanted.share)
    _, once = np.unique(every["row"], return_index=True)
    at = once[np.searchsorted(every["row"][once], row)]
    columns = {key: column[at] for key, column in every.items()}
    lists = lists_of(trained.run, trained.n_blocks, trained.k, row)
    draws = {
        f"{name}_draw": _places(rows_of[stream], row)
        for name, stream in (("suspect", "suspects"), ("row", "rows"))
    }
    pair = columns["given_label"].astype(np.int64) * trained.n_classes + columns["likely_label"]
    random = (draws["suspect_draw"] >= 0) | (draws["row_draw"] >= 0)
    pair[random | ~columns["is_label_issue"]] = -1  # looked at one by one
    pair[pair < 0] = -1 - np.arange((pair < 0).sum())
    lists["neighbor_label"] = labels_of(lists["neighbor"], lists["neighbor_label"])
    group = review.alike(row, pair, lists["neighbor"], LARGEST_GROUP)
    columns["row"] = source_rows(trained.run, columns["row"])
    lists["neighbor"] = source_rows(trained.run, lists["neighbor"])
    write_group(run.store, "review", "review", {**columns, **draws, "group": group, **lists})
    return Output([run.key("review")])


def _places(drawn: Int64, row: Int64) -> Int64:
    """(row,) place of each row in a draw, -1 where it is not in it."""
    place = {one: at for at, one in enumerate(drawn.tolist())}
    return np.array([place.get(one, -1) for one in row.tolist()], np.int64)
