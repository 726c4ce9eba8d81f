"""One source scored with one training, in a folder of its own below the training's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from flows.engine.claim import claimed
from flows.engine.job import Job, Output, outcomes, peak_rss_mb
from flows.engine.progress.reporter import Reporter
from flows.engine.tasks.as_task import as_task
from flows.options.params import Compute, Written
from flows.orchestration.config import describe
from flows.orchestration.session import open_job, worker_memory
from flows.report import content as reports
from flows.report.content import recall_warning
from flows.report.findings import in_training
from flows.report.model import (
    ClassReport,
    ClassScoreReport,
    RunConfig,
    ScoreReport,
    TrainReport,
)
from flows.steps import probes, scoring
from flows.steps.checks import Checked
from flows.steps.ingest import Ingested, ingest
from flows.steps.projection import PROJECTION, transform
from pipeline.methods.rules import Rule
from storage.errors import StorageError
from storage.location import Location
from storage.redaction import bare
from storage.run import Run, below
from storage.sources import Coding, Columns, Dialect, Source, open_source


@dataclass(frozen=True)
class Trained:
    """A finished training."""

    run: Run
    report: TrainReport | ClassReport

    @classmethod
    def of(cls, path: str) -> Trained:
        """Raise `InputError` where there is no finished run, `StorageError` where its ledger or its
        partition is damaged; blocks are checked where they are read."""
        run = Run(Location.of(path))
        report = reports.load(run)
        run.check(below("partition", PROJECTION))
        return cls(run, report)

    def open(self, source: str, written: Written | None = None) -> Source:
        """A source with the features of this training, its text as that of the training but for
        what `written` gives.

        Raises
        ------
        InputError
            it cannot be opened, or has other features.
        """
        config = self.report.config
        asked = config.parameters
        given = None if written is None else getattr(written, "id_column", None)
        columns = Columns(
            given or asked.get("id_column"),
            tuple(asked.get("features") or ()),
            tuple(asked.get("exclude") or ()),
            _left_out(config),
            id_needed=given is not None,
        )
        dialect = Dialect.of_json((config.source.model_extra or {}).get("dialect"))
        return open_source(
            source,
            with_labels=False,
            features=tuple(config.feature_names),
            ignore=config.label_name,
            dialect=dialect if written is None else written.dialect(dialect),
            columns=columns,
            coding=Coding.of_json(config.coding),
        )

    def config_for(self, source: Source) -> dict[str, Any]:
        """What the run.json of a scoring says; reads the source once for its digest."""
        return describe({"training": self.report.steps["rates"].digest}, source)

    def model(self) -> probes.Model:
        """What the steps of a scoring need."""
        record = self.run.ledger.get("pool", "all")
        if record is None:
            raise StorageError(
                f"{self.run.location.url}: its ledger has no pool; run train again to repair"
            )
        report, checked = self.report, self.run.ledger.get("data-issues", "all")
        return probes.Model(
            self.run,
            transform(self.run, Ingested.of(record).scaling),
            report.k,
            report.n_blocks,
            _rule(report),
            report.target_recall,
            report.builder == "exact",
            next(step for step in report.steps if step.split("-")[0] == "blocks"),
            0.0 if checked is None else Checked.of(checked).near,
        )


def _left_out(config: RunConfig) -> tuple[str, ...]:
    """Columns that are no features where they are there: left out of training, or whose label."""
    by = config.parameters.get("by")
    return (*(() if config.health is None else config.health.left_out), *([by] if by else []))


def _rule(report: TrainReport | ClassReport) -> Rule | probes.ClassRule:
    """The rule of a training."""
    if isinstance(report, TrainReport):
        return report.decision_rule
    return probes.ClassRule(len(report.classes), report.decision)


def identity(config: Mapping[str, Any]) -> str:
    """Name of a scoring: the same rows and the same training share one."""
    files = [
        (part["role"], part["name"], part["size"], part["digest"])
        for part in config["source"]["files"]
    ]
    written = [config["source"]["dialect"]] if "dialect" in config["source"] else []
    ids = [config["id_name"]] if "id_name" in config else []
    content = json.dumps([config["parameters"], config["source"]["kind"], files, *written, *ids])
    return blake2b(content.encode(), digest_size=8).hexdigest()


def score_source(
    trained: Trained, source: Source, out: str, compute: Compute, reporter: Reporter
) -> ScoreReport | ClassScoreReport:
    """Score a source and write the Parquet file `out`; only write it where it was scored before."""
    config = trained.config_for(source)
    name = identity(config)
    folder = Run(Location.of(f"{trained.run.location.url}/scores/{name}"))
    return score_into(folder, trained, source, config, out, compute, reporter)


def score_into(
    folder: Run,
    trained: Trained,
    source: Source,
    config: Mapping[str, Any],
    out: str,
    compute: Compute,
    reporter: Reporter,
) -> ScoreReport | ClassScoreReport:
    """Score a source, its steps kept in a folder, and write the Parquet file `out`."""
    report = reports.finished_scoring(folder)
    if report is None:
        model = trained.model()
        with (
            claimed(folder, lambda: config, lambda _: None, reporter) as owned,
            open_job(owned, compute, reporter) as job,
        ):
            report = _score(job, source, model, trained.report)
    else:
        reporter.say("these rows were scored before: nothing to compute")
    scoring.export_scores(folder, out, identity(config), trained.report.classes)
    return report.model_copy(update={"out": bare(out)})


def _score(
    job: Job, source: Source, model: probes.Model, training: TrainReport | ClassReport
) -> ScoreReport | ClassScoreReport:
    """The steps, in order."""
    job.verify()
    ingested = as_task("ingest", lambda: ingest(job, source, path="queries", scale="none", seed=0))
    queries = ingested.pool(job.run, "queries")
    as_task("truth", lambda: probes.find_truth(job, model))
    probes_of = as_task("probes", lambda: probes.choose_probes(job, model))
    lists = as_task("search", lambda: scoring.search_queries(job, queries, model, probes_of))
    total = as_task("scores", lambda: scoring.write_scores(job, queries, model, lists, probes_of))
    recall, predicted, target = total.recall, total.predicted, model.target_recall

    def write(run: Run) -> Output:
        common: dict[str, Any] = {
            "n_rows": queries.n_rows,
            "classes": training.classes,
            "n_predicted": predicted,
            "recall": recall.value,
            "recall_interval": recall.interval,
            "recall_rows": recall.n_rows,
            "target_recall": target,
            "probes": probes_of.probes,
            "k": model.k,
            "n_equal_to_training": total.equal,
            "n_near_training": total.near,
            "warnings": [
                *recall_warning(recall.value, target, "train again with larger --block-rows"),
                *in_training(total.equal, total.near, queries.n_rows, training),
            ],
            "seconds": dict(job.seconds),
            "peak_rss_mb": worker_memory(job),
            "driver_peak_rss_mb": peak_rss_mb(),
            "steps": outcomes(job.run),
            "out": "",
            "n_filled": ingested.n_filled,
            "n_dropped": ingested.n_dropped,
            "unseen": ingested.unseen,
        }
        rule = model.rule
        report: ScoreReport | ClassScoreReport
        if isinstance(rule, probes.ClassRule):
            report = ClassScoreReport(**common, rule="corrected", part=rule.decision.part)
        else:
            told = {"rule": rule.rule, "threshold": rule.threshold, "p0": rule.p0, "p1": rule.p1}
            report = ScoreReport(**common, **told, n_predicted_1=predicted[1])
        return Output([*reports.save(run, report, reports.score_text(report)), *run.describe({})])

    as_task("report", lambda: job.once("report", write))
    return reports.load_scoring(job.run)
