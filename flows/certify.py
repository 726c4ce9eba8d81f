"""The certifying flow: a training's graph → bounds of its rules' errors, without held-out rows."""

from __future__ import annotations

from typing import Any

from flows.engine.collectives.graph import PoolGraph
from flows.engine.job import Job, Output, outcomes
from flows.engine.progress import Reporter
from flows.options.params import CertifyParams
from flows.orchestration.prefect_flow import computes, flow_of
from flows.orchestration.run_folders import latest
from flows.orchestration.session import job_of
from flows.report import content as reports
from flows.report.certificate import CertifyReport, ErrorBound, HeldOut, certify_text
from flows.report.findings import order_warning, together_lines
from flows.report.truth import reliability
from flows.scorings.scored import Trained
from flows.steps.labels.certificates import sample_graph
from pipeline.blocks.metric import AS_SCALED, COSINE
from pipeline.graph.resources import pass_seconds
from pipeline.methods import speculate_correct as bounds
from pipeline.methods.speculate_correct import Counts, Design
from storage.arrays.groups import array
from storage.errors import InputError
from storage.runs.run import Run

SPARE = 20
"""Neighbors beyond k with which a list hardly cuts a sample off."""
WORTH = 0.8
"""Share of the width below which longer lists are recommended."""


@computes(CertifyParams, name="certify")
def run_certify(params: CertifyParams) -> dict[str, Any]:
    """Bound the errors of a finished training's rules from its own rows.

    Returns:
        the report: bounds of the majority of k and of the training's rule, of the clean error where
        the rates allow it, and what their width is made of
    """
    trained = Trained.of(latest(params.run))
    curve = reliability(trained.report, params.scores, params.truth, params.truth_column)
    held_out = None
    if curve is not None:
        held_out = HeldOut.of(curve.n_rows, 1.0 - curve.accuracy, params.delta)
    certified = _certified(trained, params, Reporter(quiet=params.quiet))
    return certified.model_copy(update={"held_out": held_out}).as_json()


def _certified(trained: Trained, params: CertifyParams, reporter: Reporter) -> CertifyReport:
    """The certificate, made or made before."""
    design = _design(trained, params)
    by_params = params.model_dump(include={"delta", "samples", "seed"})
    parameters = {"k": design.k, "k_fixed": _is_fixed(trained, params), **by_params}
    folder, config = trained.made_below("certificates", parameters)
    report = reports.finished(folder, CertifyReport.model_validate)
    if report is not None:
        reporter.say("this was certified before: nothing to compute")
        return report
    work = pass_seconds(trained.report.n_rows)
    with job_of(folder, lambda: config, params, work, reporter) as job:
        return _certify(job, trained, design, params)


def _design(trained: Trained, params: CertifyParams) -> Design:
    """(r, m) for the graph's rows and lists; looks at no label."""
    report = trained.report
    length = array(trained.run.group("graph/00000"), "neighbor_label").shape[1]
    k = params.k or report.k
    if k > length:
        raise InputError(
            f"--k {k}: the graph of {params.run} has lists of {length} neighbors; give at most that"
        )
    try:
        best = bounds.best_design(report.n_rows, k, length, params.samples, params.delta)
    except ValueError as error:
        raise InputError(f"{params.run}: {error}") from error
    return bounds.enough_samples(best, params.delta)


def _is_fixed(trained: Trained, params: CertifyParams) -> bool:
    """Whether k was given, here or to the training, rather than chosen by the labels."""
    return params.k is not None or trained.report.config.parameters.get("k") is not None


def _certify(job: Job, trained: Trained, design: Design, params: CertifyParams) -> CertifyReport:
    """The steps, in order."""
    source = trained.report
    graph, n_classes = PoolGraph(trained.pool(), source.n_blocks), len(source.class_counts)
    by = design, source.verdicts(), n_classes, params.seed
    plain, ours = job.task("samples", sample_graph, graph, *by)

    def write(run: Run) -> Output:
        report = _report(job, trained, design, plain, ours, params)
        return Output([*reports.save(run, report, certify_text(report)), *run.describe({})])

    job.task("report", Job.once, "report", write)
    return reports.load_as(job.run, CertifyReport.model_validate)


def _report(
    job: Job, trained: Trained, design: Design, plain: Counts, ours: Counts, params: CertifyParams
) -> CertifyReport:
    """Bounds of both rules. A k or a threshold that was chosen by the very labels is one of several
    rules that are certified at once."""
    source, fixed = trained.report, _is_fixed(trained, params)
    sizes = (design.k,) if fixed else source.k_curve.grid
    majority = bounds.certify(plain, design, params.delta, n_rules=len(sizes))
    short = plain.short_rows
    warnings = order_warning(source.order)
    warnings += [f"{line}; bounds take rows as independent" for line in together_lines(source)]
    if source.recall < 1:
        warnings.append(
            f"neighbors were searched at recall {source.recall:.4f}: the bounds are of the rule "
            "that votes among the neighbors found, and are exact for exact lists only"
        )
    learned = source.metric
    if learned and source.config.parameters["metric"] not in (AS_SCALED, COSINE):
        warnings.append(
            f"the metric, {learned.metric}, comes from these labels, and bounds hold for one that "
            "does not: train with --metric as-scaled"
        )
    longer = bounds.best_design(
        design.n, design.k, min(design.n - 1, design.k + SPARE), design.samples, params.delta
    )
    least = bounds.epsilon(longer, params.delta).total
    if least < WORTH * bounds.epsilon(design, params.delta).total:
        warnings.append(
            f"lists of {design.w} neighbors are short for k = {design.k}: with longer ones the "
            f"width would be {least:.3f}; train with --k {design.k + SPARE}, and give --k "
            f"{design.k} here"
        )
    if majority.half_width >= 0.5:
        warnings.append(
            f"{design.n:,} rows and lists of {design.w} are too few for a bound at k = {design.k}; "
            "more rows, a smaller --k or a training with longer lists narrow it"
        )
    if short:
        warnings.append(f"{short:,} rows have fewer than {design.w} neighbors; this widens bounds")
    return CertifyReport(
        n_rows=design.n,
        k=design.k,
        k_fixed=fixed,
        delta=params.delta,
        r=design.r,
        m=design.m,
        list_length=design.w,
        samples=plain.samples,
        short_rows=short,
        majority=ErrorBound.of(majority, len(sizes)),
        **source.certified(ours, design, params.delta, sizes),
        warnings=warnings,
        seconds=dict(job.seconds),
        steps=outcomes(job.run),
    )


__getattr__ = flow_of(run_certify)
"""`certify`, the Prefect flow of `run_certify`."""
