"""The rows of a training that have no label: they vote for nobody, and are given one."""

from __future__ import annotations

from flows.engine.progress.reporter import Reporter
from flows.options.params import Compute
from flows.report.model import Scoring
from flows.report.unlabeled import FOLDER, TABLE
from flows.scorings.scored import Finished, score_into
from storage.errors import amount
from storage.files.location import Location
from storage.runs.run import Run
from storage.sources.base import Source


def predict_unlabeled(
    trained: Finished, source: Source, compute: Compute, reporter: Reporter
) -> Scoring:
    """Score the rows without a label of a training's source by the labeled ones, which are the
    only neighbors that count; the report of this scoring.

    Raises as `knnoise score` does.
    """
    rows, url = source.unlabeled(), trained.run.location.url
    config = trained.config_for(rows)
    config["parameters"] = {**config["parameters"], "rows": FOLDER}
    reporter.say(f"{amount(trained.report.n_unlabeled, 'row')} without a label: given one now")
    folder, out = Run(Location.of(f"{url}/{FOLDER}")), f"{url}/{TABLE}"
    return score_into(folder, trained, rows, config, out, compute, reporter)
