"""Where mistakes depend on the features, in words."""

from __future__ import annotations

from flows.report.model import Training
from pipeline.noise.regions import RegionRates
from storage.sources.request import is_place, stem


def varying(report: Training) -> list[str]:
    """A sentence for each class whose mistakes depend on the features."""
    texts = []
    for name, test in zip(report.classes, report.tests, strict=False):
        if test is None or not test["disagree"]:
            continue
        first, last = test["regions"][0], test["regions"][-1]
        texts.append(
            f"{name}: {first['rate']:.0%} of the labels differ {_where(report, first)}, "
            f"{last['rate']:.0%} {_where(report, last, 'another')}"
        )
    return texts


def _where(report: Training, region: RegionRates, which: str = "one") -> str:
    """A region by its bounds; places of a column of lists mean nothing to people."""
    parts = []
    for feature, low, high in region["bounds"]:
        assert feature is not None
        name = report.config.feature_names[int(feature)]
        if is_place(name):
            return f"in {which} region of {stem(name)}"
        left = f"{low:.4g} < " if low is not None else ""
        right = f" ≤ {high:.4g}" if high is not None else ""
        parts.append(f"{left}{name}{right}")
    return f"where {' and '.join(parts) or 'all rows lie'}"
