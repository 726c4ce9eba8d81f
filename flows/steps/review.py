"""Verdicts and graph → the rows that a person should look at, most useful first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flows.engine.collectives.sent import Routed, incoming
from flows.engine.job import Job, Output
from flows.engine.parts import Part, block_name
from flows.steps.classes import labels_of
from flows.steps.ingest import certain
from flows.steps.lookup import lists_of, source_rows
from pipeline.decision import review
from pipeline.methods.rules import Rule
from storage.exchange import Exchange, Slice
from storage.groups import read_array, write_group
from storage.pool import Pool, Rows
from storage.run import Run

VERDICTS = ("given_label", "label_quality", "is_label_issue")
DRAWS = ("useful", "suspects", "rows")
LARGEST_GROUP = 24
"""Alike suspects that are answered at once, at most: they should fit on a screen."""


@dataclass(frozen=True)
class Trained:
    """What is read of a finished training."""

    run: Run
    pool: Pool
    n_blocks: int
    n_classes: int
    k: int
    rule: Rule | None
    """None of more than two classes: the plain vote stands for theirs."""

    @property
    def verdict(self) -> review.Verdict | None:
        """The rule as a function of votes."""
        rule = self.rule
        return None if rule is None else lambda votes: rule.predict(votes[:, 1] / self.k)


@dataclass(frozen=True)
class Wanted:
    """How many rows of each kind."""

    useful: int
    random: int
    """Of suspects, and as many of all rows."""
    share: float
    """Of the order that is drawn at random."""
    seed: int

    def of(self, stream: str) -> int:
        return self.useful if stream == "useful" else self.random


@dataclass(frozen=True)
class Moving:
    """A block of the graph whose verdicts may move."""

    trained: Trained
    block: int
    to: Exchange


@dataclass(frozen=True)
class Drawing:
    """Rows among which some are chosen."""

    trained: Trained
    rows: Rows
    wanted: Wanted
    sent: Exchange
    slices: list[Slice]
    to: Exchange


def order_review(job: Job, trained: Trained, wanted: Wanted) -> None:
    """Write the group `review`: the rows to look at, in order, with their neighbors."""
    pool, moved = trained.pool, Exchange(job.run.location, "moved")
    n_parts = len(pool.parts())
    sent = job.parts(
        "review-moved",
        moved_part,
        [Part(block_name(b), Moving(trained, b, moved)) for b in range(trained.n_blocks)],
    )
    slices, drawn = incoming(sent, n_parts), Exchange(job.run.location, "drawn")
    chosen = job.parts(
        "review-draw",
        draw_part,
        [
            Part(f"rows-{i:06d}", Drawing(trained, rows, wanted, moved, slices[i], drawn))
            for i, rows in enumerate(pool.parts())
        ],
    )
    job.once(
        "review", lambda run: _write(run, trained, wanted, drawn, incoming(chosen, len(DRAWS)))
    )


def moved_part(run: Run, part: Part[Moving]) -> Output:
    """How many verdicts of one block each row can move, sent to the row's place in the source."""
    trained, exchange = part.args.trained, part.args.to
    group = trained.run.group(f"graph/{part.args.block:05d}")
    neighbor, label = (
        read_array(group, name)[:, : trained.k] for name in ("neighbor", "neighbor_label")
    )

    row, times = review.verdicts_moved(
        neighbor, labels_of(neighbor, label), trained.n_classes, trained.verdict
    )
    pool = trained.pool
    columns = {"row": row, "moved": times}
    sent = exchange.send(part.name, pool.part_of(row), len(pool.parts()), columns)
    return Output([exchange.key(part.name)], Routed(sent))


def draw_part(run: Run, part: Part[Drawing]) -> Output:
    """The rows of one part that may be among the most useful, or are drawn at random."""
    args, trained = part.args, part.args.trained
    row = np.arange(args.rows.start, args.rows.stop)
    moved = np.zeros(len(row), np.int64)
    if args.slices:
        columns = args.sent.receive(args.slices)
        np.add.at(moved, columns["row"] - args.rows.start, columns["moved"])
    group = trained.run.group("labels")
    span = slice(args.rows.start, args.rows.stop)
    verdicts = {name: read_array(group, name, span) for name in VERDICTS}
    given = verdicts["given_label"] = verdicts["given_label"].astype(np.int32)
    if trained.n_classes == 2:
        verdicts["likely_label"] = np.where(verdicts["is_label_issue"], 1 - given, given)
    else:
        verdicts["likely_label"] = read_array(group, "likely_label", span).astype(np.int32)
    value = review.usefulness(verdicts["label_quality"], moved)
    suspect = np.flatnonzero(verdicts["is_label_issue"])
    unsure = np.ones(len(row), np.bool_)
    unsure[certain(trained.run, args.rows)] = False
    among = {"useful": suspect, "suspects": suspect, "rows": np.flatnonzero(unsure)}
    places, stream = [], []
    for number, name in enumerate(DRAWS):
        some = among[name]
        by = value[some] if name == "useful" else None
        best = review.first(row[some], by, args.wanted.of(name), args.wanted.seed, name)
        places.append(some[best])
        stream.append(np.full(len(best), number))
    at = np.concatenate(places)
    chosen = {"row": row[at], "moved": moved[at], **{n: v[at] for n, v in verdicts.items()}}
    sent = args.to.send(part.name, np.concatenate(stream), len(DRAWS), chosen)
    return Output([args.to.key(part.name)], Routed(sent))


def _write(
    run: Run, trained: Trained, wanted: Wanted, drawn: Exchange, slices: list[list[Slice]]
) -> Output:
    """Choose among what the parts drew, find the neighbors and the groups of alike suspects."""
    found: dict[str, npt.NDArray[np.int64]] = {}
    pieces = []
    for name, sent in zip(DRAWS, slices, strict=True):
        found[name] = np.empty(0, np.int64)
        if sent:
            columns = drawn.receive(sent)
            value = review.usefulness(columns["label_quality"], columns["moved"])
            by = value if name == "useful" else None
            best = review.first(columns["row"], by, wanted.of(name), wanted.seed, name)
            found[name] = columns["row"][best]
            pieces.append({key: column[best] for key, column in columns.items()})
    useful, suspects, rows = (found[name] for name in DRAWS)
    row = review.interleaved(useful, suspects, rows, wanted.share)
    every = {key: np.concatenate([piece[key] for piece in pieces]) for key in pieces[0]}
    _, once = np.unique(every["row"], return_index=True)
    at = once[np.searchsorted(every["row"][once], row)]
    columns = {key: column[at] for key, column in every.items()}
    lists = lists_of(trained.run, trained.n_blocks, trained.k, row)
    draws = {
        f"{name}_draw": _places(found[stream], row)
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


def _places(drawn: npt.NDArray[np.int64], row: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """(row,) place of each row in a draw, -1 where it is not in it."""
    place = {one: at for at, one in enumerate(drawn.tolist())}
    return np.array([place.get(one, -1) for one in row.tolist()], np.int64)
