"""The first pass over more than two classes, and what of it travels to the neighbors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flows.engine.collectives.sent import Routed, source_order
from flows.engine.job import Output
from flows.engine.parts import Part
from flows.steps.answers import Answers, Asked, answer
from flows.steps.classes import (
    Classes,
    Fitted,
    labels_of,
    read_correction,
)
from pipeline.decision.class_votes import class_votes, vote_sizes
from pipeline.decision.quality import (
    KEPT,
    SMOOTHED,
    TopClasses,
)
from pipeline.decision.suspects import PORTION, first_pass
from storage.exchange import Exchange, Slice
from storage.groups import Arrays, read_array
from storage.run import Run

TOP = "top-classes"
"""Name of an exchange."""


@dataclass(frozen=True)
class FirstPass:
    """One block whose rows' votes are judged."""

    block: int
    classes: Classes
    first: Fitted
    to: Exchange


@dataclass(frozen=True)
class Relay(Asked):
    """The same, and what the first pass says of these rows."""

    tops: list[Slice]


def portions(run: Run, number: int) -> Iterator[tuple[slice, Arrays]]:
    """A block of the graph, a few rows at a time; labels as codes, -1 in empty places."""
    group = run.group(f"graph/{number:05d}")
    names = ("row", "given_label", "neighbor", "neighbor_label", "distance")
    whole = {name: read_array(group, name) for name in names}
    for start in range(0, len(whole["row"]), PORTION):
        rows = slice(start, start + PORTION)
        some = {name: column[rows] for name, column in whole.items()}
        some["neighbor_label"] = labels_of(some["neighbor"], some["neighbor_label"])
        yield rows, some


def first_part(run: Run, part: Part[FirstPass]) -> Output:
    """The likeliest classes of the rows of one block, sent to source order."""
    classes, exchange, by = part.args.classes, part.args.to, read_correction(run)
    weights, pool = part.args.first.weights(), part.args.classes.pool
    found: list[Arrays] = []
    for _, some in portions(run, part.args.block):
        near = some["neighbor_label"]
        votes = class_votes(near, some["given_label"], classes.n_classes, vote_sizes(near.shape[1]))
        top = first_pass(votes, by, weights)
        found.append({"row": some["row"], **_packed(top)})
    columns = joined(found, {"row": np.empty(0, np.int64), **_packed(_no_tops(0))})
    sent = exchange.send(part.name, pool.part_of(columns["row"]), len(pool.parts()), columns)
    return Output([exchange.key(part.name)], Routed(sent))


def _packed(top: TopClasses) -> Arrays:
    """What travels: `KEPT` classes, none where there are fewer."""
    missing = KEPT - top.code.shape[1]
    code = np.pad(top.code, ((0, 0), (0, missing)), constant_values=-1)
    return {"code": code.astype(np.int16), "chance": np.pad(top.chance, ((0, 0), (0, missing)))}


def _no_tops(n_rows: int) -> TopClasses:
    return TopClasses(np.full((n_rows, KEPT), -1, np.int32), np.zeros((n_rows, KEPT), np.float32))


def joined(found: list[Arrays], none: Arrays) -> Arrays:
    """Columns of the same names, one after the other; `none` where there are none."""
    if not found:
        return none
    return {name: np.concatenate([part[name] for part in found]) for name in none}


def relay_part(run: Run, part: Part[Relay]) -> Output:
    """Send what the first pass says of some rows of the pool to the blocks that ask."""
    tops = Exchange(run.location, TOP).receive(part.args.tops)
    order = source_order(tops["row"], part.args.rows, "votes")
    told = {name: tops[name][order] for name in ("code", "chance")}
    return answer(run, part.name, part.args, told)


class Tops(Answers):
    """What the first pass says of the neighbors of one block's rows."""

    def __init__(self, run: Run, slices: list[Slice]) -> None:
        super().__init__(run, slices)
        none = _packed(_no_tops(1))
        self.code = np.concatenate([self.told["code"], none["code"]]).astype(np.int32)
        self.chance = np.concatenate([self.told["chance"], none["chance"]])

    def of(self, neighbor: npt.NDArray[np.int64]) -> TopClasses:
        """(row, rank, KEPT) of neighbors (row, rank); nothing in empty places."""
        at = self.places(np.ascontiguousarray(neighbor[:, :SMOOTHED]))  # -1, the last: none
        return TopClasses(self.code[at], self.chance[at])
