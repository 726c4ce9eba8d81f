"""A comparison of two trainings as a page."""

from __future__ import annotations

from flows.report.compare import NUMBERS, SHOWN, Comparison, shared
from flows.report.content import load
from flows.report.flips import Incomparable
from flows.report.page.build import PAGES
from flows.report.page.kind import Compared
from flows.report.page.render import render
from flows.report.page.words import percent
from storage.export import write_bytes
from storage.files.location import Location
from storage.runs.run import Run


def write_comparison(comparison: Comparison, target: str) -> None:
    """Write a comparison to `target`, a path or URL, as one self-contained page.

    Raises `InputError` where one of the runs is not there any more; `StorageError` where the target
    cannot be written.
    """
    sides = [load(Run(Location.of(folder))) for folder in (comparison.before, comparison.after)]
    of_kind: Compared = PAGES.get(shared(*sides), Compared())
    labels = comparison.label_values or (0, 1)
    page = render(
        "compare.html",
        comparison=comparison,
        names=[f.rsplit("/", 1)[-1] for f in (comparison.before, comparison.after)],
        verdict=verdict(comparison),
        label_values=sides[1].label_values,
        number_names=NUMBERS,
        most=SHOWN,
        facts=[(name.format(*labels), field) for name, field in of_kind.changed],
        rates=of_kind.rates(list(zip(("before", "after"), sides, strict=True))),
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
