"""Page of what the threshold does to a rare class, decided by the rule as it is now."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.study.markdown import page, table
from benchmarks.study.pages_rates import each
from pipeline.decision.threshold import predict, tempered
from pipeline.noise.rates import NoiseRates

Rows = list[dict[str, Any]]
Floats = NDArray[np.float64]
HEADER = (
    *("cases", "plain", "ours", "gain", "below / above by 2 se", "worst"),
    *("balanced: plain", "ours", "with the objective balanced"),
)


def rare(rows: Rows, many: Rows, docs: Path) -> None:
    rows = [{**row, **_decided(row)} for row in rows]
    sizes = ((0, 700), (700, 2500), (2500, 20_000), (20_000, 10**9))
    lost = [row for row in rows if row["gain"] < -2.0 * row["se"]]
    page(
        docs / "rare-classes.md",
        "A rare class and the threshold",
        "Accuracy and balanced accuracy on clean test rows, by the plain vote of the k nearest and "
        "by the tempered threshold (objective `accuracy`, the default). Simulated pools of 500 to "
        "50,000 rows with up to 10,000 test rows, and real sets: some classes against all others, "
        "thinned to 1, 3 or 10 % of 500 rows to what the set has, or the set as it is "
        "(share 0, odd against even classes). Standard errors are of the paired difference over "
        "test rows. Where both rules were as good, 2.3 % of the cases would lie below by more than "
        "two. The rule was tuned on the first half of the sets.",
        _table(("sets",), each(rows, lambda r: "tuned on" if r["tuned"] else "not tuned on")),
        "## By share of the rare class, sets not tuned on",
        _table(("share",), each(_untuned(rows), lambda r: r["rare"])),
        "## By rows, sets not tuned on",
        _table(
            ("rows",),
            {
                f"{min(r['n'] for r in some):,} to {max(r['n'] for r in some):,}": some
                for low, high in sizes
                if (some := [r for r in _untuned(rows) if low < r["n"] <= high])
            },
        ),
        "## By noise, all sets",
        _table(("(p0, p1)",), each(rows, lambda r: tuple(r["noise"]))),
        "## By set",
        _table(("set",), each(rows, lambda r: r["set"])),
        "## Cases below plain by more than two standard errors",
        table(
            ["case", "gain", "in balanced accuracy", "p0, p1", "estimated"],
            [
                [
                    row["case"],
                    f"{row['gain']:+.4f} ± {row['se']:.4f}",
                    f"{row['balanced'][1] - row['balanced'][0]:+.3f}",
                    "{:.3f}, {:.3f}".format(*row["realized"]),
                    "{:.3f}, {:.3f}".format(*row["rates"]),
                ]
                for row in sorted(lost, key=lambda r: r["gain"])
            ],
        ),
        "## More than two classes",
        "The tempered transition matrix likewise: 500, 2,000 and 8,000 rows of real sets, up "
        "to 5,000 clean test rows, none of the mistakes, mistakes to all other classes alike, by "
        "class, or 0.3 to the next class (`pairs`). shuttle has classes of a few rows.",
        _many(many, "noise"),
        _many(many, "set"),
        "Command: `python -m benchmarks.study --data FOLDER --only rare rare-many`",
    )


def _many(rows: Rows, by: str) -> str:
    lines = []
    for name, some in each(rows, lambda r: r[by]).items():
        gain, se = (np.array([r[key] for r in some]) for key in ("gain", "se"))
        accuracy, balanced = (
            np.mean([r[k] for r in some], axis=0) for k in ("accuracy", "balanced")
        )
        lines.append(
            [name, len(some), *_worth(accuracy, gain, se), *(f"{b:.4f}" for b in balanced)]
        )
    return table([by, *HEADER[:-1]], lines)


def _worth(accuracy: Floats, gain: Floats, se: Floats) -> list[str]:
    below, above = (gain < -2.0 * se).mean(), (gain > 2.0 * se).mean()
    level = [*(f"{a:.4f}" for a in accuracy), f"{gain.mean():+.4f}"]
    return [*level, f"{below:.3f} / {above:.3f}", f"{gain.min():+.4f}"]


def _untuned(rows: Rows) -> Rows:
    return [row for row in rows if not row["tuned"]]


def _decided(row: dict[str, Any]) -> dict[str, Any]:
    """What the plain vote, the default and the objective `balanced` are worth on the test rows."""
    votes, tested = np.array(row["votes"]), np.array(row["tested"])
    p0, p1 = row["intervals"]
    errors = row["errors"][0], row["errors"][1]
    rates = NoiseRates(
        *row["rates"], p0, p1, "crossfit", 0, row["support"], "", errors=errors
    )  # fmt: skip
    average = np.arange(len(votes)) / (len(votes) - 1)
    cuts = [0.5, *(tempered(rates, votes, o).threshold for o in ("accuracy", "balanced"))]
    plain, ours, balanced = (predict(average, at) for at in cuts)
    change = (ours.astype(int) - plain) * (tested[:, 1] - tested[:, 0])
    n, gain = tested.sum(), float(change.sum() / tested.sum())
    spread = (tested.sum(axis=1) * (ours != plain)).sum() / n - gain**2
    by_class = partial(_right, tested)
    return {
        "accuracy": [float(by_class(p).sum() / n) for p in (plain, ours)],
        "balanced": [
            float((by_class(p) / np.maximum(tested.sum(axis=0), 1)).mean())
            for p in (plain, ours, balanced)
        ],
        "gain": gain,
        "se": float(np.sqrt(max(spread, 0.0) / n)),
    }


def _right(tested: NDArray[np.int64], predicted: NDArray[np.int8]) -> NDArray[np.int64]:
    """(class,) test rows that are right."""
    return np.array([tested[predicted == label, label].sum() for label in (0, 1)])


def _table(first: tuple[str, ...], parts: dict[Any, Rows]) -> str:
    lines = []
    for name, some in parts.items():
        accuracy, balanced = (
            np.mean([r[k] for r in some], axis=0) for k in ("accuracy", "balanced")
        )
        gain, se = (np.array([r[key] for r in some]) for key in ("gain", "se"))
        lines.append(
            [name, len(some), *_worth(accuracy, gain, se), *(f"{b:.4f}" for b in balanced)]
        )
    return table([*first, *HEADER], lines)
