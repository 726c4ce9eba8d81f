"""What a report says of the noise: of two classes, and of more."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.report.model import (
    CandidatePair,
    CandidateReport,
    ClassReport,
    Confusion,
    TrainReport,
)
from flows.steps.ingest.pool import Ingested
from flows.steps.labels.classes import ClassEstimates
from flows.steps.labels.rates import RateEstimates
from flows.steps.sets.candidates import CandidateEstimates
from flows.steps.sets.verdicts import Verdicts
from pipeline.methods.partial_labels import NAME as PL_AKNN
from pipeline.noise.rates import clean_shares
from pipeline.noise.transition import of_rates
from storage.arrays.groups import read_array
from storage.runs.run import Run

FULL = 100
"""Classes up to which the report holds the matrix; of more, the group `transition` of the run."""
MOST_CONFUSIONS = 50
Floats = NDArray[np.float64]


def of_candidates(
    common: dict[str, Any], fitted: CandidateEstimates, judged: Verdicts, ingested: Ingested
) -> CandidateReport:
    """The report on candidate sets; `common` are the fields that it shares."""
    names, taken = ingested.label_values or [], judged.disambiguated
    return CandidateReport(
        **common,
        rule=PL_AKNN,
        mean_set_size=sum(ingested.class_counts or []) / ingested.n_rows,
        n_single=judged.single,
        c1=fitted.params.c1,
        delta=fitted.params.delta,
        c1_tried=fitted.c1_tried,
        stops_tried=fitted.stops_tried,
        agreement=fitted.agreement,
        n_decided=judged.decided,
        n_predicted=judged.predicted,
        n_disambiguated=taken,
        pairs=[
            CandidatePair(
                label=names[pair.label],
                other=names[pair.other],
                rows=pair.rows,
                share=pair.rows / taken[pair.label],
            )
            for pair in judged.pairs
        ],
    )


def of_two(
    common: dict[str, Any], estimated: RateEstimates, class_counts: list[int]
) -> TrainReport:
    """The report on two classes; `common` are the fields that it shares."""
    rates = estimated.rates
    matrix = of_rates(rates)
    assert matrix.interval is not None
    prior = clean_shares(rates.p0, rates.p1, class_counts[1] / sum(class_counts))
    return TrainReport(
        **common,
        clean_prior=list(prior),
        transition_matrix=matrix.matrix.tolist(),
        transition_interval=matrix.interval.tolist(),
        **_by_class(matrix.matrix, matrix.interval[:, :, 0], matrix.interval[:, :, 1]),
        class_support=list(matrix.class_support),
        noise=estimated.noise,
        p0=rates.p0,
        p1=rates.p1,
        p0_interval=rates.p0_interval,
        p1_interval=rates.p1_interval,
        support=rates.support,
        reason=rates.reason,
        rate_k=rates.rate_k,
        folds=estimated.folds,
        decision_rule=estimated.decision_rule,
        decision=estimated.decision,
        threshold=estimated.decision_rule.threshold,
        estimates=estimated.estimates,
    )


def _by_class(matrix: Floats, low: Floats, high: Floats) -> dict[str, Any]:
    """Of each true class, the share labeled as another."""
    bounds = zip((1.0 - np.diag(high)).tolist(), (1.0 - np.diag(low)).tolist(), strict=True)
    return {
        "class_noise": (1.0 - np.diag(matrix)).tolist(),
        "class_noise_interval": list(bounds),
    }


def of_classes(
    common: dict[str, Any], run: Run, fitted: ClassEstimates, ingested: Ingested
) -> ClassReport:
    """The report on more classes; `common` are the fields that it shares."""
    group = run.group("transition")
    matrix, low, high = (read_array(group, name) for name in ("matrix", "low", "high"))
    whole = len(matrix) <= FULL  # three million numbers of a thousand classes
    names, given = ingested.label_values or [], np.asarray(ingested.class_counts)
    known = np.array([support != "unsupported" for support in fitted.class_support])
    size = np.where(known, ingested.n_rows * np.asarray(fitted.prior), given)
    rows = size[:, None] * matrix
    np.fill_diagonal(rows, 0.0)
    surely = np.where(low > 0.0, rows, 0.0)
    order = np.argsort(-surely, axis=None, kind="stable")[:MOST_CONFUSIONS]
    pairs = [(int(at // len(names)), int(at % len(names))) for at in order]
    return ClassReport(
        **common,
        clean_prior=[
            share if sure else None for share, sure in zip(fitted.prior, known, strict=True)
        ],
        transition_matrix=matrix.tolist() if whole else None,
        transition_interval=np.stack([low, high], axis=2).tolist() if whole else None,
        **_by_class(matrix, low, high),
        class_support=fitted.class_support,
        noise="crossfit",
        support=fitted.support,
        reason=fitted.reason,
        decision=fitted.decision,
        confusions=[
            Confusion(
                true=names[a],
                given=names[b],
                share=float(matrix[a, b]),
                interval=(float(low[a, b]), float(high[a, b])),
                rows=round(float(rows[a, b])),
            )
            for a, b in pairs
            if surely[a, b] >= 0.5
        ],
        regions=fitted.regions,
    )
