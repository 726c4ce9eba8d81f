"""A comparison of two trainings as a page."""

from __future__ import annotations

from flows.report.compare import NUMBERS, SHOWN, Comparison
from flows.report.content import load
from flows.report.flips import Incomparable
from flows.report.kinds import TrainReport
from flows.report.page import figures
from flows.report.page.render import render
from flows.report.page.words import percent
from storage.export import write_bytes
from storage.files.location import Location
from storage.runs.run import Run

FACTS = [
    ("flipped", "flipped"),
    ("predicted 1 now", "predicted_to_1"),
    ("predicted 0 now", "predicted_to_0"),
    ("newly suspect", "newly_suspect"),
    ("no longer suspect", "no_longer_suspect"),
    ("given label changed", "given_changed"),
]
"""Names and fields of the numbers of rows."""
CHANGED = ("predicted another now", "predicted_changed")


def write_comparison(comparison: Comparison, target: str) -> None:
    """Write a comparison to `target`, a path or URL, as one self-contained page.

    Raises
    ------
    InputError
        one of the runs is not there any more.
    StorageError
        the target cannot be written.
    """
    sides = [load(Run(Location.of(folder))) for folder in (comparison.before, comparison.after)]
    two = [
        (name, side)
        for name, side in zip(("before", "after"), sides, strict=True)
        if isinstance(side, TrainReport)
    ]
    facts = FACTS if len(two) == 2 else [FACTS[0], CHANGED, *FACTS[3:]]
    page = render(
        "compare.html",
        comparison=comparison,
        names=[f.rsplit("/", 1)[-1] for f in (comparison.before, comparison.after)],
        verdict=verdict(comparison),
        label_values=sides[1].label_values,
        number_names=NUMBERS,
        most=SHOWN,
        facts=facts,
        rates=figures.rates(two) if len(two) == 2 else None,
    )
    write_bytes(target, page.encode())


def verdict(comparison: Comparison) -> str:
    """The whole comparison in one plain sentence."""
    verdicts = {c.verdict for c in comparison.rates.values()}
    if "drifted" in verdicts:
        changes = [
            f"{rate} {'rose' if c.change > 0 else 'fell'} from {percent(c.before)} to "
            f"{percent(c.after)}"
            for rate, c in comparison.rates.items()
            if c.verdict == "drifted"
        ]
        begin = f"The noise has drifted: {' and '.join(changes)}"
        if comparison.features is not None:
            begin = (
                f"T{comparison.features[1:]}, and the rates with them, which need not be "
                f"the noise: {' and '.join(changes)}"
            )
    elif "unknown" in verdicts:
        begin = "Whether the noise has drifted cannot be told from these two trainings"
    else:
        begin = "The noise rates are the same within their intervals"
    rows = comparison.rows
    if isinstance(rows, Incomparable):
        return f"{begin}; the rows are not comparable one by one."
    return (
        f"{begin}; {rows.flipped:,} of {rows.n_rows:,} verdicts on single rows flipped "
        f"({percent(rows.share)})."
    )
