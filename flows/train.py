"""The training flow: source → noise rates, corrected rule, suspect labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from prefect import flow

from flows import report as reports
from flows.cluster import Resources
from flows.compare import drift
from flows.config import TrainParams, check_same, describe
from flows.hooks import tell_how_to_resume
from flows.job import Job, intact, outcomes, peak_rss_mb
from flows.limits import STEP_TIMEOUT
from flows.naming import dated, latest
from flows.parameters import (
    BlockRows,
    Builder,
    K,
    Noise,
    Rate,
    Recall,
    Rule,
    Scale,
    Seconds,
    Seed,
    WorkerCount,
)
from flows.progress import Reporter
from flows.report import DESCRIBED, REPORTED, builder_reason, recall_warning
from flows.security import Tls
from flows.session import memory, open_job, reopen
from flows.steps.anchors import find_anchors, find_pairs
from flows.steps.folds import choose_sizes
from flows.steps.ingest import ingest, open_pool
from flows.steps.labels import find_label_issues
from flows.steps.rates import count_labels, estimate_rates
from flows.tasks import as_task
from flows.widening import recall_json, widen_until
from pipeline.neighbours import NeighbourParams, choose_builder
from pipeline.scale import Scaling
from storage.errors import InputError
from storage.location import Location
from storage.pool import Pool
from storage.run import Run
from storage.sources import Source, open_source

FEWEST_ROWS = 40
"""Rows below which no rate can be read off held-out labels."""


@flow(
    name="knnoise-train",
    persist_result=False,
    validate_parameters=False,  # TrainParams does, in terms of the command line
    on_failure=[tell_how_to_resume],
    on_crashed=[tell_how_to_resume],
    on_cancellation=[tell_how_to_resume],
)
def train(
    source: str,
    run: str,
    *,
    labels: str | None = None,
    label_column: str | None = None,
    k: K = None,
    noise: Noise = "crossfit",
    rule: Rule = "corrected",
    p0: Rate = None,
    p1: Rate = None,
    builder: Builder = "auto",
    block_rows: BlockRows = None,
    scale: Scale = "none",
    target_recall: Recall = 0.95,
    seed: Seed = 0,
    workers: WorkerCount = None,
    scheduler: str | None = None,
    tls_ca: str | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    compare_with: str | None = None,
    performance_report: bool = False,
    step_timeout: Seconds = STEP_TIMEOUT,
    quiet: bool = False,
) -> dict[str, Any]:
    """Train on a noisily labelled source, or resume or repair a training.

    Args:
        source: CSV, Parquet (file or folder), npy, npz or Zarr; a path or an fsspec URL
        run: folder of the run, new or begun by the same call; `{date:%G-W%V}` in it is replaced
        labels: file of labels where the source has none
        label_column: column (or array) of the labels
        k: neighbours of each row; none chooses
        noise: crossfit, or minmax (Algorithm 2 of Reeve & Kabán 2019)
        rule: corrected, or rknn (Gao, Yang & Zhou), which estimates the rates its own way
        p0: P(given 1 | true 0), where both rates are known
        p1: P(given 0 | true 1), where both rates are known
        builder: auto, pynndescent or exact
        block_rows: rows at home in a block; none chooses
        scale: scaling of the features: none, range or standard
        target_recall: share of true neighbours to find
        seed: of everything random
        workers: local processes; none is one a core, 0 computes in the flow's own process
        scheduler: address of a Dask scheduler; DASK_SCHEDULER_ADDRESS where none
        tls_ca: PEM file of the authority for a tls:// scheduler; Dask's configuration where none
        tls_cert: PEM file of the certificate to show to the scheduler
        tls_key: PEM file of its private key
        compare_with: an earlier training, of a pattern like `runs/pool-*` the last by name:
            where the noise rates have drifted since, the report warns
        performance_report: keep Dask's performance report as `performance.html` in the run
        step_timeout: seconds that Prefect lets one try of a step take
        quiet: no progress on stderr

    Returns:
        the report, as `report.json` holds it

    Raises:
        storage.errors.KnnoiseError: InputError, StorageError or ClusterError, each with a message
            for people.
    """
    run = dated(run)
    params = TrainParams(k, noise, rule, p0, p1, builder, block_rows, scale, target_recall, seed)
    params.check()
    resources = Resources(workers, scheduler, Tls(tls_ca, tls_cert, tls_key))
    resources.check()
    opened = open_source(source, labels, label_column)
    folder = Run(Location.of(run))
    if folder.is_new():
        folder.begin(describe(asdict(params), opened))
    else:
        check_same(folder.config(), asdict(params), opened)
    reporter = Reporter(quiet=quiet)
    told = folder.read_json("report.json")
    if told is not None and intact(folder, told["steps"]):
        reporter.say(f"{folder.location.url} is finished and whole: nothing to do")
        return reports.load(folder)
    guess = opened.n_rows or opened.n_bytes // (12 * (1 + len(opened.feature_names)))
    chosen = choose_builder(builder, guess, len(opened.feature_names))
    compiled = chosen == "pynndescent" and not folder.ledger.records("regression")
    try:
        with open_job(
            folder, resources, reporter, compiled=compiled, performance=performance_report
        ) as job:
            return _train(job, opened, params, compare_with)
    except InputError:
        if folder.ledger.get("anchors", "all") is None:  # nothing of worth was made yet
            folder.location.remove()
        raise


def _train(
    job: Job, source: Source, params: TrainParams, compare_with: str | None
) -> dict[str, Any]:
    """The steps, in order."""
    job.verify()
    seed = params.seed
    held = as_task(
        "ingest", lambda: ingest(job, source, path="pool", scale=params.scale, seed=seed)
    )
    pool = open_pool(job.run, "pool", held)
    _check_size(pool, params)
    builder = choose_builder(params.builder, pool.n_rows, pool.n_features)
    k = params.list_length(pool.n_rows, builder)
    reopen(job, compiled=builder == "pynndescent" and not job.run.ledger.records("regression"))
    scaling = Scaling(**held["scaling"])
    as_task("anchors", lambda: find_anchors(job, pool, scaling, k))
    pairs = as_task("pairs", lambda: find_pairs(job, pool, scaling, k))
    wish = {
        "block_rows": params.block_rows,
        "target_recall": params.target_recall,
        "k": k,
        "exact": builder == "exact",
        "seed": seed,
    }
    how = NeighbourParams(k, builder, seed=seed)
    graph = widen_until(job, pool, scaling, pairs, how, wish)
    grid = params.grid(k)
    counted = as_task("regression", lambda: count_labels(job, pool, graph.blocks, grid))
    folds = None
    if params.rule == "rknn":
        folds = as_task("folds", lambda: choose_sizes(job, graph.blocks, grid, params.k, seed))
    rates = as_task("rates", lambda: estimate_rates(job, pool, counted, grid, params, folds))
    issues = as_task("labels", lambda: find_label_issues(job, pool, counted, rates))
    found = {**held, **recall_json(graph), **rates, **issues, "builder": builder}
    return as_task("report", lambda: _report(job, params, found, compare_with))


def _check_size(pool: Pool, params: TrainParams) -> None:
    if pool.n_rows <= (params.k or 0):
        raise InputError(
            f"{pool.n_rows} rows are too few for {params.k} neighbours of each; lower --k"
        )
    if params.noise == "crossfit" and pool.n_rows < FEWEST_ROWS:
        raise InputError(
            f"{pool.n_rows} rows are too few for crossfit, which needs {FEWEST_ROWS}; "
            "use --noise minmax"
        )


def _report(
    job: Job, params: TrainParams, found: Mapping[str, Any], compare_with: str | None
) -> dict[str, Any]:
    """Compose the report, write it, and describe the results in their attributes."""
    remedy = "give --block-rows a larger value or --target-recall a lower one"
    report = {
        **asdict(params),
        **{name: found[name] for name in REPORTED},
        "builder": found["builder"],
        "builder_reason": builder_reason(params.builder, found),
        "threshold": found["decision_rule"]["threshold"],
        "warnings": recall_warning(found["recall"], params.target_recall, remedy),
        "seconds": dict(job.seconds),
        **memory(job, peak_rss_mb()),
        "steps": outcomes(job.run),
        "config": job.run.config(),
    }
    if compare_with is not None:
        report["warnings"] += _drift(job, report, compare_with)
        for warning in report["warnings"]:
            job.reporter.say(f"WARNING: {warning}")
    attributes = {name: report[name] for name in DESCRIBED}
    digests = {step: told["digest"] for step, told in report["steps"].items()}
    job.run.describe("", {**attributes, "digests": digests, "config": report["config"]})
    return reports.save(job.run, report, reports.train_text(report))


def _drift(job: Job, report: Mapping[str, Any], compare_with: str) -> list[str]:
    """A sentence for each rate that moved since an earlier training; none where there is none."""
    try:
        earlier = latest(compare_with, other_than=job.run.location.url)
    except InputError:  # the first of its kind
        return []
    told = drift(reports.load(Run(Location.of(earlier))), report)
    return [f"{sentence}, since {earlier}" for sentence in told["warnings"]]
