"""What the page shows of several labels per row."""

from __future__ import annotations

from typing import Any

from flows.report.annotators import agreed, consensus
from flows.report.model import Training

LISTED = 200
"""Annotators in the table."""
CLASSES = 6
"""Classes up to which it has a column for each."""


def shown(report: Training) -> dict[str, Any] | None:
    """What the section of the annotators shows; None where labels are single."""
    people = report.annotators
    if people is None:
        return None
    some = people.annotators[:LISTED]
    few = len(report.classes) <= CLASSES and all(one.matrix is not None for one in some)
    return {
        "agreed": agreed(people),
        "consensus": consensus(report, people),
        "annotators": some,
        "classes": list(enumerate(report.classes)) if few else [],
    }
