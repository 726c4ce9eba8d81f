"""A comparison of two trainings as a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.compare import NUMBERS, RATES, SHOWN
from flows.page import figures
from flows.page.render import render
from flows.page.words import percent
from flows.report import load
from storage.convert import write_bytes
from storage.location import Location
from storage.run import Run


def write_comparison(found: Mapping[str, Any], target: str) -> None:
    """Write what `compare` found to `target`, a path or URL, as one self-contained page.

    Raises
    ------
    InputError
        one of the runs is not there any more.
    StorageError
        the target cannot be written.
    """
    sides = [load(Run(Location.of(found[side]))) for side in ("before", "after")]
    page = render(
        "compare.html",
        found=found,
        names=[found[side].rsplit("/", 1)[-1] for side in ("before", "after")],
        verdict=verdict(found),
        label_values=sides[1]["label_values"],
        meanings=RATES,
        number_names=NUMBERS,
        most=SHOWN,
        rates=figures.rates([("before", sides[0]), ("after", sides[1])]),
    )
    write_bytes(target, page.encode())


def verdict(found: Mapping[str, Any]) -> str:
    """The whole comparison in one plain sentence."""
    verdicts = {c["verdict"] for c in found["rates"].values()}
    if "drifted" in verdicts:
        told = [
            f"{rate} {'rose' if c['change'] > 0 else 'fell'} from {percent(c['before'])} to "
            f"{percent(c['after'])}"
            for rate, c in found["rates"].items()
            if c["verdict"] == "drifted"
        ]
        begin = f"The noise has drifted: {' and '.join(told)}"
    elif "unknown" in verdicts:
        begin = "Whether the noise has drifted cannot be told from these two trainings"
    else:
        begin = "The noise rates are the same within their intervals"
    rows = found["rows"]
    if not rows["comparable"]:
        return f"{begin}; the rows are not comparable one by one."
    return (
        f"{begin}; {rows['flipped']:,} of {rows['n_rows']:,} verdicts on single rows flipped "
        f"({percent(rows['share'])})."
    )
