"""The training flow: source → noise rates, corrected rule, suspect labels."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from flows.engine.claim import claimed
from flows.engine.cluster import check_reachable, fitting
from flows.engine.guard import refuse_while_imported
from flows.engine.job import Job, Output, outcomes, peak_rss_mb
from flows.engine.progress.reporter import Reporter
from flows.engine.tasks.as_task import as_task
from flows.engine.tasks.context import flow_run_context
from flows.intake.coding import learn
from flows.intake.coding import opened as open_training
from flows.intake.health import Health
from flows.options.params import TrainParams, as_keywords
from flows.orchestration.config import check_same, defaults, describe
from flows.orchestration.run_folders import dated, latest
from flows.orchestration.session import open_job, worker_memory
from flows.report import content as reports
from flows.report.compare import drift
from flows.report.content import builder_reason, recall_warning
from flows.report.estimates import of_classes, of_two
from flows.report.findings import order_warning
from flows.report.model import ClassReport, RunConfig, TrainReport
from flows.steps.anchors import find_anchors, find_pairs
from flows.steps.checks import Checked, check_data
from flows.steps.class_labels import find_class_issues
from flows.steps.classes import Classes, ClassEstimates, count_classes, estimate_classes
from flows.steps.ingest import Ingested, corrections_used, ingest
from flows.steps.labels import export_label_issues, find_label_issues
from flows.steps.partition import Blocks, Wanted
from flows.steps.rates import RateEstimates, count_labels, estimate_rates
from flows.steps.segments import find_segments
from flows.steps.widening import Graph, widen_until
from pipeline.diagnostics.segments import Segment
from pipeline.graph.build import NeighborParams, choose_builder, training_seconds
from pipeline.labels import LabelSpace
from pipeline.methods.rules import RULES
from storage.errors import InputError
from storage.location import Location
from storage.pool import Pool
from storage.redaction import bare
from storage.run import Run
from storage.sources import PLAIN_NUMBERS, Coding, Source, with_corrections

if TYPE_CHECKING:
    from prefect import Flow

    train: Flow[..., dict[str, Any]]

FEWEST_ROWS = 40
"""Rows below which no rate can be read off held-out labels."""


@as_keywords(TrainParams, name="train")
def run_train(params: TrainParams) -> dict[str, Any]:
    """Train on a noisily labeled source, or resume or repair a training.

    Returns:
        the report, as `report.json` holds it

    Raises:
        storage.errors.KnnoiseError: InputError, StorageError or ClusterError, each with a message
            for people.
    """
    refuse_while_imported()
    check_reachable(params)
    folder = Run(Location.of(dated(params.run)))
    reporter = Reporter(quiet=params.quiet)
    if params.review_wait is not None and flow_run_context() is None:
        raise InputError(
            "--review-wait pauses a Prefect flow, and this is none: answer by knnoise review, and "
            "train again with --corrections"
        )
    report = _trained(folder, params, reporter)
    if params.publish_review is None:
        return report.as_json()
    from flows.review.publish import published

    answers = published(folder, params, reporter)
    if answers is None:
        return report.as_json()
    checked = Run(Location.of(f"{folder.location.url}-checked"))
    again = {"corrections": answers, "compare_with": folder.location.url}
    return _trained(checked, params.model_copy(update=again), reporter).as_json()


def _trained(folder: Run, params: TrainParams, reporter: Reporter) -> TrainReport | ClassReport:
    """The report of the training in a folder, begun or gone on with."""
    health = _health(folder, params)
    opened = open_training(params, health, _coding(folder, params, health))
    if params.corrections is not None:
        opened = with_corrections(opened, params.corrections)

    def same(config: Mapping[str, Any]) -> None:
        check_same(config, params.method(), defaults(), opened)

    if not folder.is_new():
        same(folder.config())
        report = reports.finished_training(folder)
        if report is not None:
            reporter.say(f"{folder.location.url} is finished and whole: nothing to do")
            return report
    else:
        for line in [] if health is None else health.lines():
            reporter.say(line)
    guess = opened.n_rows or opened.n_bytes // (12 * (1 + len(opened.feature_names)))
    work = training_seconds(params.builder, guess, len(opened.feature_names))
    with (
        claimed(folder, lambda: describe(params.method(), opened, health), same, reporter) as owned,
        open_job(owned, fitting(params, work), reporter) as job,
    ):
        return _train(job, opened, params)


def _health(folder: Run, params: TrainParams) -> Health | None:
    """What a look at the source finds, or found when the run was begun; None for no look."""
    if not folder.is_new():
        folder.repair()
        return RunConfig.model_validate(folder.config()).health
    if params.preflight == "off":
        return None
    from flows.intake.preflight import Asked, look

    return look(
        params,
        params,
        leave_out=params.preflight == "fix",
        asked=Asked(params.scale, params.encode, params.impute),
    )


def _coding(folder: Run, params: TrainParams, health: Health | None) -> Coding:
    """What text columns and gaps become, or became when the run was begun."""
    if not folder.is_new():
        return Coding.of_json(RunConfig.model_validate(folder.config()).coding)
    return learn(params, health) if params.learns_coding else PLAIN_NUMBERS


def _train(job: Job, source: Source, params: TrainParams) -> TrainReport | ClassReport:
    """The steps, in order."""
    job.verify()
    seed = params.seed
    ingested = as_task(
        "ingest", lambda: ingest(job, source, path="pool", scale=params.scale, seed=seed)
    )
    pool, scaling = ingested.pool(job.run, "pool"), ingested.scaling
    _check_size(pool, params)
    _check_classes(ingested.labels(), params)
    builder = choose_builder(params.builder, pool.n_rows, pool.n_features)
    rule = RULES[params.rule]
    length = rule.list_length(params.k, pool.n_rows, builder)
    as_task("anchors", lambda: find_anchors(job, pool, scaling, length, rates_read(params)))
    pairs = as_task("pairs", lambda: find_pairs(job, pool, scaling, length))
    wanted = Wanted(params.block_rows, params.target_recall, length, builder == "exact", seed)
    how = NeighborParams(length, builder, seed=seed)
    graph = widen_until(job, pool, scaling, pairs, how, wanted)
    grid = rule.sizes(params.k, length)
    judge = _judge_two if ingested.labels().n_classes == 2 else _judge_classes
    estimated, issues = judge(job, pool, ingested, graph.blocks, grid, params)
    as_task("export", lambda: export_label_issues(job, ingested.label_values or []))

    checked = as_task(
        "checks",
        lambda: check_data(job, pool, graph.blocks, estimated.k, renumbered=ingested.n_dropped > 0),
    )

    segments = as_task("segments", lambda: find_segments(job, pool))

    def write(run: Run) -> Output:
        report = _report(
            job, params, ingested, builder, graph, estimated, issues, checked, segments
        )
        written = reports.save(run, report, reports.train_text(report))
        return Output([*written, *reports.describe(run, report)])

    as_task("report", lambda: job.once("report", write))
    return reports.load(job.run)


def _judge_two(
    job: Job,
    pool: Pool,
    ingested: Ingested,
    blocks: Blocks,
    grid: tuple[int, ...],
    params: TrainParams,
) -> tuple[RateEstimates, int]:
    """Rates and threshold of two classes, and the number of suspect labels."""
    counted = as_task("regression", lambda: count_labels(job, pool, blocks, grid))
    own = None
    if RULES[params.rule].own_pass:
        own_pass = import_module(f"flows.steps.{params.rule}")
        own = as_task("select", lambda: own_pass.select(job, blocks, grid, params.k, params.seed))
    rates = as_task("rates", lambda: estimate_rates(job, pool, counted, grid, params, own))
    issues = as_task("labels", lambda: find_label_issues(job, pool, counted, rates))
    return rates, issues


def _judge_classes(
    job: Job,
    pool: Pool,
    ingested: Ingested,
    blocks: Blocks,
    grid: tuple[int, ...],
    params: TrainParams,
) -> tuple[ClassEstimates, int]:
    """Matrix and rule of more than two classes, and the number of suspect labels."""
    classes = Classes(pool, tuple(ingested.class_counts or ()), params.seed)
    counted = as_task("regression", lambda: count_classes(job, classes, blocks, grid))
    found = as_task("rates", lambda: estimate_classes(job, classes, counted, grid, params))
    issues = as_task("labels", lambda: find_class_issues(job, classes, blocks, counted, found))
    return found, issues


def rates_read(params: TrainParams) -> bool:
    """Whether noise rates are read off the anchors' lists."""
    return params.noise == "crossfit" and params.p0 is None


def _check_size(pool: Pool, params: TrainParams) -> None:
    if pool.n_rows <= (params.k or 0):
        raise InputError(
            f"{pool.n_rows} rows are too few for {params.k} neighbors per row; lower --k"
        )
    if params.noise == "crossfit" and pool.n_rows < FEWEST_ROWS:
        raise InputError(
            f"{pool.n_rows} rows are too few for crossfit, which needs {FEWEST_ROWS}; "
            "use --noise minmax"
        )


def _check_classes(labels: LabelSpace, params: TrainParams) -> None:
    """`InputError` where a parameter is for two classes and there are more."""
    given = {
        "--rule": params.rule if params.rule != "corrected" else None,
        "--noise": params.noise if params.noise != "crossfit" else None,
        "--p0 and --p1": params.p0,
    }
    for option, value in given.items():
        if labels.n_classes > 2 and value is not None:
            raise InputError(
                f"{option} {value} is for two classes, and the labels have "
                f"{labels.n_classes:,}; leave it out"
            )


def _report(
    job: Job,
    params: TrainParams,
    ingested: Ingested,
    builder: str,
    graph: Graph,
    estimated: RateEstimates | ClassEstimates,
    n_label_issues: int,
    checked: Checked,
    segments: list[Segment],
) -> TrainReport | ClassReport:
    """Compose the report."""
    blocks, recall = graph.blocks, graph.recall
    remedy = "give --block-rows a larger value or --target-recall a lower one"
    assert ingested.label_name is not None
    common: dict[str, Any] = {
        "n_rows": ingested.n_rows,
        "n_features": ingested.n_features,
        "label_name": ingested.label_name,
        "label_values": ingested.label_values or [],
        "classes": ingested.label_values or [],
        "class_counts": ingested.class_counts or [],
        "k": estimated.k,
        "k_curve": estimated.k_curve,
        "rule": params.rule,
        "recall": recall.value,
        "recall_interval": recall.interval,
        "recall_rows": recall.n_rows,
        "target_recall": params.target_recall,
        "n_blocks": len(blocks.sizes),
        "largest_block_rows": max(blocks.sizes),
        "halo": blocks.halo,
        "copies": sum(blocks.sizes) / sum(blocks.core),
        "predicted_recall_ceiling": blocks.ceiling,
        "notes": graph.notes,
        "builder": builder,
        "builder_reason": builder_reason(params.builder, ingested.pool(job.run, "pool")),
        "block_rows": params.block_rows,
        "scale": ingested.scale,
        "scale_reason": ingested.scale_reason,
        "seed": params.seed,
        "n_label_issues": n_label_issues,
        "corrections": corrections_used(job.run),
        "warnings": [
            *recall_warning(recall.value, params.target_recall, remedy),
            *order_warning(checked.order),
        ],
        "seconds": dict(job.seconds),
        "peak_rss_mb": worker_memory(job),
        "driver_peak_rss_mb": peak_rss_mb(),
        "steps": outcomes(job.run),
        "n_outliers": checked.outliers,
        "n_near_duplicates": checked.near_duplicates,
        "n_contradicting": checked.contradicting,
        "order": checked.order,
        "segments": segments,
        "n_filled": ingested.n_filled,
        "n_dropped": ingested.n_dropped,
        "unseen": ingested.unseen,
        "config": RunConfig.model_validate(job.run.config()),
    }
    report: TrainReport | ClassReport
    if isinstance(estimated, RateEstimates):
        report = TrainReport(**common, **of_two(estimated, ingested.class_counts or []))
    else:
        report = ClassReport(**common, **of_classes(job.run, estimated, ingested))
    if params.compare_with is not None:
        warnings = [*report.warnings, *_drift(job, report, params.compare_with)]
        for warning in warnings:
            job.reporter.say(f"WARNING: {warning}")
        report = report.model_copy(update={"warnings": warnings})
    return report


def _drift(job: Job, report: TrainReport | ClassReport, compare_with: str) -> list[str]:
    """A sentence per rate that moved since an earlier training; none if there is none."""
    try:
        earlier = latest(compare_with, other_than=job.run.location.url)
    except InputError:  # the first of its kind
        return []
    changes = drift(reports.load(Run(Location.of(earlier))), report)
    return [f"{sentence}, since {bare(earlier)}" for sentence in changes.warnings]


def __getattr__(name: str) -> Any:
    """`train`, the Prefect flow of `run_train`, made when it is asked for: a plain run does not
    wait for Prefect to be imported."""
    if name != "train":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from flows.orchestration.prefect_flow import as_flow

    made = globals()["train"] = as_flow(run_train, "knnoise-train")
    return made
