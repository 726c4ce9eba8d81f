"""The noise rates of two classes, how far each use may rely on them, and the words for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Float64, Integers

Support = Literal["supported", "weak", "unsupported"]
WEAK, UNSUPPORTED = 0.2, 0.45
"""Half-width over range above which a rate is weakly supported, or not at all."""
FEW, TOO_FEW = 250.0, 60.0
"""Informative rows of a class, rows * (1 - p0 - p1)**2, below which it is weak, or none."""
FEWEST_ROWS = 40
"""Rows below which nothing tells noise from truth."""
SETTLED = 3.0
"""Rows of the purest plateau, over the fewest that make one, below which support is weak: the rate
might still fall with more."""
MIXED = 0.3
"""Impurity of a class (chance that a row where it lies belongs to the other) above which a verdict
is at most ``weak``."""
MANY, MIXED_FEW = 1000.0, 0.15
"""With fewer informative rows than ``MANY``, the impurity above which it is at most ``weak``."""
HIDDEN = 0.9
"""Part of impurity * (1 - impurity) by which the upper end of an interval is raised: where classes
seem to overlap there may be mistakes that cluster."""

MOSTLY, STRANGE = 0.5, 0.14
"""Rate from which a class is mostly given the other label; and the other class' rate plus half its
impurity, beyond which such a rate is doubtful unless it is supported."""
MINGLED = 0.3
"""Part of a class' impurity that may be the other class in its purest neighborhoods; the lower end
of its interval allows for that, and for a share ``p0 + p1`` of the rate: in full up to ``FEW``
informative rows, for less with more. The curve of few rows is a step where rates are large."""
ALLOWED: dict[Support, float] = {"supported": 0.1, "weak": 0.7, "unsupported": 1.0}
"""Part of both that the lower end takes off, by verdict."""
RARE, RISKED = (0.15, 0.25), 0.4
"""Share of the rarer class up to which decisions allow fully for mistakes that depend on the
features, and from which not at all; and the part of an interval that then counts as an error."""
TRUSTED, FADING = 0.5, 6.0
"""Part of a class' rates that label qualities trust where other classes lie all over it, and how
fast trust falls from 1 to it with impurity."""
FEWER, AROUND = (0.2, 0.24), (0.08, 0.12)
"""Share of the rarer class' labels up to which label qualities may take one rate for both classes
in full, and from which not at all; and the frequent class' rate plus a quarter of its impurity from
which on they do, and from which in full."""
ALIKE, MOST_DRAWN = 0.5, 0.9
"""Part of unknown mistakes that go from and to all classes alike; and the largest share of labels
that may be drawn at random."""


@dataclass(frozen=True)
class NoiseRates:
    """p0 = P(given 1 | true 0) and p1 = P(given 0 | true 1), with how far they can be trusted."""

    p0: float
    p1: float
    p0_interval: tuple[float, float]
    """95 % interval of the rate realized in the pool; its upper end allows for mistakes that look
    like overlap of the classes, its lower end for overlap that looks like mistakes."""
    p1_interval: tuple[float, float]
    method: Literal["minmax", "crossfit", "rknn", "given", "contradicted"]
    rate_k: int
    """Neighborhood size the estimate rests on, the row itself included; 0 for "given"."""
    support: Support
    reason: str
    """One sentence a reader without statistics understands."""
    diagnostics: dict[str, Any] = field(default_factory=dict)
    """Numbers and lists for the report; JSON as it stands."""
    errors: tuple[float, float] | None = None
    """Standard errors of (p0, p1) if mistakes depend on the class alone; None: the intervals'."""
    in_place: bool = False
    """Whether mistakes of a place pass for a class whose labels are mostly lost."""

    @property
    def standard_errors(self) -> tuple[float, float]:
        """Standard errors of (p0, p1)."""
        if self.errors is not None:
            return self.errors
        intervals = (self.p0_interval, self.p1_interval)
        e0, e1 = ((high - low) / (2.0 * 1.96) for low, high in intervals)
        return e0, e1

    def risk(self, given: float) -> Float64:
        """(2,) errors of (p0, p1) that decisions reckon with, where a share `given` of the labels
        is 1: the standard errors, or, where the rates are not supported and one class is rare, a
        part of the intervals if that is larger.

        Standard errors hold if mistakes depend on the class alone. Mixed labels around a rare class
        may as well be mistakes that depend on the features; corrected by the rates of the class,
        many rows of the other one would move to it.
        """
        errors = np.array(self.standard_errors)
        if self.support == "supported":
            return errors
        rarest = min(given, 1.0 - given, *clean_shares(self.p0, self.p1, given))
        part = float(np.interp(rarest, RARE, (1.0, 0.0)))
        intervals = np.array([self.p0_interval, self.p1_interval])
        return np.asarray(np.maximum(errors, RISKED * part * np.ptp(intervals, axis=1)))

    @property
    def impurity(self) -> tuple[float, float]:
        """Of each class the chance that a row where it lies belongs to the other; 1 where that is
        unknown."""
        zero, one = (self.diagnostics.get(name, {}).get("impurity", 1.0) for name in ("p0", "p1"))
        return zero, one

    @property
    def unknown(self) -> bool:
        """Whether a standard error is as large as the difference between the classes' labels, as
        for a class of few rows, most of whose labels may seem to be wrong."""
        return max(self.standard_errors) >= 1.0 - self.p0 - self.p1

    def alike(self, given: float) -> float:
        """Part of each rate that label qualities replace by one rate of both classes, where a share
        `given` of the labels is 1: 0 for supported rates, else the more, the fewer labels the rarer
        class has and the more mistakes there are around the frequent one.

        If mistakes grow along the features, a rare class' labels may be mistakes for the most part,
        and in some places the commonest label. By the rates of the classes these labels would be
        believed, and the right labels among them be taken for mistakes.
        """
        if self.method != "crossfit" or self.support == "supported":
            return 0.0
        frequent = int(given > 0.5)
        around = (self.p0, self.p1)[frequent] + 0.25 * self.impurity[frequent]
        few = np.interp(min(given, 1.0 - given), FEWER, (1.0, 0.0))
        return float(few * np.interp(around, AROUND, (0.0, 1.0)))

    @property
    def doubtful(self) -> bool:
        """Whether no decision should rest on the rates: they are unknown, or those of a place; or
        by them a class is mostly given the other label, while labels are mixed around rows of the
        other class too.

        Mistakes that grow along the features look like that where a class is rare, and corrected by
        such rates whole regions would move to it. Where rows of a class are just mostly left
        unlabeled, labels around the other class are not mixed.
        """
        if self.method != "crossfit" or self.support == "supported" or not self.diagnostics:
            return False
        if self.unknown or self.in_place:
            return True
        rates = self.p0, self.p1
        strange = [p + 0.5 * i for p, i in zip(rates, self.impurity, strict=True)]
        return any(p >= MOSTLY and strange[1 - side] > STRANGE for side, p in enumerate(rates))


def worth(rows: float) -> str:
    """How much a class with so many informative rows tells, in words."""
    return f"tells as much as {rows:,.0f} clean label{'' if round(rows) == 1 else 's'}"


def too_few(n_rows: int) -> str:
    """Why a pool of so few rows supports nothing."""
    return f"{n_rows} rows are too few to tell noise from truth; it takes {FEWEST_ROWS}."


def trusted(impurity: npt.ArrayLike) -> Float64:
    """(class,) part of each class' rates that label qualities trust: the more other classes lie
    where it does, the more of its seeming mistakes may be rows of theirs."""
    return TRUSTED + (1.0 - TRUSTED) * np.exp(-FADING * np.asarray(impurity, np.float64))


def unknown_mistakes(wrong: float, given_counts: Integers) -> Float64:
    """(true class, given class) matrix where only the share ``wrong`` of mistakes is known.

    A part ``ALIKE`` of them goes from and to all classes alike. With all of them, most labels of a
    rare class would be wrong where classes overlap; so the others are labels drawn at random from
    the ``given_counts`` (class,), which leaves classes as frequent as labels are.
    """
    c, share = len(given_counts), given_counts / max(1, int(given_counts.sum()))
    drawn = min(wrong / max(1.0 - float(share @ share), 1e-12), MOST_DRAWN)
    matrix = np.tile(ALIKE * wrong / (c - 1) + (1.0 - ALIKE) * drawn * share, (c, 1))
    np.fill_diagonal(matrix, 0.0)
    return np.asarray(matrix + np.diag(1.0 - matrix.sum(axis=1)))


def clean_shares(p0: float, p1: float, given: float) -> tuple[float, float]:
    """Shares of the clean classes 0 and 1, where a share `given` of the labels is 1."""
    left = 1.0 - p0 - p1
    one = min(1.0, max(0.0, (given - p0) / left)) if left > 0 else given
    return 1.0 - one, one


def given(p0: float, p1: float) -> NoiseRates:
    """Rates the user knows. ValueError unless both lie in [0, 1) and p0 + p1 < 1."""
    if not (0 <= p0 < 1 and 0 <= p1 < 1 and p0 + p1 < 1):
        raise ValueError(f"p0={p0}, p1={p1}: need rates in [0, 1) with p0 + p1 < 1")
    return NoiseRates(p0, p1, (p0, p0), (p1, p1), "given", 0, "supported", "Given by the user.")


def worst(verdicts: Iterable[Support]) -> Support:
    """The verdict that says least, of at least one."""
    return min(verdicts, key=("unsupported", "weak", "supported").index)


def verdict(gap: float, halves: list[float], sides: list[dict[str, float]]) -> tuple[Support, str]:
    """The verdict, and the words that its reason begins with: supported if, were mistakes to depend
    on the class alone, both rates are known to a fraction of ``gap``, 1 - p0 - p1."""
    relative = max(halves) / gap
    rows = min(side["informative_rows"] for side in sides)
    impurity = max(side["impurity"] for side in sides)
    if relative > UNSUPPORTED or rows < TOO_FEW:
        return "unsupported", "No neighborhood is surely pure in one of the classes"
    if impurity > MIXED:
        return "weak", "The classes blend gradually, so rates are read beyond the purest rows"
    if rows < MANY and impurity > MIXED_FEW:
        return "weak", "The classes overlap and the pool is small"
    if min(side["plateau_steps"] for side in sides) < SETTLED:
        return "weak", "An extreme is reached by hardly more rows than are looked at"
    if relative > WEAK or rows < FEW:
        return "weak", "The purest neighborhoods rest on little"
    return "supported", "Both classes have pure neighborhoods enough, and rates are those there"


def known_to(
    gap: float,
    halves: list[float],
    sides: list[dict[str, float]],
    intervals: list[tuple[float, float]],
) -> str:
    """How well the worse rate is known: if mistakes depend on the class alone and, by its interval,
    if they do not."""
    worse = 1 if halves[1] > halves[0] else 0
    rows = min(side["informative_rows"] for side in sides)
    low, high = intervals[worse]
    known = (
        f"is known to about {halves[worse]:.3f}, if mistakes depend on the class alone, "
        f"else within {low:.3f} to {high:.3f},"
    )
    known = known if halves[worse] < 0.5 else "may be anything"
    return (
        f"rate p{worse} {known} while the share of either label differs by {gap:.3f} between the "
        f"classes, and the smaller class {worth(rows)}"
    )
