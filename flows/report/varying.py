"""Where mistakes depend on the features, in words."""

from __future__ import annotations

from flows.report.model import ClassReport, TrainReport
from pipeline.noise.regions import RegionRates


def varying(report: TrainReport | ClassReport) -> list[str]:
    """A sentence for each class whose mistakes depend on the features."""
    if isinstance(report, ClassReport):
        tests = report.regions
    else:
        tests = report.estimates[report.noise].diagnostics.get("regions") or []
    texts = []
    for name, test in zip(report.classes, tests, strict=False):
        if test is None or not test["disagree"]:
            continue
        first, last = test["regions"][0], test["regions"][-1]
        texts.append(
            f"{name}: {first['rate']:.0%} of the labels differ where "
            f"{_where(report, first)}, {last['rate']:.0%} where {_where(report, last)}"
        )
    return texts


def _where(report: TrainReport | ClassReport, region: RegionRates) -> str:
    """A region by its bounds."""
    parts = []
    for feature, low, high in region["bounds"]:
        assert feature is not None
        name = report.config.feature_names[int(feature)]
        left = f"{low:.4g} < " if low is not None else ""
        right = f" ≤ {high:.4g}" if high is not None else ""
        parts.append(f"{left}{name}{right}")
    return " and ".join(parts) or "all rows lie"
