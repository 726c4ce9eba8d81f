"""What the page shows of a training on candidate sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.ticker import FuncFormatter, NullLocator

from flows.engine.results import LabelValue
from flows.report.candidates import agreed, choice, confused, preprocessed
from flows.report.metric import telling
from flows.report.model import CandidateReport
from flows.report.page.classes import Scanned
from flows.report.page.gather import ingested
from flows.report.page.suspects import FEATURES, NEAREST
from flows.report.page.svg import COLORS as C
from flows.report.page.svg import Drawing, axes, drawing
from flows.report.page.words import percent
from flows.steps.graph.lookup import lists_of, pick
from flows.steps.sets.stages import as_read
from pipeline.methods.partial_labels import unpack
from storage.runs.run import Run

PAIRS = 12
SHOWN = 26
"""Classes in the table; of more, those most often predicted."""


@dataclass(frozen=True)
class Suspect:
    """A training row whose predicted label is none of its candidates."""

    row: int
    id: str | None
    file: str
    candidates: tuple[LabelValue, ...]
    predicted: LabelValue
    disambiguated: LabelValue
    n_neighbors: int
    quality: float
    nearest: tuple[int, ...]
    distance: float
    features: tuple[float, ...]


@dataclass(frozen=True)
class ClassLine:
    """A class in the table of classes."""

    name: LabelValue
    sets: int
    predicted: int
    disambiguated: int


def verdict(report: CandidateReport) -> str:
    """The whole result in one plain sentence."""
    n, out = report.n_rows, report.n_label_issues
    return (
        f"Each row has {report.mean_set_size:.2f} candidates on average; the neighbors of {out:,} "
        f"of {n:,} rows ({percent(out / n)}) point to a label that is none of them."
    )


def rule(report: CandidateReport) -> str:
    """How a new row is decided."""
    return (
        f"A row's neighbors are taken one by one, {report.k} at most; labels that fall behind the "
        "leading one are dropped, until one is left or the one that came closest answers."
    )


def facts(report: CandidateReport) -> list[tuple[str, str, str]]:
    """The numbers to keep: (name, value, remark)."""
    low, high = report.recall_interval
    decided = percent(report.n_decided / report.n_rows)
    return [
        ("classes", f"{len(report.classes):,}", f"{report.mean_set_size:.2f} candidates a row"),
        ("c1 and T", f"{report.c1:g}, {report.k}", "chosen from the sets"),
        ("decided", decided, "of the rows, by their neighbors"),
        ("suspect rows", f"{report.n_label_issues:,}", f"of {report.n_rows:,}"),
        ("recall of neighbors", f"{report.recall:.4f}", f"{low:.4f} to {high:.4f}"),
    ]


def shown(run: Run, report: CandidateReport, scanned: Scanned) -> dict[str, object]:
    """What the page shows besides what all pages do."""
    listed = suspects(run, report, scanned)
    most = np.argsort(-np.array(report.n_predicted), kind="stable")[:SHOWN]
    lines = [
        ClassLine(
            report.classes[code],
            report.class_counts[code],
            report.n_predicted[code],
            report.n_disambiguated[code],
        )
        for code in sorted(most.tolist())
    ]
    return {
        "verdict": verdict(report),
        "rule": rule(report),
        "facts": facts(report),
        "choice": choice(report),
        "features": preprocessed(report.candidate_features),
        "agreement": agreement(report),
        "lines": lines,
        "left_out": len(report.classes) - len(lines),
        "pairs": [confused(pair) for pair in report.pairs[:PAIRS]],
        "suspects": listed,
        "n_files": len({suspect.file for suspect in listed}),
    }


def suspects(run: Run, report: CandidateReport, scanned: Scanned) -> list[Suspect]:
    """Those of the rows `scanned.suspects` whose prediction is none of their candidates."""
    rows = scanned.suspects
    rows = rows[pick(run, "labels", "is_label_issue", np.sort(rows))[_rank(rows)]]
    columns = ("row", "candidates", "predicted_label", "disambiguated_label", "n_neighbors")
    stored = {name: pick(run, "labels", name, rows) for name in (*columns, "label_quality")}
    sets = unpack(stored["candidates"], len(report.classes))
    lists = lists_of(run, report.n_blocks, report.k, rows)
    x = pick(as_read(run), "pool", "x", rows)[:, telling(report, FEATURES)]
    source = pick(run, "pool", "source_id", rows)
    named = "id" in run.group("pool")
    ids = pick(run, "pool", "id", rows) if named else np.full(len(rows), None)
    files = [str(file).rsplit("/", 1)[-1] for file in ingested(run).files]
    names = report.classes
    return [
        Suspect(
            int(stored["row"][i]),
            None if ids[i] is None else str(ids[i]),
            files[source[i]],
            tuple(names[code] for code in np.flatnonzero(sets[i])),
            names[int(stored["predicted_label"][i])],
            names[int(stored["disambiguated_label"][i])],
            int(stored["n_neighbors"][i]),
            float(stored["label_quality"][i]),
            tuple(lists["neighbor"][i, :NEAREST].tolist()),
            float(lists["distance"][i, 0]),
            tuple(x[i].tolist()),
        )
        for i in range(len(rows))
    ]


def _rank(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The place of each row among them all in ascending order."""
    return np.argsort(np.argsort(rows))


def agreement(report: CandidateReport) -> Drawing:
    """Agreement against T for each c1, the chosen cell marked."""
    stops, share = report.stops_tried, np.array(report.agreement)
    with axes("agreement", height=3.2) as (ax, figure):
        for c1, line in zip(report.c1_tried, share, strict=True):
            chosen = c1 == report.c1
            color = C["one"] if chosen else C["muted"]
            ax.plot(stops, line, color=color, lw=1.8 if chosen else 0.7, alpha=1 if chosen else 0.6)
        ax.plot(report.k, agreed(report), "o", ms=9, mfc="none", mec=C["accent"], mew=1.8)
        ax.set_xscale("log")
        ax.set_xticks(stops[::2], [str(stop) for stop in stops[::2]])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: percent(value)))
        ax.set_xlabel("T, most neighbors looked at")
        ax.set_ylabel("answers among the row's own candidates")
        text = "; ".join(
            f"T {stop}: {percent(value)}"
            for stop, value in zip(stops, share[report.c1_tried.index(report.c1)], strict=True)
        )
        caption = (
            "How often the answer that a row's neighbors give without it is one of its own "
            f"candidates; a line for each c1, that of c1 = {report.c1:g} in front."
        )
        return drawing(figure, "agreement", "Choice of c1 and T", caption, text + ".")
