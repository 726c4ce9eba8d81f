"""Graph → c1 and T, predictions and verdicts in source order, where labels are candidate sets.

Blocks ask for the candidates of their rows' neighbors. All rows are judged by the c1 and T whose
predictions are most often in rows' own sets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from flows.engine.collectives.graph import Around, Asks, PoolGraph, over_graph
from flows.engine.collectives.rows import SourceRows, Table, over_rows
from flows.engine.collectives.sent import Facts, Sendings
from flows.engine.job import Job, Output
from pipeline.arrays import Int64, UInt64, added
from pipeline.decision.suspects import PORTION
from pipeline.labels import dtype_of
from pipeline.methods.partial_labels import (
    C1,
    STOPS,
    AdaptiveParams,
    Masks,
    agreement,
    choose,
    disambiguate,
    predict,
    reordered,
    unpack,
)
from pipeline.streams import Stream
from storage.arrays.groups import Arrays
from storage.runs.pool import Pool
from storage.runs.run import Run

CANDIDATES = "candidates"
"""Name of a step."""
MOST_PAIRS = 50
CHOICE_ROWS = 20_000
"""Rows on which c1 and T are chosen."""
GIVES = {"predicted_label": "i2", "disambiguated_label": "i2", "in_candidates": "?"}
GIVES |= {"n_neighbors": "i4", "n_labels": "i4", "label_quality": "f4"}


@dataclass(frozen=True)
class SetVerdicts:
    """What is said of some rows."""

    issues: int
    decided: int
    """Rows whose neighbors left a single label."""
    single: int
    """Rows with one candidate."""
    predicted: list[int]
    """Rows by predicted label."""
    disambiguated: list[int]


@dataclass(frozen=True)
class Pair:
    """Rows whose likeliest label is one class, with another one among their candidates."""

    label: int
    other: int
    rows: int


@dataclass(frozen=True)
class Verdicts(SetVerdicts):
    """What is said of all rows."""

    pairs: list[Pair]
    """Most rows first."""


def write_verdicts(
    job: Job, graph: PoolGraph, n_classes: int, judged: Sendings, how: AdaptiveParams
) -> Verdicts:
    """Write the group `labels`; what it says of all rows."""
    label, words = dtype_of(n_classes), -(-n_classes // 64)
    table = Table("labels", "candidate_labels", label.str, {"word": words})
    kernel = partial(verdicts, n_classes=n_classes, label=label)
    written = over_rows(job, graph, "labels", kernel, of=[judged], table=table)

    def finish(run: Run) -> Output:
        total = vars(added(written.left(SetVerdicts)))
        verdicts = Verdicts(**total, pairs=_pairs(written.drawn_by_part(), n_classes))
        return Output(table.finish(run, graph.pool, asdict(how)), verdicts)

    return job.result("verdicts", finish, Verdicts)


def verdicts(at: SourceRows, n_classes: int, label: np.dtype[np.generic]) -> Facts:
    """Verdicts on some rows of the pool."""
    columns, own = dict(at.columns), read_candidates(at.pool, at.rows)
    for name in ("predicted_label", "disambiguated_label"):
        columns[name] = columns[name].astype(label)
    inside, mine = columns["in_candidates"], columns["disambiguated_label"].astype(np.int64)
    pair, rows = _pairs_of(own, mine, n_classes)
    counts = SetVerdicts(
        int((~inside).sum()),
        int((columns["n_labels"] == 1).sum()),
        int((np.bitwise_count(own).sum(axis=1) == 1).sum()),
        np.bincount(columns["predicted_label"], minlength=n_classes).tolist(),
        np.bincount(mine, minlength=n_classes).tolist(),
    )
    columns |= {"row": at.read("row"), "candidates": own, "is_label_issue": ~inside}
    return Facts(columns, drawn={"pair": pair, "rows": rows}, left=counts)


def _pairs_of(own: UInt64, label: Int64, n_classes: int) -> tuple[Int64, Int64]:
    """Pairs of a row's label and another of its candidates, and the rows with each."""
    pairs = []
    for start in range(0, len(own), PORTION):
        mine = label[start : start + PORTION]
        row, other = np.nonzero(unpack(own[start : start + PORTION], n_classes))
        apart = other != mine[row]
        pairs.append(mine[row[apart]] * n_classes + other[apart])
    pair, rows = np.unique(np.concatenate(pairs), return_counts=True)
    return pair, rows.astype(np.int64)


def _pairs(parts: Iterable[Arrays], n_classes: int) -> list[Pair]:
    """The pairs of most rows."""
    pair, rows = np.empty(0, np.int64), np.empty(0, np.int64)
    for more in parts:
        pair, place = np.unique(np.concatenate([pair, more["pair"]]), return_inverse=True)
        rows = np.bincount(place, np.concatenate([rows, more["rows"]])).astype(np.int64)
    most = np.lexsort([pair, -rows])[:MOST_PAIRS]
    return [Pair(int(pair[i]) // n_classes, int(pair[i]) % n_classes, int(rows[i])) for i in most]


def neighbors_candidates(job: Job, graph: PoolGraph, requests: Sendings) -> Sendings:
    """The candidates of the rows that were asked for; the pool may be another run's."""
    return over_rows(job, graph, CANDIDATES, masks, requests=requests)


def masks(at: SourceRows) -> Arrays:
    """The candidates of some rows, if anybody asks for them."""
    return {"mask": read_candidates(at.pool, at.rows)} if at.wanted else {}


def read_candidates(pool: Pool, rows: slice) -> Masks:
    """(row, word) uint64 candidate sets of some rows of a pool, by final codes."""
    codes: list[int] = pool.run.group(pool.path).attrs["candidate_codes"]  # type: ignore[assignment]
    return reordered(pool.read("candidates", rows), np.array(codes, np.int64))


@dataclass(frozen=True)
class SetsAgreed:
    """Sampled rows of a block, and those whose answer is in their own set, by c1 and T."""

    rows: int
    hits: list[list[int]]


@dataclass(frozen=True)
class CandidateEstimates:
    """The c1 and T that were chosen, and the agreement that chose them."""

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
    """Values of T to choose from, the last of which is the length of the lists."""
    return (*(stop for stop in STOPS if stop < length), length)


def judge_candidates(
    job: Job, graph: PoolGraph, n_classes: int, length: int
) -> tuple[CandidateEstimates, Verdicts]:
    """c1 and T, and the group `labels`."""
    requests = over_graph(job, graph, "wanted", asks=Asks(own=True))
    known = neighbors_candidates(job, graph, requests)
    choice = _choose(job, graph, known, n_classes, stops_tried(length))
    judged = over_graph(
        *(job, graph, "predictions", partial(answers, n_classes=n_classes, how=choice.params)),
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
) -> CandidateEstimates:
    """The c1 and T of greatest agreement."""
    counted = over_graph(
        *(job, graph, "agreement", partial(agree, n_classes=n_classes, stops=stops)),
        known=known,
        portion=None,
    )

    def finish(run: Run) -> Output:
        total = added(counted.left(SetsAgreed))
        hits = np.array(total.hits)
        share = (hits / max(1, total.rows)).tolist()
        how = choose(hits, C1, stops)
        return Output([], CandidateEstimates(how, list(C1), list(stops), share, total.rows))

    return job.result("choice", finish, CandidateEstimates)


def agree(at: Around, n_classes: int, stops: tuple[int, ...]) -> Facts:
    """How often the answers of one block's sampled rows are in their own sets, by c1 and T."""
    drawn, mask = at.drawn(CHOICE_ROWS, Stream.CHOICE), at.known["mask"]
    n_rows = at.graph.pool.n_rows
    margins = np.array([AdaptiveParams(c1).margin(n_rows, n_classes) for c1 in C1])
    own = mask[at.own[drawn]]
    hits = agreement(at.near[drawn], mask, own, n_classes, margins, np.array(stops))
    return Facts(left=SetsAgreed(int(drawn.sum()), hits.tolist()))


def answers(at: Around, n_classes: int, how: AdaptiveParams) -> Arrays:
    mask, args = at.known["mask"], (n_classes, at.graph.pool.n_rows, how)
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
