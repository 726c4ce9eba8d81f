"""What a run found, in sentences and small tables."""

from __future__ import annotations

import shlex

from flows.report.lines import predicted_by
from flows.report.model import PoolReport, Training
from pipeline.decision.tempering import Worth
from storage.errors import amount


def percent(value: float) -> str:
    """A share for a sentence; the space does not break."""
    return f"{100 * value:.1f}\N{NO-BREAK SPACE}%"


def wrong_in_all(report: Training) -> list[tuple[str, str, str]]:
    """The share of wrong labels among the numbers to keep, where it was estimated."""
    if report.share_wrong is None or report.share_wrong_interval is None or report.noise == "given":
        return []
    low, high = report.share_wrong_interval
    return [("wrong labels", percent(report.share_wrong), f"{percent(low)} to {percent(high)}")]


def sizes(worth: Worth | None) -> str:
    """A sentence, and a space before it, on what predicts new rows; nothing where one k was asked
    for."""
    return "".join(f" {text[0].upper()}{text[1:]}." for text in predicted_by(worth).values())


def parameters(report: PoolReport) -> list[tuple[str, str, str]]:
    """Every parameter: (name, as asked, as it came out where it was chosen)."""
    given = report.config.parameters
    largest = report.largest_block_rows
    came: dict[str, object] = {
        "scale": report.scale,
        "k": report.k,
        "builder": report.builder,
        "block_rows": f"{amount(report.n_blocks, 'block')}, at most {amount(largest, 'row')}",
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
