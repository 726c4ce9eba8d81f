"""The training flow: source → noise rates, corrected rule, suspect labels."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from glob import has_magic
from shlex import quote
from typing import Any

from flows.engine.cluster import SHARED
from flows.engine.collectives.graph import PoolGraph
from flows.engine.job import Job, Output
from flows.engine.progress import Reporter
from flows.engine.tasks import flow_run_context
from flows.intake.coding import learn
from flows.intake.coding import opened as open_training
from flows.intake.health import Health
from flows.intake.labels import FEWEST_IN_ALL, refuse_quantity
from flows.kinds import LabeledGraph, labels_of
from flows.options.params import TrainParams
from flows.orchestration.prefect_flow import computes, flow_of
from flows.orchestration.run_folders import latest, to_make
from flows.orchestration.session import check_same, defaults, describe, job_of
from flows.report import content as reports
from flows.report.compare import drift, since_text
from flows.report.compose import composed
from flows.report.model import PoolReport, RunConfig, Training
from flows.scorings.scored import Finished
from flows.steps.findings.checks import check_data, find_worst
from flows.steps.graph.building import build
from flows.steps.graph.networks import choose_probes
from flows.steps.graph.partition import Wanted
from flows.steps.graph.together import count_groups, mark_mates
from flows.steps.ingest.pool import corrections_remarks, embedded
from flows.steps.ingest.transform import check_pca, learn_transform, probability_columns
from pipeline.graph.build import NeighborParams
from pipeline.graph.resources import choose_builder, training_seconds
from pipeline.noise.rates import FEWEST_ROWS
from storage.errors import InputError, KnnoiseError
from storage.redaction import bare
from storage.runs.pool import Pool
from storage.runs.run import Run
from storage.sources.base import Source
from storage.sources.joins import with_corrections
from storage.sources.request import Coding


@computes(TrainParams, name="train")
def run_train(params: TrainParams) -> dict[str, Any]:
    """Train on a noisily labeled source, or resume or repair a training.

    Returns:
        the report, as `report.json` holds it
    """
    folder = Run.of(to_make(params.run))
    reporter = Reporter(quiet=params.quiet)
    if params.review_wait is not None and flow_run_context() is None:
        raise InputError(
            "--review-wait pauses a Prefect flow, and this is none: answer by knnoise review, and "
            "train again with --corrections"
        )
    report = _trained(folder, params, reporter)
    if params.publish_review is None:
        return report
    from flows.review.publish import published

    answers = published(folder, params, reporter)
    if answers is None:
        return report
    checked = Run.of(f"{folder.location.url}-checked")
    again = {"corrections": answers, "compare_with": folder.location.url}
    return _trained(checked, params.model_copy(update=again), reporter)


def _trained(folder: Run, params: TrainParams, reporter: Reporter) -> dict[str, Any]:
    """The report of the training in a folder, begun or gone on with, and of its rows without a
    label."""
    health, coding = _understood(folder, params)
    opened = open_training(params, health, coding)
    labels_of(opened).refuse(params)
    if params.corrections is not None:
        opened = with_corrections(opened, params.corrections)
    report = _of_labels(folder, opened, health, params, reporter)
    if not report.n_unlabeled:
        return report.as_json()
    from flows.scorings.scored import predict_unlabeled

    predicted = predict_unlabeled(Finished(folder, report), opened, params, reporter)
    return {**report.as_json(), "unlabeled": predicted.as_json()}


def _of_labels(
    folder: Run, opened: Source, health: Health | None, params: TrainParams, reporter: Reporter
) -> PoolReport:
    """The report of the training itself."""
    check_pca(params.pca, len(opened.feature_names), opened.files[0])
    method = params.method()
    same = partial(check_same, params=method, default=defaults(), source=opened)
    if not folder.is_new():
        same(folder.config())
        report = reports.finished(folder, reports.training)
        if report is not None:
            reporter.say(f"{folder.location.url} is finished and whole: nothing to do")
            return report
    else:
        for line in [] if health is None else health.lines():
            reporter.say(line)
    if params.compare_with is not None and not has_magic(params.compare_with):
        reports.load(Run.of(latest(params.compare_with)))  # refused now, not at the end
    guess = opened.n_rows or opened.n_bytes // (12 * (1 + len(opened.feature_names)))
    work = training_seconds(params.builder, guess, params.pca or len(opened.feature_names))
    described = partial(describe, method, opened, health)
    with job_of(folder, described, params, work, reporter, same) as job:
        return _train(job, opened, params)


def _understood(folder: Run, params: TrainParams) -> tuple[Health | None, Coding]:
    """What a look at the source finds, None for no look, and what text columns and gaps become; of
    a run that is begun what they did then."""
    if not folder.is_new():
        folder.repair()
        config = RunConfig.model_validate(folder.config())
        return config.health, Coding.of_json(config.coding)
    health = None
    if params.preflight != "off":
        from flows.intake.preflight import look

        health = look(params)
        if params.preflight == "fix":
            refuse_quantity(health)
    return health, learn(params, health)


def _train(job: Job, source: Source, params: TrainParams) -> PoolReport:
    """The steps, in order."""
    seed, labels = params.seed, labels_of(source)
    ingested = labels.ingest(job, source, params)
    pool = ingested.pool(job.run, "pool")
    for remark in corrections_remarks(job.run, source):
        job.reporter.say(remark)
    labels.check(source, ingested, params)
    _check_size(pool, params, labels.rates_read(params), len(ingested.label_values or []))
    metric = labels.metric(params)
    n_groups = 0 if params.together is None else count_groups(pool, params.together)
    names, classes = source.feature_names, ingested.label_values or []
    stated = probability_columns(
        job.run, params.model_probabilities, names, classes, ingested.statistics
    )
    features = pool, ingested.scaling, metric, seed
    is_embedding = bool(embedded(source).all())
    scaling = job.task("metric", learn_transform, *features, embedded=is_embedding, columns=stated)
    builder = choose_builder(params.builder, pool.n_rows, params.pca or pool.n_features)
    length = labels.list_length(params, pool.n_rows, builder)
    machine = job.machine() if builder == "join" else SHARED
    exact = builder == "exact"
    wanted = Wanted(params.block_rows, params.target_recall, length, exact, seed, machine)
    how = NeighborParams(length, builder, seed=seed)
    read = len(classes) if labels.rates_read(params) or n_groups else 0
    graph = build(job, pool, scaling, how, wanted, n_classes=read, n_groups=n_groups)
    whole = PoolGraph(pool, len(graph.blocks.sizes), seed=seed)
    if n_groups:
        job.task("together", mark_mates, whole)
    apart = replace(whole, mates=graph.mates, length=length)
    judged = labels.judge(job, LabeledGraph(apart, ingested, length, params), source)
    of, renumbered = (whole, judged.estimated.k), ingested.left_out > 0
    checked = job.task("checks", check_data, *of, renumbered=renumbered, labeled=labels.each_one)
    columns = source.coding.groups(names).values()
    whose = labels.each_one and params.by is None and params.noise == "crossfit"
    worst = job.task("segments", find_worst, pool, scaling, columns, whose=whose)
    searched = graph.blocks, scaling, graph.pairs, judged.estimated.n_neighbors
    job.task("probes", choose_probes, *searched, params.target_recall, exact)

    def write(run: Run) -> Output:
        report = composed(job, params, ingested, builder, graph, judged, checked, worst)
        report = _since(job, report, params.compare_with)
        written = reports.save(run, report, reports.train_text(report))
        return Output([*written, *reports.describe(run, report)])

    job.task("report", Job.once, "report", write)
    return reports.load_any(job.run)


def _check_size(pool: Pool, params: TrainParams, rates_read: bool, n_classes: int) -> None:
    if pool.n_rows < FEWEST_IN_ALL:
        raise InputError(f"{pool.n_rows} rows are too few: at least {FEWEST_IN_ALL} are needed")
    if pool.n_rows <= (params.k or 0):
        raise InputError(
            f"{pool.n_rows} rows are too few for {params.k} neighbors per row; lower --k"
        )
    if rates_read and pool.n_rows < FEWEST_ROWS:
        given = (("--by", params.by), ("--together", params.together))
        named = (f"--exclude {quote(name)} for {option}, " for option, name in given if name)
        groups = "".join(named) + ("and " if params.by or params.together else "")
        remedy = f"use {groups}--noise minmax" if n_classes == 2 else "add rows"
        raise InputError(
            f"{pool.n_rows} rows are too few for crossfit, which needs {FEWEST_ROWS}; {remedy}"
        )


def _since(job: Job, report: PoolReport, compare_with: str | None) -> PoolReport:
    """The report with what changed since an earlier training, and a warning per rate that moved."""
    if compare_with is None:
        return report
    since, drifted = _drift(job, report.single(job.run.location.name), compare_with)
    warnings = [*report.warnings, *drifted]
    for warning in warnings:
        job.reporter.say(f"WARNING: {warning}")
    return report.model_copy(update={"warnings": warnings, "since": since})


def _drift(job: Job, report: Training, compare_with: str) -> tuple[list[str], list[str]]:
    """What changed since an earlier training, and a sentence per rate that moved; nothing if there
    is none, and why where its report cannot be read."""
    try:
        earlier = latest(compare_with, other_than=job.run.location.url)
    except InputError:  # the first of its kind
        return [], []
    name = bare(earlier)
    try:
        before = reports.load(Run.of(earlier))
    except KnnoiseError as error:  # which is no reason to lose what was trained
        return [f"since {name}: not compared: {error}"], []
    changes = drift(before, report)
    moved = [f"{sentence}, since {name}" for sentence in changes.warnings]
    return since_text(name, before, report, changes), moved


__getattr__ = flow_of(run_train)
"""`train`, the Prefect flow of `run_train`."""
