"""What the page shows of more than two classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flows.engine.results import LabelValue
from flows.report.content import corrected
from flows.report.metric import telling
from flows.report.model import ClassReport, PoolReport
from flows.report.page.gather import ingested
from flows.report.page.suspects import FEATURES, NEAREST
from flows.report.page.words import percent, wrong_in_all
from flows.steps.graph.lookup import lists_of, pick
from pipeline.diagnostics.top_rows import Greatest
from storage.arrays.groups import read_array
from storage.runs.run import Run

SUSPECTS = 100
"""Rows listed."""
BINS = 40
SHOWN = 26
"""Classes in the heat map and in the table; of more, those with most wrong labels."""
CONFUSIONS = 12


@dataclass(frozen=True)
class Scanned:
    """What one pass over the verdicts finds."""

    suspects: npt.NDArray[np.int64]
    """Rows of lowest label quality, the lowest first."""
    histogram: npt.NDArray[np.int64]
    """(bin,) rows by label quality."""
    issues: int
    sampled_quality: npt.NDArray[np.float32]
    """Label quality of the rows asked for, in their order."""


@dataclass(frozen=True)
class Suspect:
    """One training row whose label is probably wrong."""

    row: int
    file: str
    given: LabelValue
    likely: LabelValue
    predicted: LabelValue
    quality: float
    given_share: float
    strip: tuple[int, ...]
    """Neighbors, nearest first: 1 given the likely class, 0 given the same class, -1 another."""
    votes: str
    nearest: tuple[int, ...]
    distance: float
    features: tuple[float, ...]


@dataclass(frozen=True)
class Cell:
    """One entry of the heat map."""

    value: float
    shade: float
    """0 to 1"""
    title: str


@dataclass(frozen=True)
class HeatMap:
    """P(given | true) of the classes with most wrong labels."""

    names: list[LabelValue]
    rows: list[list[Cell]]
    left_out: int
    """Classes that are not shown."""


@dataclass(frozen=True)
class ClassLine:
    """A class in the table of classes."""

    name: LabelValue
    given: int
    clean: float | None
    """Rows that are truly of the class, as estimated; None where they cannot be."""
    wrong: float
    interval: tuple[float, float]
    support: str


def scan(run: Run, report: PoolReport, sampled: npt.NDArray[np.int64]) -> Scanned:
    """Read the verdicts once; `sampled` are rows to pick out."""
    most, issues = Greatest(SUSPECTS, report.seed), 0
    histogram = np.zeros(BINS, np.int64)
    quality = np.empty(len(sampled), np.float32)
    group = run.group("labels")
    for rows in ingested(run).pool(run, "pool").parts():
        span = slice(rows.start, rows.stop)
        piece = read_array(group, "label_quality", span)
        histogram += np.bincount(np.minimum((piece * BINS).astype(int), BINS - 1), minlength=BINS)
        issues += int(read_array(group, "is_label_issue", span).sum())
        most.see(np.arange(rows.start, rows.stop), 1.0 - piece.astype(np.float64))
        here = np.flatnonzero((sampled >= rows.start) & (sampled < rows.stop))
        quality[here] = piece[sampled[here] - rows.start]
    return Scanned(most.row, histogram, issues, quality)


def suspects(run: Run, report: ClassReport, scanned: Scanned) -> list[Suspect]:
    """The rows `scanned.suspects`, in that order."""
    columns = ("given_label", "predicted_label", "likely_label", "label_quality", "given_share")
    verdict = {name: pick(run, "labels", name, scanned.suspects) for name in columns}
    lists = lists_of(run, report.n_blocks, report.k, scanned.suspects)
    x = pick(run, "pool", "x", scanned.suspects)[:, telling(report, FEATURES)]
    source = pick(run, "pool", "source_id", scanned.suspects)
    files = [str(file).rsplit("/", 1)[-1] for file in ingested(run).files]
    names, listed = report.classes, []
    for i, row in enumerate(scanned.suspects):
        given, likely = int(verdict["given_label"][i]), int(verdict["likely_label"][i])
        near = lists["neighbor_label"][i][lists["neighbor"][i] >= 0]
        votes = np.bincount(near, minlength=len(names))
        order = sorted(np.flatnonzero(votes), key=lambda code: (-votes[code], code))[:4]
        listed.append(
            Suspect(
                int(row),
                files[source[i]],
                names[given],
                names[likely],
                names[int(verdict["predicted_label"][i])],
                float(verdict["label_quality"][i]),
                float(verdict["given_share"][i]),
                tuple(1 if y == likely else 0 if y == given else -1 for y in near.tolist()),
                ", ".join(f"{votes[code]} {names[code]}" for code in order),
                tuple(lists["neighbor"][i, :NEAREST].tolist()),
                float(lists["distance"][i, 0]),
                tuple(x[i].tolist()),
            )
        )
    return listed


def shown_classes(report: ClassReport) -> list[int]:
    """Codes of the classes shown: all, or those of most wrong labels, in order."""
    wrong = np.asarray(report.class_noise) * report.class_counts
    most = np.argsort(-wrong, kind="stable")[:SHOWN]
    return sorted(most.tolist())


def heat_map(run: Run, report: ClassReport) -> HeatMap:
    """The matrix as shades: of the diagonal by itself, of mistakes against the commonest."""
    codes, names = shown_classes(report), report.classes
    group = run.group("transition")
    matrix, lows, highs = (read_array(group, name) for name in ("matrix", "low", "high"))
    mistakes = matrix - np.diag(np.diag(matrix))
    largest = max(float(mistakes[np.ix_(codes, codes)].max()), 1e-9)

    def cell(a: int, b: int) -> Cell:
        value, low, high = (float(of[a, b]) for of in (matrix, lows, highs))
        title = (
            f"{percent(value)} of the rows truly {names[a]} are labeled {names[b]} "
            f"(95 % interval {percent(low)} to {percent(high)})"
        )
        return Cell(value, value if a == b else value / largest, title)

    rows = [[cell(a, b) for b in codes] for a in codes]
    return HeatMap([names[a] for a in codes], rows, len(names) - len(codes))


def lines(report: ClassReport) -> list[ClassLine]:
    """The table of classes."""
    texts = []
    for a in shown_classes(report):
        share = report.clean_prior[a]
        texts.append(
            ClassLine(
                report.classes[a],
                report.class_counts[a],
                None if share is None else share * report.n_rows,
                report.class_noise[a],
                report.class_noise_interval[a],
                report.class_support[a],
            )
        )
    return texts


def verdict(report: ClassReport) -> str:
    """The whole result in one plain sentence."""
    n, suspect = report.n_rows, report.n_label_issues
    wrong = report.share_wrong
    listed = f"{suspect:,} of {n:,} labels ({percent(suspect / n)}) are probably wrong"
    if wrong is None:
        return (
            f"How many labels are wrong is not known, as most classes have too few rows; {listed}."
        )
    if not report.confusions:
        return f"About {percent(wrong)} of the labels are wrong; {listed}."
    worst = report.confusions[0]
    most = (
        f"most often, {percent(worst.share)} of the rows that are truly {worst.true} are labeled "
        f"{worst.given}"
    )
    begin = "About" if report.support == "supported" else "On evidence that differs by class, about"
    return f"{begin} {percent(wrong)} of the labels are wrong ({most}); {listed}."


def rule(report: ClassReport) -> str:
    """How a new row is decided."""
    vote = f"A row gets the class for which its {report.k} nearest neighbors vote; the vote is"
    return f"{vote} {corrected(report)}."


def facts(report: ClassReport) -> list[tuple[str, str, str]]:
    """The numbers to keep: (name, value, remark)."""
    low, high = report.recall_interval
    good = sum(verdict == "supported" for verdict in report.class_support)
    return [
        ("classes", f"{len(report.classes):,}", f"{good:,} with a supported rate"),
        *wrong_in_all(report),
        ("suspect labels", f"{report.n_label_issues:,}", f"of {report.n_rows:,} rows"),
        ("correction of the vote", f"{report.decision.part:.0%}", f"of {report.k} neighbors"),
        ("recall of neighbors", f"{report.recall:.4f}", f"{low:.4f} to {high:.4f}"),
    ]
