"""The report of a training, composed of what its steps found."""

from typing import Any, NamedTuple

from flows.engine.job import Job, outcomes, peak_rss_mb
from flows.intake.health import COARSE
from flows.options.params import TrainParams
from flows.report.content import builder_reason, recall_warning
from flows.report.findings import at_most_weak, copied_warning, order_warning, unlike_warning
from flows.report.lines import warnings as annotator_warnings
from flows.report.model import PoolReport, RunConfig, Training, fields_of
from flows.steps.findings.checks import DataChecked, Worst
from flows.steps.graph.building import Graph
from flows.steps.ingest.pool import Ingested, corrections_used
from flows.steps.ingest.transform import metric_used, pca_used
from flows.steps.sets.stages import stages
from pipeline.knn.lists import Recall
from pipeline.noise.annotator_verdicts import Annotators
from pipeline.noise.groups import Groups


class LabelsJudged(NamedTuple):
    """What was found about the labels of a pool."""

    kind: type[PoolReport]
    estimated: Any
    """The estimates that `kind` reports."""
    n_issues: int
    """Suspect labels."""
    n_wrong: float | None = None
    """Expected number of wrong labels, by their qualities; None where there are none."""
    n_contradicted: int | None = None
    """Labels that are not those predicted; None where labels are sets."""
    groups: Groups | None = None
    annotators: Annotators | None = None
    verdicts: Any = None
    """What else is said of all rows, of some kinds of labels."""


def costs(job: Job, recall: Recall) -> dict[str, Any]:
    """Fields of a report on time, memory, outcomes of steps, and recall. Memory is that of the
    largest worker by the records of all steps, or of this process where there is none."""
    workers = [
        record.cost["peak_rss_mb"]
        for run in (job.run, *stages(job.run))
        for record in run.ledger.every()
        if record.cost.get("on_worker")
    ]
    return {
        "seconds": dict(job.seconds),
        "peak_rss_mb": max(workers, default=peak_rss_mb()),
        "driver_peak_rss_mb": peak_rss_mb(),
        "steps": outcomes(job.run),
        "recall": recall.value,
        "recall_interval": recall.interval,
        "recall_rows": recall.n_rows,
    }


def composed(
    job: Job,
    params: TrainParams,
    ingested: Ingested,
    builder: str,
    graph: Graph,
    judged: LabelsJudged,
    checked: DataChecked,
    worst: Worst,
) -> PoolReport:
    """The report of a training."""
    config = RunConfig.model_validate(job.run.config())
    looked = [] if config.health is None else config.health.findings
    blocks, recall, metric = graph.blocks, graph.recall, metric_used(job.run)
    remedy = "give --block-rows a larger value or --target-recall a lower one"
    assert ingested.label_name is not None
    common: dict[str, Any] = {
        **fields_of(ingested, "n_rows", "n_features", "label_name", "scale", "scale_reason"),
        **fields_of(ingested, "n_filled", "n_dropped", "n_unlabeled", "n_repeated", "unseen"),
        **fields_of(params, "target_recall", "block_rows", "seed", "rule", "candidate_features"),
        **fields_of(judged, "n_wrong", "n_contradicted", "groups", "annotators"),
        **costs(job, recall),
        "label_values": ingested.label_values or [],
        "classes": ingested.label_values or [],
        "class_counts": ingested.class_counts or [],
        "n_blocks": len(blocks.sizes),
        "largest_block_rows": max(blocks.sizes),
        "halo": blocks.cut.halo,
        "copies": blocks.copies,
        "predicted_recall_ceiling": blocks.cut.ceiling,
        "notes": graph.notes,
        "builder": builder,
        "builder_reason": builder_reason(
            params.builder, ingested.n_rows, params.pca or ingested.n_features
        ),
        "pca": pca_used(job.run),
        "metric": None if metric is None else metric.choice,
        "n_together": graph.mates.groups,
        "n_label_issues": judged.n_issues,
        "warnings": [
            *recall_warning(recall, params.target_recall, remedy),
            *order_warning(checked.order),
            *annotator_warnings(judged.annotators),
            *(finding.text for finding in looked if finding.kind == COARSE),
        ],
        "n_outliers": checked.outliers,
        "n_near_duplicates": checked.near_duplicates,
        "n_contradicting": checked.contradicting,
        "order": checked.order,
        "segments": worst.segments,
        "config": config,
        "corrections": corrections_used(job.run),
    }
    report = judged.kind.of(common, job.run, judged.estimated, ingested, judged.verdicts)
    if isinstance(report, Training):
        unlike = unlike_warning(report, worst.unlike)
        report.warnings.extend([*unlike, *copied_warning(report)])
        if unlike:
            report = at_most_weak(report)
    return report
