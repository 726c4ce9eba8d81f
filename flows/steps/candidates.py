"""Graph → c1 and T, predictions and suspect rows, where labels are candidate sets.

Blocks ask for the candidates of their rows' neighbors; the cell of c1 and T whose answers agree
most with rows' own sets judges all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flows.engine.collectives.sent import Routed, incoming
from flows.engine.job import Job, Output
from flows.engine.parts import Part, block_name
from flows.engine.results import Result
from flows.steps.answers import WANTED, Answers, ask
from flows.steps.candidate_labels import PREDICTIONS, CandidatePool, Verdicts, write_verdicts
from flows.steps.candidate_masks import answers
from flows.steps.class_tops import joined
from flows.steps.partition import Blocks
from pipeline.blocks.sampling import in_sample
from pipeline.decision.suspects import PORTION
from pipeline.methods.partial_labels import (
    C1,
    STOPS,
    AdaptiveParams,
    Masks,
    agreement,
    choose,
    disambiguate,
    predict,
)
from storage.exchange import Exchange, Slice
from storage.groups import Arrays, read_array
from storage.run import Run

CHOICE_ROWS = 20_000
"""Rows on which c1 and T are chosen."""
CHOICE_STREAM = 9
_SENT = {"row": "i8", "predicted_label": "i2", "disambiguated_label": "i2", "in_candidates": "?"}
_SENT |= {"n_neighbors": "i4", "n_labels": "i4", "label_quality": "f4"}


@dataclass(frozen=True)
class Block:
    """One block of the graph."""

    number: int
    of: CandidatePool
    stops: tuple[int, ...] = ()
    masks: tuple[Slice, ...] = ()
    """Where the candidates of its rows and of their neighbors lie."""
    how: AdaptiveParams | None = None


@dataclass(frozen=True)
class Agreed(Result):
    """Sampled rows of a block, and those whose answer is in their own set, by c1 and T."""

    rows: int
    hits: list[list[int]]


@dataclass(frozen=True)
class CandidateEstimates(Result):
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


def stops_tried(length: int) -> tuple[int, ...]:
    """Values of T to choose from, with lists of some length: the last is the length."""
    return (*(stop for stop in STOPS if stop < length), length)


def judge_candidates(
    job: Job, of: CandidatePool, blocks: Blocks, length: int
) -> tuple[CandidateEstimates, Verdicts]:
    """c1 and T, and the group `labels`."""
    numbers = range(len(blocks.sizes))
    asked = job.parts("wanted", want_part, [Part(block_name(b), Block(b, of)) for b in numbers])
    masks = [tuple(slices) for slices in answers(job, of.pool, asked, len(numbers))]
    found = _choose(job, of, masks, stops_tried(length))
    judged = job.parts(
        PREDICTIONS,
        predict_part,
        [Part(block_name(b), Block(b, of, (), masks[b], found.params)) for b in numbers],
    )
    slices = incoming(judged, len(of.pool.parts()))
    return found, write_verdicts(job, of, slices, found.params)


def want_part(run: Run, part: Part[Block]) -> Output:
    """Ask for the candidates of a block's rows and of their neighbors."""
    group = run.group(f"graph/{part.args.number:05d}")
    row, neighbor = read_array(group, "row"), read_array(group, "neighbor")
    every = np.concatenate([row[:, None], neighbor], axis=1)
    wanted, pool = Exchange(run.location, WANTED), part.args.of.pool
    key, sent = ask(wanted, part.name, part.args.number, pool, every)
    return Output([key], Routed(sent))


def _choose(
    job: Job, of: CandidatePool, masks: list[tuple[Slice, ...]], stops: tuple[int, ...]
) -> CandidateEstimates:
    """The c1 and T of greatest agreement."""
    counted = job.parts(
        "agreement",
        agree_part,
        [Part(block_name(b), Block(b, of, stops, mine)) for b, mine in enumerate(masks)],
    )

    def finish(run: Run) -> Output:
        results = [Agreed.of(record) for record in counted]
        hits = np.sum([result.hits for result in results], axis=0)
        n = sum(result.rows for result in results)
        share = (hits / max(1, n)).tolist()
        how = choose(hits, C1, stops)
        return Output([], CandidateEstimates(how, list(C1), list(stops), share, n))

    return CandidateEstimates.of(job.once("choice", finish))


def _lists(run: Run, block: Block) -> tuple[Masks, Arrays] | None:
    """The candidates known in a block; its rows, their places there and those of their neighbors.
    None of a block without rows."""
    if not block.masks:
        return None
    group = run.group(f"graph/{block.number:05d}")
    row, known = read_array(group, "row"), Answers(run, block.masks)
    near = known.places(read_array(group, "neighbor"))
    return known.told["mask"], {"row": row, "own": known.places(row), "near": near}


def agree_part(run: Run, part: Part[Block]) -> Output:
    """How often the answers of one block's sampled rows are in their own sets, by c1 and T."""
    of, stops = part.args.of, np.array(part.args.stops)
    found = _lists(run, part.args)
    hits, n = np.zeros((len(C1), len(stops)), np.int64), 0
    if found is not None:
        mask, lists = found
        n_rows = of.pool.n_rows
        drawn = in_sample(lists["row"], n_rows, CHOICE_ROWS, of.seed, CHOICE_STREAM)
        n = int(drawn.sum())
        margins = np.array([AdaptiveParams(c1).margin(n_rows, of.n_classes) for c1 in C1])
        own = mask[lists["own"][drawn]]
        near = lists["near"][drawn]
        hits = agreement(near, mask, own, of.n_classes, margins, stops)
    return Output([], Agreed(n, hits.tolist()))


def predict_part(run: Run, part: Part[Block]) -> Output:
    """Predictions for the rows of one block, sent to source order."""
    of, how, found = part.args.of, part.args.how, _lists(run, part.args)
    assert how is not None
    said: list[Arrays] = []
    if found is not None:
        mask, lists = found
        for start in range(0, len(lists["row"]), PORTION):
            near = lists["near"][start : start + PORTION]
            own = mask[lists["own"][start : start + PORTION]]
            args = of.n_classes, of.pool.n_rows, how
            answer = predict(near, mask, *args)
            mine = disambiguate(near, mask, own, answer, *args)
            values = (
                *(lists["row"][start : start + PORTION], answer.label, mine.label),
                *(mine.in_candidates, answer.n_neighbors, answer.n_labels, mine.quality),
            )
            said.append(
                {
                    name: value.astype(kind)
                    for (name, kind), value in zip(_SENT.items(), values, strict=True)
                }
            )
    columns = joined(said, {name: np.empty(0, kind) for name, kind in _SENT.items()})
    exchange, pool = Exchange(run.location, PREDICTIONS), of.pool
    sent = exchange.send(part.name, pool.part_of(columns["row"]), len(pool.parts()), columns)
    return Output([exchange.key(part.name)], Routed(sent))
