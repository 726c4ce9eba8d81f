"""Scores against clean labels, streamed."""

from dataclasses import dataclass

from flows.report.model import Training
from flows.steps.queries.scoring import TRAINING, exported
from pipeline.diagnostics.reliability import Reliability, ReliabilityCounter
from storage.errors import InputError
from storage.export import read_schema
from storage.sources.opening import open_source
from storage.sources.request import Columns
from storage.sources.values.labels import LabelCodes

PREDICTED = "predicted_label"
CHUNK_ROWS = 1 << 18
COUNTED_BY_READING = (".csv", ".csv.gz", ".xlsx")
"""Endings of tables that truth in another file cannot stand beside."""


@dataclass(frozen=True)
class Truth:
    """Scored rows whose clean labels are known."""

    scores: str
    """Parquet file of `knnoise score`."""
    truth: str
    """File of the clean labels, in the order of the scores."""
    column: str | None = None
    """Column of the labels where the file has several."""

    @classmethod
    def of(cls, scores: str | None, truth: str | None, column: str | None) -> "Truth | None":
        """What the command line was given; None where it was nothing.

        Raises `InputError` where one of the two files is missing.
        """
        if scores is None and truth is None and column is None:
            return None
        if scores is None or truth is None:
            raise InputError("--scores and --truth belong together: give both or none")
        return cls(scores, truth, column)


def reliability(test: Truth, report: Training) -> Reliability:
    """Reliability of the posteriors in a file of scores, by the training of `report`.

    Of more than two classes, the posterior is that of the predicted class, and it is right where
    this is the true one.

    Raises `InputError` where a file cannot be read, lengths differ, a label is missing or none of
    the training's, or the scores are of another training.
    """
    columns = report.scored_columns
    names = read_schema(test.scores).names
    if names and not {*columns, PREDICTED, "row"} <= set(names):
        raise InputError(
            f"--scores {test.scores}: not written by knnoise score with this --run: no {columns[1]}"
        )
    if exported(test.scores, TRAINING) not in (None, report.rule_digest):
        raise InputError(
            f"--scores {test.scores}: of another training; score the rows with this --run"
        )
    if test.scores.lower().endswith(COUNTED_BY_READING):
        raise InputError(f"--scores {test.scores}: write the scores as .parquet and give these")
    ids = None if names[0] == "row" else names[0]
    ours = Columns(id=ids, keep=columns, group=PREDICTED)
    source = open_source(test.scores, test.truth, test.column, features=columns, columns=ours)
    known = tuple(report.classes)
    codes = LabelCodes(f"--truth {test.truth}", known)
    foreseen = LabelCodes(f"--scores {test.scores}: {PREDICTED}", known)
    counter = ReliabilityCounter()
    for chunk in source.chunks(CHUNK_ROWS):
        assert chunk.label is not None
        assert chunk.group is not None
        truth = codes.encode(chunk.label, chunk.start)
        if codes.n_missing:
            raise InputError(
                f"--truth {test.truth}: the label of row {codes.first_missing} (from 0) is "
                "missing; leave such rows out of scores and labels"
            )
        share, scored = chunk.x.T
        predicted = foreseen.encode(chunk.group, chunk.start)
        counter.see(share, scored, *report.outcomes(predicted, truth))
    return counter.finish()
