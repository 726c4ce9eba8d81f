"""Verdicts and votes → noise rates by whose label it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.engine.collectives.sent import source_order
from flows.engine.job import Job, Output
from flows.engine.parts import Part
from flows.engine.results import LabelValue, Result
from flows.steps.classes import ClassEstimates
from flows.steps.group_votes import VOTES, find_votes
from flows.steps.ingest import certain
from flows.steps.lookup import pick
from flows.steps.partition import Blocks
from flows.steps.rates import RateEstimates
from pipeline.decision.threshold import predict, threshold
from pipeline.noise.group_cells import (
    LEVELS,
    NEAREST,
    Cells,
    Layout,
    apart,
    together,
)
from pipeline.noise.groups import Groups, Whole, group_rates
from pipeline.noise.rates import NoiseRates, clean_shares
from pipeline.noise.transition import of_rates
from storage.exchange import Exchange, Slice
from storage.groups import array, read_array, read_group, write_group
from storage.pool import Pool, Rows
from storage.run import Run

CELLS = "group-cells"
ANCHORS = 2000
"""Rows whose neighbors tell whether groups live apart."""


@dataclass(frozen=True)
class Count:
    """Rows that are counted by group."""

    pool: Pool
    number: int
    rows: Rows
    layout: Layout
    votes: list[Slice]
    """Of more than two classes, what their neighbors say."""
    at: float
    """Of two classes, the share of neighbors given 1 that divides them."""


@dataclass(frozen=True)
class Grouped(Result):
    """The rates of all groups."""

    groups: Groups


def find_groups(
    job: Job,
    pool: Pool,
    blocks: Blocks,
    classes: list[LabelValue],
    counts: list[int],
    estimated: RateEstimates | ClassEstimates,
) -> Groups:
    """How often each group's labels are wrong; one pass over the pool, no new distances.

    classes, counts : labels by code, and the rows given each
    """
    about: dict[str, Any] = job.run.group(pool.path).attrs.asdict()
    values, column = about["group_values"], about["group_name"]
    votes: list[list[Slice]] = [[] for _ in pool.parts()]
    at, levels = 0.0, LEVELS
    if isinstance(estimated, RateEstimates):
        rates = crossfitted(estimated)
        at, levels = threshold(rates.p0, rates.p1), estimated.k + 1
    else:
        votes = find_votes(job, pool, blocks, len(classes), estimated)
    layout = Layout(len(values), len(classes), levels)
    job.parts(
        "group-counts",
        count_part,
        [
            Part(f"rows-{i:06d}", Count(pool, i, rows, layout, votes[i], at))
            for i, rows in enumerate(pool.parts())
        ],
    )

    def estimate(run: Run) -> Output:
        near = _neighbors_groups(run, pool)
        parts = (read_group(run.scratch, f"{CELLS}/{i:05d}") for i in range(len(pool.parts())))
        cells = together(Cells(*(part[name] for name in Cells._fields)) for part in parts)
        whole = _whole(run, classes, counts, estimated, apart(near[:, 0], near[:, 1:]))
        return Output([], Grouped(group_rates(cells, layout, whole, column, values)))

    return Grouped.of(job.once("groups", estimate)).groups


def _neighbors_groups(run: Run, pool: Pool) -> npt.NDArray[np.int16]:
    """(row, 1 + neighbor) groups of some anchors, evenly spaced, and of their nearest rows."""
    n_anchors = array(run.group("anchors"), "neighbor").shape[0]
    places = np.linspace(0, n_anchors - 1, min(n_anchors, ANCHORS)).astype(np.int64)
    lists = pick(run, "anchors", "neighbor", places)[:, : NEAREST + 1]
    return pick(run, pool.path, "group", lists.ravel()).reshape(lists.shape)


def crossfitted(estimated: RateEstimates) -> NoiseRates:
    """The whole's rates that are no plain extremes."""
    return estimated.estimates.get("given") or estimated.estimates["crossfit"]


def _whole(
    run: Run,
    classes: list[LabelValue],
    counts: list[int],
    estimated: RateEstimates | ClassEstimates,
    apart: float,
) -> Whole:
    """What is known of all groups together."""
    if isinstance(estimated, RateEstimates):
        rates = crossfitted(estimated)
        shares = clean_shares(rates.p0, rates.p1, counts[1] / sum(counts))
        error = np.array(rates.standard_errors)
        matrix, support = of_rates(rates).matrix, [rates.support] * 2
        return Whole(classes, matrix, np.array(shares), error, support, apart)
    group = run.group("transition")
    matrix, low, high = (read_array(group, name) for name in ("matrix", "low", "high"))
    error = np.diag(high - low) / (2.0 * 1.96)
    prior, support = np.array(estimated.prior), estimated.class_support
    return Whole(classes, matrix, prior, error, support, apart)


def count_part(run: Run, part: Part[Count]) -> Output:
    """Count the rows of one part of the pool by group, class and level."""
    count, pool, rows = part.args, part.args.pool, part.args.rows
    labels, span = run.group("labels"), slice(rows.start, rows.stop)
    likely, level = (
        _received(run, rows, count.votes)
        if count.votes
        else _shared(read_array(labels, "eta_corr", span), count)
    )
    cells = count.layout.count(
        pool.read("group", rows),
        likely,
        level,
        pool.read("y", rows),
        read_array(labels, "is_label_issue", span),
        certain(run, rows),
    )
    path = f"{CELLS}/{count.number:05d}"
    write_group(run.scratch, path, "group_cells", cells._asdict())
    return Output([f"scratch.zarr/{path}"])


Told = tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]
"""(row,) likeliest class by the neighbors, and how sure that is."""


def _shared(eta: npt.NDArray[np.float32], count: Count) -> Told:
    """Of two classes: the level is the number of neighbors given the likelier one."""
    k = count.layout.n_levels - 1
    ones = np.rint(eta.astype(np.float64) * k).astype(np.int64)
    likely = predict(ones / k, count.at)
    return likely, np.where(likely == 1, ones, k - ones)


def _received(run: Run, rows: Rows, slices: list[Slice]) -> Told:
    """Of more classes: what was sent."""
    found = Exchange(run.location, VOTES).receive(slices)
    order = source_order(found["row"], rows, "votes")
    return found["likely"][order], found["level"][order]
