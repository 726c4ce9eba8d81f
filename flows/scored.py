"""One source scored with one training, in a folder of its own below the training's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

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


@dataclass(frozen=True)
class Trained:
    """A finished training."""

    run: Run
    report: dict[str, Any]

    @classmethod
    def of(cls, path: str) -> Trained:
        """Raise `InputError` where there is no finished run."""
        run = Run(Location.of(path))
        return cls(run, reports.load(run))

    def open(self, source: str) -> Source:
        """A source with the features of this training.

        Raises
        ------
        InputError
            it cannot be opened, or has other features.
        """
        config = self.report["config"]
        return open_source(
            source,
            with_labels=False,
            features=tuple(config["feature_names"]),
            ignore=config["label_name"],
        )

    def asked(self, source: Source) -> dict[str, Any]:
        """What the run.json of a scoring says; reads the source once for its digest."""
        return describe({"training": self.report["steps"]["rates"]["digest"]}, source)

    def model(self) -> probes.Model:
        """What the steps of a scoring need."""
        held = self.run.ledger.get("pool", "all")
        if held is None:
            raise InputError(
                f"{self.run.location.url}: its ledger has no pool; train again to repair"
            )
        told = self.report
        return probes.Model(
            self.run,
            Scaling(**held.result["scaling"]),
            told["k"],
            told["n_blocks"],
            Rule(**told["decision_rule"]),
            told["target_recall"],
            told["builder"] == "exact",
        )


def identity(asked: Mapping[str, Any]) -> str:
    """Name of a scoring: the same rows and the same training share one."""
    files = [
        (part["role"], part["name"], part["size"], part["digest"])
        for part in asked["source"]["files"]
    ]
    content = json.dumps([asked["parameters"], asked["source"]["kind"], files])
    return blake2b(content.encode(), digest_size=8).hexdigest()


def score_source(
    trained: Trained, source: Source, out: str, resources: Resources, reporter: Reporter
) -> dict[str, Any]:
    """Score a source and write the Parquet file `out`; only write it where it was scored before."""
    model, asked = trained.model(), trained.asked(source)
    name = identity(asked)
    folder = Run(Location.of(f"{trained.run.location.url}/scores/{name}"))
    report = _scored(folder)
    if report is None:
        if folder.is_new():
            folder.begin(asked)
        try:
            with open_job(folder, resources, reporter, compiled=False) as job:
                report = _score(job, source, model)
        except InputError:
            folder.location.remove()
            raise
    else:
        reporter.say("these rows were scored before: nothing to compute")
    scoring.export_scores(folder, out, name)
    return {**report, "out": out}


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
