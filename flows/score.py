"""The scoring flow: new rows → η of the given labels, clean posterior, label."""

from __future__ import annotations

from typing import Any

from prefect import flow

from flows.cluster import Resources
from flows.hooks import tell_how_to_resume
from flows.limits import STEP_TIMEOUT
from flows.naming import latest
from flows.new_files import score_new_files
from flows.parameters import Seconds, WorkerCount
from flows.progress import Reporter
from flows.scored import Trained, score_source
from flows.security import Tls


@flow(
    name="knnoise-score",
    persist_result=False,
    validate_parameters=False,  # Resources does, in terms of the command line
    on_failure=[tell_how_to_resume],
    on_crashed=[tell_how_to_resume],
    on_cancellation=[tell_how_to_resume],
)
def score(
    source: str,
    run: str,
    out: str,
    *,
    new_files: bool = False,
    workers: WorkerCount = None,
    scheduler: str | None = None,
    tls_ca: str | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    step_timeout: Seconds = STEP_TIMEOUT,
    quiet: bool = False,
) -> dict[str, Any]:
    """Score the rows of a source with a finished training.

    Args:
        source: rows with the features of training; its label column, if there, is ignored
        run: folder of the finished training; of a pattern like `runs/pool-*` the last by name
        out: Parquet file to write (row, eta_corr, posterior, predicted_label, in the source's
            order); with new_files a folder, one Parquet file for each file of the source
        new_files: score each file of the folder `source` by itself, only those not scored before
        workers: local processes; none is one a core, 0 computes in the flow's own process
        scheduler: address of a Dask scheduler; DASK_SCHEDULER_ADDRESS where none
        tls_ca: PEM file of the authority for a tls:// scheduler; Dask's configuration where none
        tls_cert: PEM file of the certificate to show to the scheduler
        tls_key: PEM file of its private key
        step_timeout: seconds that Prefect lets one try of a step take
        quiet: no progress on stderr

    Returns:
        the report: n_rows, recall, recall_interval, seconds, …; with new_files n_files, n_scored,
        n_skipped and the reports of the files that were scored

    Raises:
        storage.errors.KnnoiseError: InputError, StorageError or ClusterError, each with a message
            for people.
    """
    resources = Resources(workers, scheduler, Tls(tls_ca, tls_cert, tls_key))
    resources.check()
    trained = Trained.of(latest(run))
    reporter = Reporter(quiet=quiet)
    if new_files:
        return score_new_files(trained, source, out, resources, reporter)
    return score_source(trained, trained.open(source), out, resources, reporter)
