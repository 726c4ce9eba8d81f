"""The rows of a training that have no label: they vote for nobody, and are given one."""

from __future__ import annotations

from flows.engine.cluster import fitting
from flows.engine.progress.reporter import Reporter
from flows.options.params import Compute
from flows.report.model import ClassScoreReport, ScoreReport
from flows.report.unlabeled import FOLDER, TABLE
from flows.scorings.scored import Trained, score_into
from pipeline.graph.build import training_seconds
from storage.location import Location
from storage.run import Run
from storage.sources import Source


def predict_unlabeled(
    trained: Trained, source: Source, compute: Compute, reporter: Reporter
) -> ScoreReport | ClassScoreReport:
    """Score the rows without a label of a training's source by the labeled ones, which are the
    only neighbors that count; the report of this scoring.

    Raises as `knnoise score` does.
    """
    rows, url = source.unlabeled(), trained.run.location.url
    config = trained.config_for(rows)
    config["parameters"] = {**config["parameters"], "rows": FOLDER}
    reporter.say(f"{trained.report.n_unlabeled:,} rows have no label: they are given one")
    n, n_features = trained.report.n_rows + trained.report.n_unlabeled, trained.report.n_features
    fits = fitting(compute, training_seconds(trained.report.builder, n, n_features))
    folder, out = Run(Location.of(f"{url}/{FOLDER}")), f"{url}/{TABLE}"
    return score_into(folder, trained, rows, config, out, fits, reporter)
