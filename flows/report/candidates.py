"""What a training on candidate sets found, in sentences."""

from __future__ import annotations

import math

import numpy as np

from flows.report.model import CandidatePair, CandidateReport, CandidateScoreReport
from flows.steps.sets.candidates import CandidateEstimates
from pipeline.methods.partial_features import PIPELINES
from pipeline.methods.partial_labels import STOPS

SHOWN = 5
"""Pairs of classes that the text lists."""


def lines(report: CandidateReport) -> list[str]:
    """The lines of the text on the sets, the choice and the rows."""
    n = report.n_rows
    return [
        f"candidates: {report.mean_set_size:.2f} a row, one alone in {report.n_single:,} rows "
        f"({report.n_single / n:.1%}); no noise rates are estimated for sets",
        *preprocessed(report.candidate_features),
        choice(report),
        f"decided by their neighbors: {report.n_decided:,} rows ({report.n_decided / n:.1%}), the "
        "others by the label that came closest",
        *(f"  {confused(pair)}" for pair in report.pairs[:SHOWN]),
        f"predicted none of their own candidates: {report.n_label_issues:,} rows "
        f"({report.n_label_issues / n:.1%}), listed in label_issues.parquet",
        f"outliers: {report.n_outliers:,}; rows with near duplicates: "
        f"{report.n_near_duplicates:,}: data_issues.parquet",
    ]


def score_lines(report: CandidateScoreReport) -> list[str]:
    """The lines of the text on what neighbors decided."""
    lines = [f"decided by their neighbors: {report.n_decided:,} rows"]
    if report.n_in_candidates is not None:
        lines.append(
            f"predictions are candidates of {report.candidates!r}; of {report.n_in_candidates:,} "
            f"rows ({report.n_in_candidates / report.n_rows:.1%}) also without being restricted"
        )
    return lines


def preprocessed(name: str) -> list[str]:
    """What became of the features before neighbors were searched; nothing where they were taken as
    they are."""
    how = PIPELINES.get(name)
    if how is None:
        return []
    first = "signed cube roots" if how.cube_root else "centered"
    return [
        f"features: {first}, at unit length, averaged with {how.n_smooth} neighbors "
        f"(weight {how.alpha:g}), divided by the mean distance to {how.n_density}"
    ]


def choice(report: CandidateReport) -> str:
    """The c1 and T that were chosen."""
    return (
        f"PL A-kNN with c1 = {report.c1:g} and T = {report.k}, chosen from the sets: what the "
        f"neighbors answer is among a row's own candidates in {agreed(report):.1%} of the rows "
        "looked at"
    )


def agreed(report: CandidateReport) -> float:
    """Share of sampled rows whose answer is among their own candidates, as chosen."""
    cell = report.c1_tried.index(report.c1), report.stops_tried.index(report.k)
    return float(np.array(report.agreement)[cell])


def confused(pair: CandidatePair) -> str:
    """One pair as a sentence."""
    return (
        f"{pair.share:.1%} of the rows taken for {pair.label!r} have {pair.other!r} among their "
        f"candidates, {pair.rows:,} rows"
    )


def length_warning(fitted: CandidateEstimates, n_rows: int) -> list[str]:
    """A warning where the answers agree surely better up to the end of the lists, and these could
    be longer."""
    k, longest = fitted.k, min(STOPS[-1], n_rows // 4)
    before, last = fitted.agreement[fitted.c1_tried.index(fitted.params.c1)][-2:]
    error = math.sqrt(last * (1 - last) / max(1, fitted.sampled))
    if k < fitted.stops_tried[-1] or k >= longest or last - before < error:
        return []
    return [
        f"T = {k} is the most that lists of {k} neighbors allow, and more would predict better: "
        f"give --k {min(2 * k, longest)}"
    ]
