"""A folder that files keep arriving in: score those that are new, each by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from flows.engine.cluster import Workers, address_of, fitting
from flows.engine.progress import Reporter
from flows.options.params import Compute, ScoreParams
from flows.report.model import NewFilesReport, ScoredFile
from flows.scorings.scored import Finished, identity, score_source
from flows.steps.queries.scoring import SCORING, exported
from storage.errors import InputError, amount
from storage.export import is_of
from storage.files.location import Location
from storage.redaction import bare
from storage.sources.base import Source
from storage.sources.opening import list_sources

SHOWN = 3
"""Files that cannot be scored whose reasons are told."""


def score_new_files(trained: Finished, params: ScoreParams, reporter: Reporter) -> NewFilesReport:
    """Score each file of a folder that is new since the last call, or has changed.

    The folder `params.out` gets one Parquet file for each, which carries the digest of the rows and
    of the training it came of; a file whose scores are there already is skipped. With another
    training all are scored anew. A file that cannot be scored does not keep the others from it.

    Raises `InputError` where some files could not be scored; the message names them. The others
    were.
    """
    folder = params.source
    targets = _targets(folder, params.out)
    new: list[tuple[str, Source]] = []
    refused: list[str] = []
    for file, target in targets.items():
        try:
            opened = trained.open(file, params)
            if exported(target, SCORING) != identity(trained.config_for(opened)):
                new.append((file, opened))
        except InputError as error:
            refused.append(str(error))
    skipped = len(targets) - len(new) - len(refused)
    reporter.say(f"{folder}: {amount(len(new), 'new file')}, {skipped:,} skipped: scored before")
    reports = []
    with _one_cluster(trained, new, params, reporter) as compute:
        for file, opened in new:
            reporter.say(f"scoring {file}")
            try:
                report = score_source(trained, opened, targets[file], compute, reporter)
                reports.append(ScoredFile(source=bare(file), **report.model_dump(mode="json")))
            except InputError as error:
                refused.append(str(error))
    if refused:
        more = f"; and {len(refused) - SHOWN} more" if len(refused) > SHOWN else ""
        raise InputError(
            f"{len(refused)} of {amount(len(targets), 'file')} cannot be scored "
            f"({len(reports)} scored, {skipped} skipped): {'; '.join(refused[:SHOWN])}{more}"
        )
    n_predicted = [sum(rows) for rows in zip(*(r.n_predicted for r in reports), strict=True)]
    return NewFilesReport(
        n_files=len(targets),
        n_scored=len(reports),
        n_skipped=skipped,
        n_rows=sum(report.n_rows for report in reports),
        n_predicted=n_predicted,
        n_predicted_1=trained.report.ones(n_predicted),
        warnings=[f"{r.source}: {line}" for r in reports for line in r.warnings],
        files=reports,
        run=trained.run.location.name,
        out=bare(params.out),
    )


def _targets(folder: str, out: str) -> dict[str, str]:
    """File to write for each file of the folder."""
    scores = Location.of(out)
    if Location.of(folder) == scores or is_of(out, folder, itself=True):
        raise InputError(f"--out {out} is the folder of the sources; name another")
    targets: dict[str, str] = {}
    for file in list_sources(folder):
        if Location.of(file) == scores:
            continue
        name = file.rsplit("/", 1)[-1]
        target = scores.path(name if name.endswith(".parquet") else f"{name}.parquet")
        if is_of(target, file):
            raise InputError(f"{target} would be written over {file}; name another --out")
        if target in targets.values():
            raise InputError(f"{file}: another file's scores would be {target} too; rename one")
        targets[file] = target
    return targets


@contextmanager
def _one_cluster(
    trained: Finished, new: list[tuple[str, Source]], compute: Compute, reporter: Reporter
) -> Iterator[Compute]:
    """Where all files are scored, if there are any."""
    if not new:
        yield compute
        return
    compute = fitting(compute, trained.work(opened for _, opened in new))
    with closing(Workers(compute, reporter)) as workers:
        client = workers.client()
        if client is not None and address_of(compute) is None:
            here = {"scheduler": client.scheduler.address, "workers": None}
            compute = compute.model_copy(update=here)
        yield compute
