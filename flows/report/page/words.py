"""What a run found, in sentences and small tables."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from flows.engine.results import Outcome
from flows.report.kinds.two import TrainReport, served
from flows.report.model import PoolReport, Training
from pipeline.noise.rates import NoiseRates

METHODS = {
    "crossfit": "held-out labels (crossfit)",
    "minmax": "plain extremes (minmax)",
    "rknn": "plain extremes at its own size (RkNN)",
    "given": "given by the user",
}
"""Method of an estimate → how the page calls it."""


def percent(value: float) -> str:
    """A share for a sentence; the space does not break."""
    return f"{100 * value:.1f}\N{NO-BREAK SPACE}%"


def verdict(report: TrainReport) -> str:
    """The whole result in one plain sentence."""
    zero, one = report.label_values
    n, suspect = report.n_rows, report.n_label_issues
    if report.support == "unsupported":
        vote = "plain vote" if report.threshold == 0.5 else "cautiously corrected vote"
        return (
            f"These {n:,} rows cannot tell how many labels are wrong; the {vote} of the "
            f"neighbors is used, and the {suspect:,} labels marked as suspect are mere hints."
        )
    rates = (
        f"about {percent(report.p0)} of the rows that are truly {zero} are labeled {one}, and "
        f"{percent(report.p1)} of those that are truly {one} are labeled {zero}"
    )
    wrong = f"{suspect:,} of {n:,} labels ({percent(suspect / n)}) are probably wrong"
    if report.noise == "given":
        return f"Taking it as known that {rates}, {wrong}."
    if report.support == "weak":
        return f"On weak evidence, {rates}; by these rates {wrong}."
    return f"{rates[0].upper()}{rates[1:]}; {wrong}."


def rule(report: TrainReport) -> str:
    """How a new row is decided."""
    one, at, k = report.label_values[1], report.threshold, report.k
    share = "half" if at == 0.5 else percent(at)
    return (
        f"A row is taken for {one} where at least {share} of its {k} nearest neighbors are "
        f"labeled {one}. {served(report.decision)}"
    )


def interval(report: TrainReport, rate: str) -> tuple[float, float] | None:
    """The 95 % interval of a rate; None where its method has no calibrated one."""
    if report.noise != "crossfit":
        return None
    low, high = getattr(report, f"{rate}_interval")
    return low, high


def facts(report: TrainReport) -> list[tuple[str, str, str]]:
    """The numbers to keep: (name, value, remark)."""
    zero, one = report.label_values
    known = [interval(report, rate) for rate in ("p0", "p1")]
    method = METHODS.get(report.noise, report.noise)
    spans = [method if span is None else "{:.3f} to {:.3f}".format(*span) for span in known]
    return [
        (f"p0, truly {zero} labeled {one}", f"{report.p0:.3f}", spans[0]),
        (f"p1, truly {one} labeled {zero}", f"{report.p1:.3f}", spans[1]),
        ("threshold", f"{report.threshold:.3f}", f"share of {report.k} neighbors"),
        *wrong_in_all(report),
        ("suspect labels", f"{report.n_label_issues:,}", f"of {report.n_rows:,} rows"),
    ]


def wrong_in_all(report: Training) -> list[tuple[str, str, str]]:
    """The share of wrong labels among the numbers to keep, where it was estimated."""
    if report.share_wrong is None or report.share_wrong_interval is None or report.noise == "given":
        return []
    low, high = report.share_wrong_interval
    return [("wrong labels", percent(report.share_wrong), f"{percent(low)} to {percent(high)}")]


def estimates(report: TrainReport) -> list[tuple[str, bool, NoiseRates]]:
    """(name, whether it counts, rates) of every estimate, the one that counts first."""
    chosen = report.noise
    names = sorted(report.estimates, key=lambda name: (name != chosen, name))
    return [(METHODS.get(name, name), name == chosen, report.estimates[name]) for name in names]


@dataclass(frozen=True)
class StepLine:
    """A step in the table of steps."""

    name: str
    parts: int
    seconds: float
    core_seconds: float
    share: float
    """Of the longest step's wall time."""


def steps(report: PoolReport) -> list[StepLine]:
    """Wall and core seconds of every step, in the order they ran."""
    longest = max(report.seconds.values(), default=0.0) or 1.0
    none = Outcome(0, "", 0.0, 0.0)
    lines = []
    for name, seconds in report.seconds.items():
        outcome = report.steps.get(name, none)
        lines.append(
            StepLine(name, outcome.parts, seconds, outcome.core_seconds, seconds / longest)
        )
    return lines


def parameters(report: PoolReport) -> list[tuple[str, str, str]]:
    """Every parameter: (name, as asked, as it came out where it was chosen)."""
    given = report.config.parameters
    largest = report.largest_block_rows
    came: dict[str, object] = {
        "scale": report.scale,
        "k": report.k,
        "builder": report.builder,
        "block_rows": f"{report.n_blocks:,} blocks, at most {largest:,} rows",
    }
    if report.pca is not None:
        came["pca"] = f"{report.pca.variance_kept:.1%} of the variance kept"
    if report.metric is not None:
        came["metric"] = report.metric.metric
    came |= report.came_out()
    none = {"id_column": "none", "features": "all", "exclude": "none", "by": "none"}
    none |= dict.fromkeys(("pca", "candidates", "annotations", "annotator_column"), "none")
    return [
        (name, none.get(name, "auto") if value is None else str(value), str(came.get(name, value)))
        for name, value in given.items()
    ]


def next_steps(run: str, report: Training) -> list[tuple[str, str]]:
    """What a person may do with a training of single labels, each with its command."""
    source = "SOURCE" if report.config.health is None else report.config.health.source
    here, of = f"--run {shlex.quote(run)}", shlex.quote(source)
    steps = [("judge what is suspect", f"knnoise review {here}")]
    if report.annotators is None:
        steps.append(("train another model", f"knnoise clean {of} {here} --out clean.parquet"))
    return [*steps, ("predict new rows", f"knnoise score NEW {here} --out scores.parquet")]
