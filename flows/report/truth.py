"""Scores against clean labels, streamed."""

from flows.report.model import PoolReport
from flows.steps.queries.scoring import TRAINING, exported
from pipeline.diagnostics.reliability import Reliability, ReliabilityCounter
from storage.errors import InputError
from storage.export import read_schema
from storage.sources.files import SourcePath, readable
from storage.sources.opening import open_source
from storage.sources.request import Columns
from storage.sources.values.labels import LabelCodes

PREDICTED = "predicted_label"
CHUNK_ROWS = 1 << 18
COUNTED_BY_READING = (".csv", ".csv.gz", ".xlsx")
"""Endings of tables that truth in another file cannot stand beside."""


def reliability(
    report: PoolReport, scores: str | None, truth: str | None, column: str | None
) -> Reliability | None:
    """Reliability of the posteriors in a file of scores, by the training of `report`; None where no
    file is given.

    Of more than two classes, the posterior is that of the predicted class, and it is right where
    this is the true one.

    scores : Parquet file of `knnoise score`
    truth : file of the clean labels, in the order of the scores
    column : of the labels where the file has several

    Raises `InputError` where one of the two files is missing or cannot be read, lengths differ, a
    label is missing or none of the training's, or the scores are of another training.
    """
    if scores is None and truth is None and column is None:
        return None
    if scores is None or truth is None:
        raise InputError("--scores and --truth belong together: give both or none")
    report.refuse("truth", scores)
    trained = report.single(scores)
    columns = trained.scored_columns
    names = read_schema(scores).names
    if names and not {*columns, PREDICTED, "row"} <= set(names):
        raise InputError(
            f"--scores {scores}: not written by knnoise score with this --run: no {columns[1]}"
        )
    if exported(scores, TRAINING) not in (None, report.rule_digest):
        raise InputError(f"--scores {scores}: of another training; score the rows with this --run")
    if scores.lower().endswith(COUNTED_BY_READING):
        raise InputError(f"--scores {scores}: write the scores as .parquet and give these")
    ids = None if names[0] == "row" else names[0]
    ours = Columns(id=ids, keep=columns, group=PREDICTED)
    with readable(f"--truth {truth}"):
        SourcePath.of(truth).size()
    try:
        source = open_source(scores, truth, column, features=columns, columns=ours)
    except InputError as error:
        raise InputError(str(error).replace("--label-column", "--truth-column")) from error
    known = tuple(report.classes)
    codes = LabelCodes(f"--truth {truth}", known)
    foreseen = LabelCodes(f"--scores {scores}: {PREDICTED}", known)
    counter = ReliabilityCounter()
    for chunk in source.chunks(CHUNK_ROWS):
        assert chunk.label is not None
        assert chunk.group is not None
        true = codes.encode(chunk.label, chunk.start)
        if codes.n_missing:
            raise InputError(
                f"--truth {truth}: the label of row {codes.first_missing} (from 0) is "
                "missing; leave such rows out of scores and labels"
            )
        share, scored = chunk.x.T
        predicted = foreseen.encode(chunk.group, chunk.start)
        counter.see(share, scored, *trained.outcomes(predicted, true))
    return counter.finish()
