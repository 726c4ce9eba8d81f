"""Page of the verdict's limits: coverage by rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.study.markdown import page, table
from benchmarks.study.pages_coverage import cover
from benchmarks.study.pages_rates import VERDICTS, each, mean_worst

Rows = list[dict[str, Any]]
GROUPS = ((500, 1000), (1000, 2000), (2000, 5000), (5000, 10**9))


def cases_of(rows: Rows) -> Rows:
    return [
        {**case, "set": row["set"], "tuned": row["tuned"]}
        for row in rows
        if "cases" in row
        for case in row["cases"]
    ]


def verdicts(rows: Rows, docs: Path) -> None:
    lines = []
    whole = cases_of(rows)
    for label, cases in (
        ("all", whole),
        ("real, tuned on", [c for c in whole if c["tuned"] is True]),
        ("real, not tuned on", [c for c in whole if c["tuned"] is False]),
        ("simulated", [c for c in whole if c["tuned"] is None]),
    ):
        for low, high in (*GROUPS, (0, 10**9)):
            some = [c for c in cases if low <= c["n"] < high]
            name = "all" if low == 0 else f"{low:,} to {high:,}" if high < 10**9 else f"≥ {low:,}"
            sure = mean_worst([c for c in some if c["support"] == "supported"], "crossfit")
            lines.append([label, name, len(some), *(cover(some, v) for v in VERDICTS), sure])
    scales = []
    for scale, of_scale in each(whole, lambda c: c["scale"]).items():
        for low, high in GROUPS:
            some = [c for c in of_scale if low <= c["n"] < high]
            scales.append([scale, f"{low:,}", *(cover(some, v) for v in VERDICTS)])
    kinds = []
    for kind, of_kind in each(whole, lambda c: c["kind"]).items():
        for low, high in GROUPS:
            some = [c for c in of_kind if low <= c["n"] < high]
            kinds.append([kind, f"{low:,}", *(cover(some, v) for v in VERDICTS)])
    by_set = [
        [name, "yes" if some[0]["tuned"] else "", *(cover(some, v) for v in VERDICTS)]
        for name, some in each(whole, lambda c: c["set"]).items()
    ]
    page(
        docs / "verdicts.md",
        "Verdicts and their limits",
        "Share of 95 % intervals that hold the rate realized in the sample, in brackets the number "
        "of intervals; and mean / worst error of the supported rates. Samples of 700 to 6,000 rows "
        "of real sets, classes grouped at random, and simulated pools whose columns have units up "
        "to a thousand times apart; `overlap`, `square`, `line`, magic04 and german are classes "
        "that overlap. Features as they are, in a range, or of unit variance (`--scale`); mistakes "
        "by class alone (`class`), growing along a random direction of the features (`slope`), or "
        "towards the other class (`boundary`). Rates are those of `crossfit`. The constants were "
        "set on optdigits, landsat, usps and letter, with other seeds.",
        table(["sets", "rows", "cases", *VERDICTS, "error of supported"], lines),
        table(["scale", "rows from", *VERDICTS], scales),
        table(["mistakes", "rows from", *VERDICTS], kinds),
        table(["set", "tuned on", *VERDICTS], by_set),
        "Command: `python -m benchmarks.study --data FOLDER --only verdicts`",
    )
