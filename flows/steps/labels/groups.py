"""Verdicts and votes → noise rates by groups of rows, such as who gave the labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from flows.engine.collectives.graph import PoolGraph
from flows.engine.collectives.rows import SourceRows, over_rows
from flows.engine.collectives.sent import Facts, Sendings
from flows.engine.job import Job, Output
from flows.engine.results import LabelValue
from flows.steps.graph.lookup import as_given, pick
from pipeline.arrays import Float32, Float64, Int32, Int64, Integers
from pipeline.blocks.logits import can_learn
from pipeline.decision.where import find_places, place_of, place_rates
from pipeline.decision.whose import Place, wrong_rates
from pipeline.noise.group_cells import NEAREST, GroupCells, Layout, apart, together
from pipeline.noise.groups import Groups, Whole, group_rates
from pipeline.noise.meanings import other_meanings
from storage.arrays.groups import array, read_array
from storage.runs.pool import Pool
from storage.runs.run import Run

WRONG = "mistakes"
"""The group of arrays that says how often each group's labels are wrong."""
ANCHORS = 2000
"""Rows whose neighbors tell whether groups live apart."""
SAMPLED = 1 << 15
"""Rows by which it is told whether a group's labels mean other classes."""


Read = Callable[[SourceRows], tuple[Integers, Integers]]
"""(row,) the likeliest class of some rows by their neighbors, and the level of their certainty."""


class Voted(NamedTuple):
    """What the neighbors of all rows say."""

    of: list[Sendings]
    """The passes that found it."""
    read: Read
    levels: int
    """Number of levels of certainty."""


class Estimated(Protocol):
    """What was estimated on all rows, for any number of classes."""

    def whole(self, run: Run, classes: list[LabelValue], counts: list[int]) -> Whole: ...

    def voted(self, job: Job, graph: PoolGraph) -> Voted: ...


def find_wrong(
    run: Run,
    graph: PoolGraph,
    row: Int64,
    x: Callable[[], Float32],
    given: Integers,
    matrix: Float64,
    chances: Callable[[], tuple[Float64, Int32]],
) -> tuple[list[str], tuple[Place, ...]]:
    """How often each group's labels are wrong, written by its keys, if the pool has groups; else
    the places where labels are wrong more often; by a sample of rows. Features, and chances with
    their codes for `wrong_rates`, are called for only if needed."""
    given = as_given(run, row, given)
    if has_groups(run):
        about: dict[str, Any] = run.group("pool").attrs.asdict()
        n_groups = len(about["group_values"])
        wrong = wrong_rates(*chances(), given, pick(run, "pool", "group", row), matrix, n_groups)
        return run.write(WRONG, WRONG, {"wrong": wrong}), ()
    if graph.mates.differ or not can_learn(graph.pool.n_features):
        return [], ()
    return [], find_places(x(), *chances(), given, matrix)


def read_wrong(run: Run, places: Sequence[Place], matrix: Float64) -> Float64 | None:
    """(group + 1, class) how often the labels of each group, or place, are wrong, with the whole's
    in the last row; None where there are none."""
    if has_groups(run):
        return read_array(run.group(WRONG), "wrong")
    return place_rates(places, matrix) if places else None


def group_of(at: SourceRows, places: Sequence[Place]) -> Integers:
    """(row,) the group, or place, of some rows; -1 for none."""
    return at.read("group") if has_groups(at.pool.run) else place_of(places, at.read("x"))


def has_groups(run: Run) -> bool:
    """Whether the rows of a pool have groups."""
    return "group" in run.group("pool")


def find_groups(
    job: Job, graph: PoolGraph, classes: list[LabelValue], counts: list[int], estimated: Estimated
) -> Groups:
    """How often each group's labels are wrong; one pass over the pool, no new distances.

    classes, counts : labels by code, and the rows given each
    """
    pool, votes = graph.pool, estimated.voted(job, graph)
    about: dict[str, Any] = job.run.group(pool.path).attrs.asdict()
    values, column = about["group_values"], about["group_name"]
    layout = Layout(len(values), len(classes), votes.levels)
    kernel = partial(count, layout=layout, read=votes.read)
    counted = over_rows(job, graph, "group-counts", kernel, of=votes.of)

    def estimate(run: Run) -> Output:
        near = _neighbors_groups(run, pool)
        cells = together(GroupCells(**part) for part in counted.drawn_by_part())
        whole = estimated.whole(run, classes, counts)
        whole = replace(whole, apart=apart(near[:, 0], near[:, 1:]))
        row = read_array(run.group("samples/partition"), "row", slice(0, SAMPLED))
        given = as_given(run, row, pick(run, pool.path, "y", row))
        groups = pick(run, pool.path, "group", row)
        likely = pick(run, "labels", "predicted_label", row)
        meanings = other_meanings(groups, given, likely)
        return Output([], group_rates(cells, layout, whole, column, values, meanings))

    return job.result("groups", estimate, Groups)


def _neighbors_groups(run: Run, pool: Pool) -> npt.NDArray[np.int16]:
    """(row, 1 + neighbor) groups of some anchors, evenly spaced, and of their nearest rows."""
    n_anchors = array(run.group("anchors"), "neighbor").shape[0]
    places = np.linspace(0, n_anchors - 1, min(n_anchors, ANCHORS)).astype(np.int64)
    lists = pick(run, "anchors", "neighbor", places)[:, : NEAREST + 1]
    return pick(run, pool.path, "group", lists.ravel()).reshape(lists.shape)


def count(at: SourceRows, layout: Layout, read: Read) -> Facts:
    """Count some rows by group, class and level, by the labels that the groups gave."""
    run = at.pool.run
    likely, level = read(at)
    cells = layout.count(
        at.read("group"),
        likely,
        level,
        as_given(run, np.arange(at.rows.start, at.rows.stop), at.read("y")),
        read_array(run.group("labels"), "is_label_issue", at.rows),
    )
    return Facts(drawn=cells._asdict())
