"""The scoring flow: new rows → η of the given labels, clean posterior, label."""

from __future__ import annotations

from typing import Any

from flows.engine.progress import Reporter
from flows.options.params import ScoreParams
from flows.orchestration.prefect_flow import computes, flow_of
from flows.orchestration.run_folders import latest
from flows.scorings.new_files import score_new_files
from flows.scorings.scored import Finished, score_source
from storage.export import check_target
from storage.files.location import Location


@computes(ScoreParams, name="score")
def run_score(params: ScoreParams) -> dict[str, Any]:
    """Score the rows of a source with a finished training.

    Returns:
        the report: n_rows, recall, recall_interval, seconds, …; with new_files n_files, n_scored,
        n_skipped and the reports of the files that were scored
    """
    if params.new_files:
        Location.of(params.out).check_writable()
    else:
        check_target(params.out, inputs=[params.source])
    trained = Finished.of(latest(params.run), params.all_classes)
    trained.check_apart(params.out)
    reporter = Reporter(quiet=params.quiet)
    if params.new_files:
        return score_new_files(trained, params, reporter).as_json()
    source = trained.open(params.source, params)
    return score_source(trained, source, params.out, params, reporter).as_json()


__getattr__ = flow_of(run_score)
"""`score`, the Prefect flow of `run_score`."""
