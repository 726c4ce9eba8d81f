"""Graph → c1 and T, predictions and suspect rows, where labels are candidate sets.

Blocks ask for the candidates of their rows' neighbors; the cell of c1 and T whose answers agree
most with rows' own sets judges all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from flows.engine.collectives.graph import Around, Asks, PoolGraph, over_graph
from flows.engine.collectives.sent import Facts, Sendings
from flows.engine.job import Job, Output
from flows.steps.sets.verdicts import Verdicts, neighbors_candidates, write_verdicts
from pipeline.blocks.sampling import in_sample
from pipeline.methods.partial_labels import (
    C1,
    STOPS,
    AdaptiveParams,
    agreement,
    choose,
    disambiguate,
    predict,
)
from pipeline.streams import Stream
from storage.arrays.groups import Arrays
from storage.runs.run import Run

CHOICE_ROWS = 20_000
"""Rows on which c1 and T are chosen."""
GIVES = {"predicted_label": "i2", "disambiguated_label": "i2", "in_candidates": "?"}
GIVES |= {"n_neighbors": "i4", "n_labels": "i4", "label_quality": "f4"}


@dataclass(frozen=True)
class SetsAgreed:
    """Sampled rows of a block, and those whose answer is in their own set, by c1 and T."""

    rows: int
    hits: list[list[int]]


@dataclass(frozen=True)
class CandidateEstimates:
    """The c1 and T that were chosen, and by what."""

    params: AdaptiveParams
    c1_tried: list[float]
    stops_tried: list[int]
    agreement: list[list[float]]
    """Share of the sampled rows whose answer is in their own set, by c1 and T."""
    sampled: int

    @property
    def k(self) -> int:
        """Most neighbors looked at."""
        return self.params.most_neighbors

    @property
    def n_neighbors(self) -> int:
        """Neighbors that the prediction of a row takes."""
        return self.k


def stops_tried(length: int) -> tuple[int, ...]:
    """Values of T to choose from, with lists of some length: the last is the length."""
    return (*(stop for stop in STOPS if stop < length), length)


def judge_candidates(
    job: Job, graph: PoolGraph, n_classes: int, length: int, seed: int
) -> tuple[CandidateEstimates, Verdicts]:
    """c1 and T, and the group `labels`."""
    requests = over_graph(job, graph, "wanted", asks=Asks(own=True))
    known = neighbors_candidates(job, graph, requests)
    choice = _choose(job, graph, known, n_classes, stops_tried(length), seed)
    judged = over_graph(
        *(job, graph, "predictions"),
        partial(answers, n_classes=n_classes, n_rows=graph.pool.n_rows, how=choice.params),
        known=known,
        gives=GIVES,
    )
    return choice, write_verdicts(job, graph, n_classes, judged, choice.params)


def _choose(
    job: Job,
    graph: PoolGraph,
    known: Sendings,
    n_classes: int,
    stops: tuple[int, ...],
    seed: int,
) -> CandidateEstimates:
    """The c1 and T of greatest agreement."""
    n_rows = graph.pool.n_rows
    counted = over_graph(
        *(job, graph, "agreement"),
        partial(agree, n_classes=n_classes, n_rows=n_rows, stops=stops, seed=seed),
        known=known,
        portion=None,
    )

    def finish(run: Run) -> Output:
        results = counted.left(SetsAgreed)
        hits = np.sum([result.hits for result in results], axis=0)
        n = sum(result.rows for result in results)
        share = (hits / max(1, n)).tolist()
        how = choose(hits, C1, stops)
        return Output([], CandidateEstimates(how, list(C1), list(stops), share, n))

    return job.result("choice", finish, CandidateEstimates)


def agree(at: Around, n_classes: int, n_rows: int, stops: tuple[int, ...], seed: int) -> Facts:
    """How often the answers of one block's sampled rows are in their own sets, by c1 and T."""
    drawn, mask = in_sample(at.row, n_rows, CHOICE_ROWS, seed, Stream.CHOICE), at.known["mask"]
    margins = np.array([AdaptiveParams(c1).margin(n_rows, n_classes) for c1 in C1])
    own = mask[at.own[drawn]]
    hits = agreement(at.near[drawn], mask, own, n_classes, margins, np.array(stops))
    return Facts(left=SetsAgreed(int(drawn.sum()), hits.tolist()))


def answers(at: Around, n_classes: int, n_rows: int, how: AdaptiveParams) -> Arrays:
    """Predictions for some rows."""
    mask, args = at.known["mask"], (n_classes, n_rows, how)
    answer = predict(at.near, mask, *args)
    mine = disambiguate(at.near, mask, mask[at.own], answer, *args)
    return {
        "predicted_label": answer.label,
        "disambiguated_label": mine.label,
        "in_candidates": mine.in_candidates,
        "n_neighbors": answer.n_neighbors,
        "n_labels": answer.n_labels,
        "label_quality": mine.quality,
    }
