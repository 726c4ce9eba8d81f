"""One source scored with one training, in a folder of its own below the training's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from flows.engine.job import Job, Output
from flows.engine.progress import Reporter
from flows.engine.results import result_of
from flows.options.params import Compute, ScoreParams
from flows.orchestration.session import describe, job_of
from flows.report import content as reports
from flows.report.compose import costs
from flows.report.content import UNLABELED, UNLABELED_TABLE, recall_warning
from flows.report.findings import far_from_training, in_training
from flows.report.model import PoolReport, RunConfig, Scoring, Training, fields_of
from flows.report.review import LOG
from flows.steps.findings.checks import DataChecked
from flows.steps.graph.networks import Probes
from flows.steps.ingest.pool import Ingested, ingested
from flows.steps.ingest.transform import (
    CURVES,
    METRIC,
    PROJECTION,
    TREES,
    check_probabilities,
    metric_used,
    transform,
)
from flows.steps.queries import scoring, searching
from flows.steps.queries.features import prepare_queries, read_queries
from flows.steps.sets.stages import check_stages, features_of
from pipeline.diagnostics.neighborhood import Usual
from pipeline.graph.resources import scoring_seconds
from storage.errors import InputError, StorageError, amount
from storage.redaction import bare
from storage.runs.pool import Pool
from storage.runs.run import MADE, Run, below, runs_above
from storage.sources.base import Source, same
from storage.sources.opening import open_source
from storage.sources.request import Coding, Columns, Dialect

_ROLES = ("features", "ids", "groups")
"""Files of a source that are not its labels alone, which stand in the run."""


@dataclass(frozen=True)
class Finished:
    """A finished training."""

    run: Run
    report: PoolReport
    all_classes: bool = False
    """Whether the posterior of every class is wanted."""

    @classmethod
    def of(cls, path: str, all_classes: bool = False) -> Finished:
        """Raise `InputError` where there is no finished run, `StorageError` where its ledger or its
        partition is damaged; blocks are checked where they are read."""
        run = Run.of(path)
        run.config()
        report = reports.load_any(run)
        run.check(below("partition", PROJECTION, METRIC, CURVES, TREES))
        check_stages(run, whole=False)
        report.refuse("all_classes", all_classes)
        return cls(run, report, all_classes)

    def check_apart(self, target: str) -> None:
        """Raise `InputError` where a file to be written is this run's or another's own, or one that
        this one was trained on."""
        if "://" in target:
            return
        file = Path(target).resolve()
        for home in runs_above(file):
            key, records = file.relative_to(home).as_posix(), Run.of(home).ledger.every()
            if key.startswith((*MADE, LOG)) or any(key in record.files for record in records):
                raise InputError(f"{target}: is the run's own; name another")
        size = file.stat().st_size if file.is_file() else -1
        trained = [f for f in self.report.config.source.files if f.role != "corrections"]
        if any((one.name, one.size) == (file.name, size) for one in trained):
            raise InputError(f"{target}: is what the run was trained on; name another")

    def open(self, source: str, params: ScoreParams) -> Source:
        """A source with the features of this training, its text as that of the training but for
        what `params` give.

        Raises `InputError` where it cannot be opened, or has other features.
        """
        config = self.report.config
        parameters = config.parameters
        columns = Columns(
            params.id_column or parameters.get("id_column"),
            tuple(parameters.get("features") or ()),
            (*(parameters.get("exclude") or ()), *(params.exclude or ())),
            _left_out(config),
            id_needed=params.id_column is not None,
        )
        self.report.refuse("candidates", params.candidates)
        return open_source(
            source,
            label_column=params.candidates,
            with_labels=params.candidates is not None,
            candidates=None if params.candidates is None else parameters.get("candidates") or "",
            features=tuple(config.feature_names),
            ignore=config.label_name,
            dialect=params.dialect(Dialect(**config.source.written)),
            columns=columns,
            coding=Coding.of_json(config.coding),
        )

    def config_for(self, source: Source, rows: str | None = None) -> dict[str, Any]:
        """What the run.json of a scoring says; reads the source once for its digest."""
        more: dict[str, Any] = {"all_classes": True} if self.all_classes else {}
        more |= {} if source.label_name is None else {"candidates": source.label_name}
        more |= {} if rows is None else {"rows": rows}
        return describe({"training": self.report.rule_digest, **more}, source)

    def work(self, sources: Iterable[Source]) -> float:
        """About how many core seconds it takes to score some sources."""
        model, n_features = self.model(), self.report.n_features
        work = 0.0
        for source in sources:
            guess = source.n_bytes // (12 * max(1, n_features))
            work += scoring_seconds(
                source.n_rows or guess,
                model.n_rows,
                n_features,
                self.report.n_rows / model.n_blocks,
                model.probes.probes,
                walked=model.probes.steps is not None,
            )
        return work

    def model(self) -> searching.Model:
        """What the steps of a scoring need."""
        record, chosen = (self.run.ledger.get(step, "all") for step in ("pool", "probes"))
        if record is None or chosen is None:
            raise StorageError(
                f"{self.run.location.url}: its ledger has no "
                f"{'pool' if record is None else 'probes'}; run train again to repair"
            )
        report, checked = self.report, self.run.ledger.get("data-issues", "all")
        done = result_of(record, Ingested)
        pool = done.pool(self.run, "pool")
        data = None if checked is None else result_of(checked, DataChecked)
        usual: tuple[Usual | None, int] = (None, 1)
        if data is not None and data.usual is not None:
            usual = data.usual, data.k
        return searching.Model(
            self.run,
            transform(self.run, done.scaling),
            report.scoring_rule.n_neighbors,
            report.n_blocks,
            report.scoring_rule,
            pool.n_rows,
            report.target_recall,
            result_of(chosen, Probes),
            next(step for step in report.steps if step.split("-")[0] == "blocks"),
            *usual,
            self.all_classes,
        )


@dataclass(frozen=True)
class Trained(Finished):
    """A finished training on single labels."""

    report: Training

    @classmethod
    def of(cls, path: str, all_classes: bool = False) -> Trained:
        """Raises as that of any training, and `InputError` where labels are candidate sets."""
        finished = Finished.of(path, all_classes)
        return cls(finished.run, finished.report.single(finished.run.location.name), all_classes)

    def pool(self) -> Pool:
        """The rows that were trained on."""
        return Pool(self.run, "pool", self.report.n_rows, self.report.n_features)

    def made_below(self, folder: str, parameters: Mapping[str, Any]) -> tuple[Run, dict[str, Any]]:
        """A run that is made of this one by some parameters, below it, and its config."""
        parameters = {"training": self.report.rule_digest, **parameters}
        name = blake2b(json.dumps(parameters).encode(), digest_size=8).hexdigest()
        run = self.run.below(f"{folder}/{name}")
        return run, {**self.run.config(), "parameters": parameters}

    def recorded(self) -> dict[str, Any]:
        """The source as the run has it, without files of labels, corrections and annotations."""
        source = self.report.config.source.model_dump()
        return {**source, "files": [one for one in source["files"] if one["role"] in _ROLES]}

    def stored(self, path: str, dialect: Callable[[Dialect], Dialect]) -> Source:
        """The training's source, which is at this path, with its columns as they are stored.

        dialect : how its texts are read, of how the training read them

        Raises `InputError` where something else is there.
        """
        how = dialect(Dialect(**self.report.config.source.written))
        source = open_source(path, with_labels=False, raw=True, dialect=how)
        changed = same(self.recorded(), source)
        if changed:
            raise InputError(
                f"{bare(path)}: is not what {self.run.location.name} was trained on: {changed}; "
                "give that, or train on this"
            )
        return source


def _left_out(config: RunConfig) -> tuple[str, ...]:
    """Columns that are no features where they are there: left out of training, whose label, or
    what belongs together."""
    named = (config.parameters.get(name) for name in ("by", "together"))
    left_out = () if config.health is None else config.health.left_out
    return (*left_out, *(name for name in named if name))


def identity(config: Mapping[str, Any]) -> str:
    """Name of a scoring: the same rows, training and version share one."""
    files = [
        (part["role"], part["name"], part["size"], part["digest"])
        for part in config["source"]["files"]
    ]
    written = [config["source"]["dialect"]] if "dialect" in config["source"] else []
    ids = [config["id_name"]] if "id_name" in config else []
    by = [config["versions"]["knnoise"], config["parameters"], config["source"]["kind"]]
    content = json.dumps([*by, files, *written, *ids])
    return blake2b(content.encode(), digest_size=8).hexdigest()


def score_source(
    trained: Finished,
    source: Source,
    out: str,
    compute: Compute,
    reporter: Reporter,
    rows: str | None = None,
) -> Scoring:
    """Score a source and write the Parquet file `out`; only write it where it was scored before.

    rows : of the training's own source, their name, which is that of their folder too
    """
    config = trained.config_for(source, rows)
    folder = trained.run.below(rows or f"scores/{identity(config)}")
    report = reports.finished(folder, reports.scoring)
    if report is None:
        model, work = trained.model(), trained.work([source])
        with job_of(folder, lambda: config, compute, work, reporter) as job:
            report = _score(job, source, model, trained.report)
    else:
        reporter.say("these rows were scored before: nothing to compute")
    of = trained.report.scoring_rule, trained.report.classes, trained.all_classes
    metadata = {scoring.SCORING: identity(config), scoring.TRAINING: trained.report.rule_digest}
    scoring.export_scores(folder, out, metadata, *of)
    return report.model_copy(update={"out": bare(out)})


def _score(job: Job, source: Source, model: searching.Model, training: PoolReport) -> Scoring:
    """The steps, in order."""
    by = features_of(model.run)
    if by is None:
        as_read = ingested(model.run).scaling
        read = job.task("ingest", read_queries, source, training.classes, as_read)
    else:
        read = prepare_queries(job, source, training.classes, model, by)
    if (metric := metric_used(model.run)) is not None:
        check_probabilities(source.files[0], metric.columns, read.feature_names, read.statistics)
    queries = read.pool(job.run, "queries")
    searched = job.task("search", searching.search_queries, queries, model)
    recall, totals = job.task("scores", scoring.write_scores, queries, model, searched)
    target = model.target_recall
    again = "train again with a higher --target-recall, or --builder exact"
    equal, near = totals["n_equal_to_training"], totals["n_near_training"]

    def write(run: Run) -> Output:
        common = {
            "n_rows": queries.n_rows,
            "classes": training.classes,
            **totals,
            "n_predicted_1": training.ones(totals["n_predicted"]),
            "candidates": source.label_name,
            "target_recall": target,
            "probes": searched.probes,
            "warnings": [
                *recall_warning(recall, target, again),
                *in_training(equal, near, queries.n_rows, training),
                *far_from_training(totals["n_far_from_training"], queries.n_rows, training),
                *(
                    f"{column!r}: no row has a value that training knew, as if all were the same"
                    for column, count in read.unseen.items()
                    if count == queries.n_rows
                ),
            ],
            **costs(job, recall),
            "out": "",
            **fields_of(read, "n_filled", "n_dropped", "unseen"),
        }
        report = reports.scoring({**common, **model.rule.as_json()})
        return Output([*reports.save(run, report, reports.score_text(report)), *run.describe({})])

    job.task("report", Job.once, "report", write)
    return reports.load_as(job.run, reports.scoring)


def predict_unlabeled(
    trained: Finished, source: Source, compute: Compute, reporter: Reporter
) -> Scoring:
    """Score the rows without a label of a training's source by the labeled ones, which are the
    only neighbors that count; the report of this scoring.

    Raises as `knnoise score` does.
    """
    rows, out = source.unlabeled(), trained.run.location.path(UNLABELED_TABLE)
    reporter.say(f"{amount(trained.report.n_unlabeled, 'row')} without a label: given one now")
    return score_source(trained, rows, out, compute, reporter, UNLABELED)
