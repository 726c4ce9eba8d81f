"""Scores against clean labels, streamed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.reliability import Reliability, ReliabilityCounter
from pipeline.threshold import posterior
from storage.errors import InputError
from storage.sources import LabelCodes, open_source

COLUMNS = ("eta_corr", "posterior", "predicted_label")
CHUNK_ROWS = 1 << 18
TOLERANCE = 1e-4
"""Of posteriors computed again from rounded shares."""


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
    def of(cls, scores: str | None, truth: str | None, column: str | None) -> Truth | None:
        """What the command line was given; None where it was nothing.

        Raises
        ------
        InputError
            one of the two files is missing.
        """
        if scores is None and truth is None and column is None:
            return None
        if scores is None or truth is None:
            raise InputError("--scores and --truth belong together: give both or none")
        return cls(scores, truth, column)


def reliability(test: Truth, report: Mapping[str, Any]) -> Reliability:
    """Reliability of the posteriors in a file of scores, by the training of `report`.

    Raises
    ------
    InputError
        a file cannot be read, lengths differ, a label is missing or none of the training's, or
        the scores are of another training.
    """
    found = open_source(test.scores, with_labels=False).feature_names
    if not {*COLUMNS, "row"} <= set(found):
        raise InputError(f"--scores {test.scores}: not written by knnoise score: no {COLUMNS[1]}")
    source = open_source(test.scores, test.truth, test.column, features=COLUMNS, ignore="row")
    codes = LabelCodes(where=f"--truth {test.truth}", values=tuple(report["label_values"]))
    counter = ReliabilityCounter()
    for chunk in source.chunks(CHUNK_ROWS):
        assert chunk.label is not None
        truth = codes.encode(chunk.label, chunk.start)
        if codes.n_missing:
            raise InputError(
                f"--truth {test.truth}: the label of row {codes.first_missing} (from 0) is "
                "missing; leave such rows out of scores and labels"
            )
        eta, scored, predicted = chunk.x.T
        rule = report["decision_rule"]
        fits = np.isclose(scored, posterior(eta, rule["p0"], rule["p1"]), rtol=0, atol=TOLERANCE)
        if not fits.all():
            raise InputError(
                f"--scores {test.scores}: row {chunk.start + int(fits.argmin())} does not fit the "
                "rates of this training; score the rows with this --run"
            )
        counter.see(eta, scored, predicted.astype(np.int8), truth)
    return counter.finish()
