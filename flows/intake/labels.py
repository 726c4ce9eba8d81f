"""What goes with single labels only."""

from __future__ import annotations

from flows.options.params import TrainParams
from storage.errors import InputError


def refuse_for_candidates(params: TrainParams) -> None:
    """`InputError` where a parameter is for single labels, and labels are candidate sets."""
    asked = {
        "--by": params.by,
        "--annotations": params.annotations,
        "--corrections": params.corrections,
        "--compare-with": params.compare_with,
        "--publish-review": params.publish_review,
        "--rule": params.rule if params.rule != "corrected" else None,
        "--noise": params.noise if params.noise != "crossfit" else None,
        "--objective": params.objective if params.objective != "accuracy" else None,
        "--p0 and --p1": params.p0,
    }
    for option, value in asked.items():
        if value is not None:
            raise InputError(
                f"{option} {value} is for single labels, and these are candidate sets; leave it out"
            )
