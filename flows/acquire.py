"""The acquiring flow: a pool without labels → the few that are worth buying, bought and kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import psutil

from flows.engine.cluster import machine_memory
from flows.engine.job import Job
from flows.engine.progress import Reporter
from flows.intake.labels import spelled_alike
from flows.kinds import labels_of
from flows.options.params import AcquireParams, Paged, Selected
from flows.orchestration.prefect_flow import computes, flow_of
from flows.orchestration.run_folders import to_make
from flows.orchestration.session import check_same, describe, job_of
from flows.report.review import WANTED
from flows.review import open_answers, take
from flows.review.purchases import (
    Oracle,
    Purchases,
    Waiting,
    callable_oracle,
    column_oracle,
    write_labels,
)
from flows.review.tables import export_answers
from flows.review.wanted import people
from flows.steps.graph.building import build
from flows.steps.graph.partition import Wanted
from flows.steps.ingest.pool import Ingested, ingest
from pipeline.arrays import Float32, Int64
from pipeline.graph.build import NeighborParams
from pipeline.graph.resources import choose_builder, training_seconds
from pipeline.methods.growing_net import N_NEIGHBORS, predict
from pipeline.methods.marmann import Prototypes as Bought
from storage.arrays.groups import read_array
from storage.errors import InputError, amount
from storage.runs.run import Run
from storage.sources.base import Source
from storage.sources.ids import StoredIds
from storage.sources.opening import open_source
from storage.sources.request import Coding

BOUGHT = "bought.csv"
PREDICTED = "labels.parquet"
FEWEST_ROWS = 6
SHOWN = 20
"""Labels that the text counts."""
ENOUGH = 50
"""Labels among which one that is of one row alone is worth a look."""


@computes(AcquireParams, name="acquire")
def run_acquire(params: AcquireParams) -> dict[str, Any]:
    """Buy the labels of a pool that are worth most, within a budget; those bought before are kept
    and never asked for again.

    Returns:
        labels known and bought, and the files that hold them, the rows that people are to label
        and the labels predicted for all rows
    """
    folder, reporter = Run.of(to_make(params.run)), Reporter(quiet=params.quiet)
    if not folder.location.is_local:
        raise InputError(
            f"--run {params.run}: labels that are bought are kept on this host; give a folder of it"
        )
    oracles = [word.split()[0] for word in params.given("oracle", "label_column", "page")]
    if len(oracles) > 1:
        raise InputError(f"{' and '.join(oracles)}: give one of them, each is an oracle")
    for word in () if params.page else params.given(*Paged.model_fields, "label_values"):
        raise InputError(f"{word.split()[0]} is for the page: give --page too, or leave it out")
    opened = open_source(
        params.source,
        label_column=params.label_column,
        with_labels=params.label_column is not None,
        dialect=params.dialect(),
        columns=replace(params.columns(), encodable=False),
        coding=Coding(parse=params.parsing()),
    )
    if not labels_of(opened).each_one:
        raise InputError(
            f"--label-column {params.label_column}: these are candidate sets, and labels that are "
            "bought are single; give another column"
        )
    oracle = None if params.oracle is None else callable_oracle(params.oracle)
    decisive = {"scale", "builder", "target_recall", "seed", *Selected.model_fields}
    method = params.model_dump(include=decisive)
    same = partial(check_same, params=method, default={}, source=opened)
    if not folder.is_new():
        folder.repair()
        same(folder.config())
    work = training_seconds(params.builder, opened.n_rows or 0, len(opened.feature_names))
    with job_of(folder, partial(describe, method, opened), params, work, reporter, same) as job:
        return _acquire(job, opened, params, oracle)


def _acquire(
    job: Job, source: Source, params: AcquireParams, oracle: Oracle | None
) -> dict[str, Any]:
    """The steps, in order."""
    ingested = job.task("ingest", ingest, source, path="pool", scale=params.scale, seed=params.seed)
    x, neighbor = _graph(job, ingested, params)
    values = tuple(ingested.label_values or ())
    file = open_answers(job.run, values, ingested.n_rows)
    n_before = sum(one.label is not None for one in file.answers.rows())
    ids = StoredIds.of(job.run.group("pool"))
    if params.answers is not None:
        take(file, params.answers, "wanted", overrule=False, ids=ids)
    if job.run.location.exists(WANTED):
        try:
            take(file, job.run.location.path(WANTED), "wanted", overrule=False, ids=ids)
        except InputError as error:
            raise InputError(f"{error}; or remove it, and what was filled in") from error
    oracle = column_oracle(job.run, values) if values else oracle
    desk = Purchases(file, job.run, oracle, ids)
    left = params.budget - len(desk.known())
    on_page = params.page and left > 0
    answer, waiting = None, 0
    try:
        with people(desk, x, neighbor, params) if on_page else nullcontext(oracle) as desk.oracle:
            answer = desk.buy(x, neighbor, left, params)
    except Waiting as wanted:
        waiting = len(wanted.rows)
    else:
        desk.wait_for([])
    known = desk.known()
    if answer is None and known:
        row, code = zip(*sorted(known.items()), strict=True)
        answer = Bought(np.array(row, np.int64), np.array(code), None, None)
    run = job.run.location
    if answer is not None:
        write_labels(run.path(PREDICTED), desk, predict(x, x, answer))
        export_answers(file, run.path(BOUGHT), ids)
    return {
        "n_rows": ingested.n_rows,
        "budget": params.budget,
        "n_known": len(known),
        "n_bought": len(known) - n_before,
        "label_counts": Counter(str(desk.values[code]) for code in known.values()),
        "n_wanted": waiting,
        "mode": params.mode,
        "scale": f"{ingested.scale}: {ingested.scale_reason}",
        "answers": str(file.path),
        "bought": None if answer is None else run.path(BOUGHT),
        "wanted": run.path(WANTED) if waiting else None,
        "labels": None if answer is None else run.path(PREDICTED),
    }


def _graph(job: Job, ingested: Ingested, params: AcquireParams) -> tuple[Float32, Int64]:
    """Features, scaled, and the lists of all rows; in this process, as a net is grown over all."""
    pool, scaling = ingested.pool(job.run, "pool"), ingested.scaling
    length = min(N_NEIGHBORS, pool.n_rows - 1)
    if pool.n_rows < FEWEST_ROWS:
        raise InputError(f"{pool.n_rows} rows are too few: at least {FEWEST_ROWS} are needed")
    room = min(psutil.virtual_memory().available, machine_memory())
    wanted = pool.n_rows * (4 * pool.n_features + 8 * 40)
    if wanted > room // 2:
        raise InputError(
            f"{pool.n_rows:,} rows take {wanted / 1e9:.1f} GB in this process, of {room / 1e9:.1f} "
            "free; buy labels of a sample of them"
        )
    builder = choose_builder(params.builder, pool.n_rows, pool.n_features)
    wish = Wanted(None, params.target_recall, length, builder == "exact", params.seed)
    how = NeighborParams(length, builder, seed=params.seed)
    blocks = build(job, pool, scaling, how, wish).blocks
    x = np.concatenate([scaling.apply(pool.read("x", rows)) for rows in pool.parts()])
    neighbor = np.empty((pool.n_rows, length), np.int64)
    for number in range(len(blocks.sizes)):
        group = job.run.group(f"graph/{number:05d}")
        neighbor[read_array(group, "row")] = read_array(group, "neighbor")
    return x, neighbor


def acquire_text(result: Mapping[str, Any]) -> str:
    """What a person reads."""
    lines = [
        f"{amount(result['n_rows'], 'row')}, {amount(result['n_known'], 'label')} known for a "
        f"budget of {result['budget']:,}, "
        f"{result['n_bought']:,} of them bought now; scale {result['scale']}",
    ]
    if result["mode"] == "practical":
        lines.append(
            "  by the growing net, which has no guarantee; --mode printed has one, and "
            "buys every label of a pool of this size"
        )
    if result["n_wanted"]:
        lines.append(
            f"{amount(result['n_wanted'], 'label is', 'labels are')} wanted: "
            f"fill in {result['wanted']} and run the "
            "same command again, or answer on a page with --page"
        )
    if result["labels"]:
        counts = sorted(result["label_counts"].items(), key=lambda one: (-one[1], one[0]))
        each = ", ".join(f"{label!r} {n:,}" for label, n in counts[:SHOWN])
        more = f" and {len(counts) - SHOWN:,} more values" if len(counts) > SHOWN else ""
        lines.append(f"bought: {each}{more}, in {result['bought']}")
        if spelled := spelled_alike(result["label_counts"]):
            lines.append(f"  {spelled}, and count as several; give rows of one again, as the other")
        alone = [repr(label) for label, n in counts if n == 1][:SHOWN]
        if alone and result["n_known"] >= ENOUGH:
            lines.append(
                f"  of one row alone: {', '.join(alone)}; what is misspelled is a class of its "
                "own, and train refuses such: give the row again, by the same reviewer"
            )
        lines.append(f"labels of all rows: {result['labels']}")
    return "\n".join(lines) + "\n"


__getattr__ = flow_of(run_acquire)
"""`acquire`, the Prefect flow of `run_acquire`."""
