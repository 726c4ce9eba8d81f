"""The scoring flow: new rows → η of the given labels, clean posterior, label."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import blake2b
from typing import Any

from prefect import flow

from flows import report as reports
from flows.cluster import Resources
from flows.config import describe
from flows.job import Job, intact, outcomes, peak_rss_mb
from flows.progress import Reporter
from flows.report import recall_warning
from flows.session import memory, open_job
from flows.steps import probes, scoring
from flows.steps.ingest import ingest, open_pool
from flows.tasks import as_task
from pipeline.rule import Rule
from pipeline.scale import Scaling
from storage.errors import InputError
from storage.location import Location
from storage.run import Run
from storage.sources import Source, open_source


@flow(name="knnoise-score", persist_result=False, validate_parameters=True)
def score(
    source: str,
    run: str,
    out: str,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Score the rows of a source with a finished training.

    Parameters
    ----------
    source : rows with the features of training; its label column, if there, is ignored
    run : folder of the finished training
    out : Parquet file to write: row, eta_corr, posterior, predicted_label, in the source's order
    workers, scheduler, quiet : as for `train`

    Returns
    -------
    the report: n_rows, recall, recall_interval, seconds, …

    Raises
    ------
    storage.errors.KnnoiseError
        InputError, StorageError or ClusterError, each with a message for people.
    """
    resources = Resources(workers, scheduler)
    resources.check()
    trained = Run(Location.of(run))
    told = reports.load(trained)
    model = _model(trained, told)
    config = told["config"]
    opened = open_source(
        source,
        with_labels=False,
        features=tuple(config["feature_names"]),
        ignore=config["label_name"],
    )
    asked = describe({"training": told["steps"]["rates"]["digest"]}, opened)
    folder = Run(Location.of(f"{trained.location.url}/scores/{_identity(asked)}"))
    reporter = Reporter(quiet=quiet)
    report = _scored(folder)
    if report is None:
        if folder.is_new():
            folder.begin(asked)
        try:
            with open_job(folder, resources, reporter, compiled=False) as job:
                report = _score(job, opened, model)
        except InputError:
            folder.location.remove()
            raise
    else:
        reporter.say("these rows were scored before: nothing to compute")
    scoring.export_scores(folder, out)
    return {**report, "out": out}


def _model(trained: Run, told: Mapping[str, Any]) -> probes.Model:
    held = trained.ledger.get("pool", "all")
    if held is None:
        raise InputError(f"{trained.location.url}: its ledger has no pool; train again to repair")
    return probes.Model(
        trained,
        Scaling(**held.result["scaling"]),
        told["k"],
        told["n_blocks"],
        Rule(**told["decision_rule"]),
        told["target_recall"],
    )


def _identity(asked: Mapping[str, Any]) -> str:
    """Name of the folder of a scoring: the same rows and the same training share one."""
    files = [
        (part["role"], part["name"], part["size"], part["digest"])
        for part in asked["source"]["files"]
    ]
    content = json.dumps([asked["parameters"], asked["source"]["kind"], files])
    return blake2b(content.encode(), digest_size=8).hexdigest()


def _scored(folder: Run) -> dict[str, Any] | None:
    report = folder.read_json("report.json")
    return report if report is not None and intact(folder, report["steps"]) else None


def _score(job: Job, source: Source, model: probes.Model) -> dict[str, Any]:
    """The steps, in order."""
    job.verify()
    held = as_task("ingest", lambda: ingest(job, source, path="queries", scale="none", seed=0))
    queries = open_pool(job.run, "queries", held)
    as_task("truth", lambda: probes.find_truth(job, model))
    sent = as_task("probes", lambda: probes.choose_probes(job, model))
    lists = as_task("search", lambda: scoring.search_queries(job, queries, model, sent))
    recall, ones = as_task(
        "scores", lambda: scoring.write_scores(job, queries, model, lists, sent["limit"])
    )
    target = model.target_recall
    report = {
        "n_rows": queries.n_rows,
        "n_predicted_1": ones,
        "recall": recall.value,
        "recall_interval": list(recall.interval),
        "recall_rows": recall.n_rows,
        "target_recall": target,
        "probes": sent["probes"],
        "k": model.k,
        **asdict(model.rule),
        "warnings": recall_warning(recall.value, target, "train again with larger --block-rows"),
        "seconds": dict(job.seconds),
        **memory(job, peak_rss_mb()),
        "steps": outcomes(job.run),
        "out": "",
    }
    return reports.save(job.run, report, reports.score_text(report))
