"""Noise rates of c classes: P(given b | true a) as a row-stochastic matrix, row = true class a.

As for two classes, some labels near each anchor are held out, and others describe the anchor
(``held_out_classes``). The held-out labels of anchor i follow ``F[i] @ matrix``, where ``F[i]`` are
the chances of its clean classes: a softmax of the shares of the other labels, weighed over
neighborhood sizes. In a pure region F is a corner of the simplex, and the label shares are a row of
the matrix. F and the matrix are fitted together by maximum likelihood, so every label counts. Two
classes are left to ``crossfit``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Bools, Float64, Floating, Int64, Integers
from pipeline.knn.threads import ALONE, Threads, one_thread
from pipeline.noise.copies import Mates, OneEach, groups_of, most_mates, one_of_value
from pipeline.noise.cores import NEIGHBORS, in_core, near_anchors
from pipeline.noise.extrema import (
    COVERAGE,
    OF_EACH_CLASS,
    crossfit,
    n_held_out,
    unknown,
)
from pipeline.noise.rates import ALLOWED, MIXED, NoiseRates, Support, worst, worth
from pipeline.noise.regions import FEWEST, SURELY, RegionTest, region_test
from pipeline.noise.transition_fit import fit

FEW, TOO_FEW = 100.0, 25.0
"""Informative rows of a class, rows * (lead of its diagonal entry over the column)**2, below which
its support is weak, or there is none."""
SAMPLED, OVERLAP, LEAST = 0.6, 0.25, 0.002
"""Of an entry's squared error: the part of its binomial variance over the anchors' labels, the part
of what other classes can mix in, and a floor (a standard error). Tuned on samples of 1,000 to 5,620
rows of landsat, optdigits and usps."""
HIDDEN = 0.6
"""Part of what other classes have where a class lies that may be mistakes which cluster there, for
which the upper end of an entry's interval allows; or, where rows are few, overlap that passes for
mistakes, for which the lower end does (`_mingled`)."""
MUTUAL, MEETING = 0.1, 0.05
"""Two classes may coincide, rather than exchange labels, where each is given the other's label so
much more often than those of most others, and either has such a chance where the other lies."""
MOST_CELLS = 200_000_000
"""Anchors times sizes times classes, beyond which some anchors are left out."""
APART = 0.03
"""A class stands apart if at most this part of the rows where it lies belongs to others: its row of
the matrix is then read off its own rows, however few they are."""
FEWEST_ANCHORS = 2000
MOST_WORK = 1_000_000_000
"""Anchors times classes squared, beyond which anchors are left out, down to ``FEWEST_ANCHORS`` and
``OF_EACH_CLASS``: a step of the fit takes about a second."""
FEWEST_LISTED = 60
"""Anchors, and places in their lists, below which no mates are looked for."""


@dataclass(frozen=True)
class Transition:
    """The matrix and how far it can be trusted."""

    matrix: Float64
    """(true class, given class) float64; rows add up to 1."""
    support: Support
    """The verdict of the class worst off."""
    reason: str
    rates: NoiseRates | None = None
    """``crossfit``'s full answer where there are two classes."""
    diagnostics: dict[str, Any] = field(default_factory=dict)
    """Numbers and lists for the report; JSON as it stands."""
    interval: Float64 | None = None
    """(true class, given class, 2) 95 % interval of each entry as realized in the pool."""
    class_support: tuple[Support, ...] = ()
    """The verdict of each true class."""
    regions: tuple[RegionTest | None, ...] = ()
    """For each class, the test whether its mistakes depend on the features; empty: not tested."""
    prior: Float64 | None = None
    """(class,) shares of the clean classes; None for two classes, whose rates give them."""
    impurity: Float64 | None = None
    """(class,) chance that a row where a class lies belongs to others, 1 where nothing is known of
    it; None for two classes, and where the matrix is given."""
    doubt: Float64 | None = None
    """(class, class) standard errors of the entries, as overlap may pass for mistakes and mistakes
    for overlap, 1 where nothing is known; None likewise."""
    errors: Float64 | None = None
    """(class,) errors of the diagonal if mistakes depend on the class alone; None: by intervals."""

    def of_distinct(self, distinct: OneEach) -> Transition:
        """The same with what is said of the groups whose rows it counts once."""
        support = worst([self.support, distinct.at_most])
        reason = distinct.reason(self.reason, self.class_support)
        if self.rates is not None:
            return of_rates(replace(self.rates, support=support, reason=reason))
        verdicts = tuple(worst([one, distinct.at_most]) for one in self.class_support)
        return replace(self, support=support, reason=reason, class_support=verdicts)

    @property
    def apart(self) -> Bools:
        """(class,) whether each stands apart, as far as that is known."""
        if self.impurity is None:
            return np.zeros(len(self.matrix), np.bool_)
        return _apart(self.matrix, self.impurity)

    @property
    def standard_errors(self) -> Float64:
        """(class,) standard errors of the diagonal: ``errors``, or by the intervals where these are
        unknown; 0 where the matrix is given."""
        if self.errors is not None:
            return self.errors
        if self.interval is None:
            return np.zeros(len(self.matrix))
        return np.asarray(np.diag(self.interval[:, :, 1] - self.interval[:, :, 0]) / (2.0 * 1.96))


def transition_matrix(
    neighbor: Int64,
    label: Integers,
    n_rows: int,
    n_classes: int,
    x: Floating | None = None,
    distance: Floating | None = None,
    coverage: int = COVERAGE,
    threads: Threads = ALONE,
    group: Int64 | None = None,
) -> Transition:
    """P(given | true) from anchors' neighbor lists, the same in whatever order anchors come.

    ``neighbor`` is (anchor, K) int64 row ids, nearest first, column 0 the anchor itself; ``label``
    (anchor, K) integers in [0, n_classes), the given labels of those rows; ``n_rows`` the size of
    the pool; ``x`` (anchor, feature), the anchors themselves, for the test whether mistakes depend
    on the features; ``distance`` (anchor, K), those of the neighbors: with it, rows whose labels
    are copies are counted once (``copies``); ``coverage``, labels held out per anchor at most;
    ``group`` (anchor, K), the groups of these rows where they are known: one anchor of each counts
    (``one_of_value``), ``n_rows`` is the number of groups, and copies are not looked for. A class
    no list shows keeps its identity row, unsupported. ValueError on labels out of range, shapes
    that differ, fewer than 20 anchors or K < 10.
    """
    if neighbor.shape != label.shape or len(neighbor) < 20 or neighbor.shape[1] < 10:
        lists = f"neighbor {neighbor.shape} and label {label.shape}"
        raise ValueError(f"{lists}: need equal shapes, at least 20 anchors and 10 columns")
    if label.min() < 0 or label.max() >= n_classes:
        raise ValueError(f"labels {label.min()} to {label.max()}: need 0 to {n_classes - 1}")
    if group is not None:
        return _one_each(one_of_value(neighbor, label, group), n_rows, n_classes, x, threads)
    observed = np.unique(label) if n_classes > 2 else np.arange(2)
    if n_classes > 2 and np.bincount(label[:, 0]).max() * n_rows < TOO_FEW * len(label):
        return _nothing(n_classes, f"No class has {TOO_FEW:.0f} rows.")
    if len(observed) == 1:
        return _nothing(n_classes)
    for distinct in groups_of(neighbor, label, distance, len(observed), n_rows):
        counted = _counted_once(distinct, n_rows, n_classes, x, threads)
        if counted is not None:
            return counted.of_distinct(distinct)
    if n_classes == 2:
        return of_rates(crossfit(neighbor, label.astype(np.int8), n_rows, x, coverage, threads))
    order = np.argsort(neighbor[:, 0], kind="stable")
    c = len(observed)
    paid = min(MOST_CELLS // (8 * c), MOST_WORK // c**2)
    most_anchors = max(FEWEST_ANCHORS, OF_EACH_CLASS * c, paid)
    order = order[np.linspace(0, len(order) - 1, min(len(order), most_anchors)).astype(np.int64)]
    near, given = neighbor[order], label[order]
    with one_thread():  # as in crossfit
        fitted, clean, labels = fit(
            near, np.searchsorted(observed, given), c, n_rows, coverage, threads
        )
    tests: tuple[RegionTest | None, ...] = ()
    if x is not None:
        kept = n_held_out(near.shape, n_rows, coverage)
        around = np.searchsorted(observed, given[:, kept : kept + NEIGHBORS])
        tests = _regions(x[order], around, fitted, clean, labels, threads)
    fitted = _averaged(fitted, clean, labels, tests)
    return _judge(fitted, clean, n_rows, n_classes, observed, tests)


def mates_in(
    neighbor: Int64,
    label: Integers,
    distance: Floating,
    n_rows: int,
    n_classes: int,
    threads: Threads = ALONE,
) -> Mates:
    """Which rows vouch for each other's labels: equal or nearly equal ones whose labels were copied
    with them, or the rows of one person that stand together in the file. Lists are those of
    ``transition_matrix``."""
    if min(neighbor.shape) < FEWEST_LISTED:
        return Mates()
    for distinct in groups_of(neighbor, label, distance, n_classes, n_rows):
        counted = _counted_once(distinct, n_rows, n_classes, None, threads)
        if counted is not None and distinct.left_out(counted.class_support):
            mates = Mates(distinct.run, distinct.near)
            mate = mates.among(neighbor[:, 0], neighbor[:, 1:], distance[:, 1:])
            return replace(mates, most=most_mates(mate))
    return Mates()


def _counted_once(
    distinct: OneEach, n_rows: int, n_classes: int, x: Floating | None, threads: Threads
) -> Transition | None:
    """The matrix of distinct rows; None where each row's label is its own."""
    if distinct.every is None:
        counted = _one_each(distinct, n_rows, n_classes, x, threads)
        return counted if distinct.copied(_differ(counted, at_least=True)) else None
    of_all = transition_matrix(*distinct.every, n_rows, n_classes, coverage=1, threads=threads)
    is_copied = distinct.copied(_differ(of_all, at_least=False))
    return _one_each(distinct, n_rows, n_classes, x, threads) if is_copied else None


def _one_each(
    distinct: OneEach, n_rows: int, n_classes: int, x: Floating | None, threads: Threads
) -> Transition:
    """The matrix of distinct rows."""
    if not distinct.enough:
        return _nothing(n_classes, distinct.too_few)
    n_distinct = max(1, round(n_rows * distinct.share))
    anchors = None if x is None else x[distinct.anchor]
    lists = distinct.neighbor, distinct.label, n_distinct, n_classes, anchors
    return transition_matrix(*lists, coverage=1, threads=threads)


def _differ(transition: Transition, at_least: bool) -> float:
    """Chance that two given labels of one clean class differ, by the matrix; or the least such
    chance within its intervals (``at_least``), where something supports it."""
    if transition.rates is not None:
        return _two_differ(transition.rates, 1.96 if at_least else 0.0)
    right = np.diag(transition.matrix)
    if at_least and transition.support != "unsupported" and transition.interval is not None:
        right = np.diagonal(transition.interval[:, :, 1])
    prior = np.full(len(right), 1.0 / len(right)) if transition.prior is None else transition.prior
    return 2.0 * float(prior @ (right * (1.0 - right)))


def _two_differ(rates: NoiseRates, z: float) -> float:
    """The same of two classes, by the rates less ``z`` standard errors."""
    shares = [rates.diagnostics.get(name, {}).get("class_share", 0.5) for name in ("p0", "p1")]
    z *= rates.support != "unsupported"
    fitted = zip((rates.p0, rates.p1), rates.standard_errors, strict=True)
    wrong = [max(0.0, p - z * error) for p, error in fitted]
    return 2.0 * float(sum(share * p * (1.0 - p) for share, p in zip(shares, wrong, strict=True)))


def of_rates(rates: NoiseRates) -> Transition:
    """Two classes' rates as a matrix, ``[[1 - p0, p0], [p1, 1 - p1]]``, with their verdict."""
    matrix = np.array([[1.0 - rates.p0, rates.p0], [rates.p1, 1.0 - rates.p1]])
    (low0, high0), (low1, high1) = rates.p0_interval, rates.p1_interval
    interval = np.array(
        [
            [(1.0 - high0, 1.0 - low0), (low0, high0)],
            [(low1, high1), (1.0 - high1, 1.0 - low1)],
        ]
    )
    support = rates.support
    both = (support, support)
    return Transition(matrix, support, rates.reason, rates, rates.diagnostics, interval, both)


def _nothing(n_classes: int, reason: str = "Every label is the same.") -> Transition:
    """Where nothing is known of the matrix."""
    if n_classes == 2:
        return of_rates(unknown(0.0, 0.0, reason))
    none: list[Support] = ["unsupported"] * n_classes
    return Transition(
        np.eye(n_classes),
        "unsupported",
        reason,
        interval=np.tile([0.0, 1.0], (n_classes, n_classes, 1)),
        class_support=tuple(none),
        impurity=np.ones(n_classes),
        doubt=np.ones((n_classes, n_classes)),
    )


def _shared(clean: Float64) -> Float64:
    """(c, c) chances of other classes where each lies, 0 on the diagonal."""
    shared = clean.T @ clean / np.maximum(clean.sum(axis=0), 1.0)[:, None]
    np.fill_diagonal(shared, 0.0)
    return np.asarray(shared)


def _coinciding(fitted: Float64, shared: Float64) -> Float64:
    """(c, c) the part of each entry that may come of two classes which nearly coincide, each given
    the other's label far more often than most others: labels do not tell that from mistakes."""
    others = np.where(np.eye(len(fitted), dtype=bool), np.inf, fitted)
    third = np.sort(others, axis=1)[:, (len(fitted) - 3) // 2, None]
    beyond = np.where(np.isfinite(others), fitted - third, 0.0)
    exchanged = np.minimum(beyond, beyond.T) > MUTUAL
    return np.where(exchanged & (np.maximum(shared, shared.T) > MEETING), beyond, 0.0)


def _mingled(
    fitted: Float64, hidden: Float64, informative: Float64, verdicts: list[Support], gap: Float64
) -> Float64:
    """(c, c) the part of each entry that may come of overlap, which passes for mistakes where rows
    are few: by verdict, of what is ``hidden`` and of the entry, the less the class leads (``gap``).
    """
    part = np.array([ALLOWED[one] for one in verdicts]) * FEW / np.maximum(informative, FEW)
    mingled = part[:, None] * (hidden + fitted * np.minimum(1.0 - gap, 1.0)[:, None])
    np.fill_diagonal(mingled, 0.0)
    return np.asarray(mingled)


def _half_widths(fitted: Float64, clean: Float64, shared: Float64, rows: Float64) -> Float64:
    """(c, c) half of the 95 % intervals: few labels, and other classes' labels mixed in."""
    size = np.maximum(clean.sum(axis=0), 1.0)
    mixed = np.stack([shared[a] @ np.abs(fitted - fitted[a]) for a in range(len(fitted))])
    variance = (fitted * (1.0 - fitted) + 1.0 / rows[:, None]) / size[:, None]
    squares = SAMPLED * variance + (OVERLAP * mixed) ** 2 + LEAST**2
    return np.asarray(1.96 * np.sqrt(squares))


def _doubt(
    fitted: Float64, half: Float64, hidden: Float64, rows: Float64, believed: Bools
) -> Float64:
    """(c, c) standard errors of the entries.

    Two classes are told apart by the lead of either's label: how much commoner it is where its
    class lies than where the other does; and, unless the class is ``believed`` (class,), than the
    other's label is there. With a lead g, the variance that ``rows`` (class,) leave grows by about
    ``1 + ((1 - g) / g)**2``. What is ``hidden`` where one class overlaps the other is in doubt for
    both, as far as it has labels.
    """
    own, n = np.diag(fitted), rows[:, None]
    lead = np.minimum(own - fitted, np.where(believed[:, None], 1.0, own[:, None] - fitted))
    inflated = 1.0 + (1.0 / np.clip(np.minimum(lead, lead.T), 1e-3, 1.0) - 1.0) ** 2
    variance = (fitted * (1.0 - fitted) + 1.0 / n) / n * inflated
    confused = np.hypot(half, hidden) / 1.96
    given = np.maximum(rows @ fitted, 1.0)
    confused = np.maximum(confused, confused.T * np.minimum(given / given[:, None], 1.0))
    return np.asarray(np.sqrt(variance + confused**2))


def _apart(fitted: Float64, impurity: Float64) -> Bools:
    """(class,) whether each stands apart, and so does the class whose label it is given most: were
    one of the two believed and the other not, votes would move rows from the one to the other."""
    apart = impurity <= APART
    return np.asarray(apart & apart[(fitted - 2.0 * np.eye(len(fitted))).argmax(axis=1)])


def _averaged(
    fitted: Float64, clean: Float64, counts: Float64, tests: tuple[RegionTest | None, ...]
) -> Float64:
    """The matrix with the rows of classes whose regions disagree averaged over these regions.

    One row for all places takes a region of more mistakes for a mixture of classes, and is that of
    the region of fewest. The average holds what other classes mix in, as the regions' rates do.
    """
    averaged = fitted.copy()
    for a, test in enumerate(tests):
        if test is not None and test.disagree:
            labels = counts[clean[:, a] >= SURELY].sum(axis=0)
            averaged[a] = labels / labels.sum()
    return averaged


def _regions(
    x: Floating,
    around: Integers,
    fitted: Float64,
    clean: Float64,
    counts: Float64,
    threads: Threads,
) -> tuple[RegionTest | None, ...]:
    """The test of each class against all others, in its core.

    ``around`` is (anchor, neighbor) labels that are not held out, nearest first.
    """
    near, trials = near_anchors(x, threads), counts.sum(axis=1)
    tests: list[RegionTest | None] = []
    for a in range(len(fitted)):
        chance = clean[:, a]
        if np.count_nonzero(chance >= SURELY) < 4 * FEWEST:
            tests.append(None)
            continue
        other = float(np.delete(fitted[:, a], a).max())
        core = in_core(around != a, 1.0 - 0.5 * (float(fitted[a, a]) + other), near)
        tests.append(region_test(x, chance, trials - counts[:, a], trials, core))
    return tuple(tests)


def _judge(
    fitted: Float64,
    clean: Float64,
    n_rows: int,
    n_classes: int,
    observed: Integers,
    tests: tuple[RegionTest | None, ...],
) -> Transition:
    """Intervals, and a verdict per class: how many informative rows, and how pure they are.

    Of all ``n_classes`` something is known of those ``observed`` (c,), to which the other arguments
    belong.
    """
    share = clean.mean(axis=0)
    rows = np.maximum(n_rows * share, 1.0)
    impurity = 1.0 - (clean**2).sum(axis=0) / np.maximum(clean.sum(axis=0), 1e-12)
    others = np.where(np.eye(len(fitted), dtype=bool), -1.0, fitted).max(axis=0)
    gap = np.diag(fitted) - others
    informative = n_rows * share * np.maximum(gap, 0.0) ** 2
    shared = _shared(clean)
    half, hidden = _half_widths(fitted, clean, shared, rows), HIDDEN * shared
    coinciding = _coinciding(fitted, shared)
    verdicts = list(map(_verdict, informative.tolist(), impurity.tolist()))
    overlap = coinciding + _mingled(fitted, hidden, informative, verdicts, gap)
    low = fitted - half - np.diag(hidden.sum(axis=1)) - overlap
    high = fitted + half + hidden + np.diag(overlap.sum(axis=1))
    low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    varying = {at: test for at, test in enumerate(tests) if test is not None and test.disagree}
    for at, test in varying.items():
        low[at, at] = min(low[at, at], 1.0 - test.span[1])
        high[at, at] = max(high[at, at], 1.0 - test.span[0])
    for at in {*varying, *np.flatnonzero(coinciding.any(axis=1)).tolist()}:
        verdicts[at] = worst([verdicts[at], "weak"])
    support = np.array(verdicts)
    believed = (support == "supported") | ((support == "weak") & _apart(fitted, impurity))
    doubt = _doubt(fitted, half, hidden, rows, believed)

    def of_all(values: Float64, others: npt.ArrayLike) -> Float64:
        """The values of the observed classes, (c,) or (c, c, ...), beside those of the others."""
        axes = min(values.ndim, 2)
        whole = np.array(np.broadcast_to(others, (n_classes,) * axes + values.shape[axes:]))
        whole[np.ix_(*[observed] * axes)] = values
        return whole

    diagnostics = {"impurity": impurity.tolist(), "informative_rows": informative.tolist()}
    diagnostics["class_share"] = share.tolist()
    somewhere = clean.any(axis=0)
    least, most = informative[somewhere].min(), impurity[somewhere].max()
    lost = np.count_nonzero(~somewhere)
    labels = "label is" if lost == 1 else "labels are"
    exchanged = "Some classes have each other's labels, or nearly coincide: labels do not tell."
    sentences = (
        (varying, f"Mistakes depend on the features in {len(varying)} of {n_classes} classes."),
        (coinciding.any(), exchanged),
        (lost, f"{lost} {labels} common nowhere, and taken for mistakes alone."),
        (True, f"The class that is known worst {worth(least)};"),
        (True, f"where a class lies, up to {most:.0%} of the rows belong to others."),
    )
    verdict_of = dict(zip(observed.tolist(), verdicts, strict=True))
    class_support = tuple(verdict_of.get(code, "unsupported") for code in range(n_classes))
    test_of = dict(zip(observed.tolist(), tests, strict=False))
    return Transition(
        of_all(fitted, np.eye(n_classes)),
        worst(class_support),
        " ".join(text for holds, text in sentences if holds),
        diagnostics=diagnostics,
        interval=of_all(np.stack([low, high], axis=2), (0.0, 1.0)),
        class_support=class_support,
        regions=tuple(map(test_of.get, range(n_classes))) if tests else (),
        prior=of_all(share, 0.0),
        impurity=of_all(impurity, 1.0),
        doubt=of_all(doubt, 1.0),
        errors=of_all(np.minimum(np.diag(half), 0.5) / 1.96, 0.5 / 1.96),
    )


def _verdict(informative: float, impurity: float) -> Support:
    if informative < TOO_FEW:
        return "unsupported"
    return "weak" if informative < FEW or impurity > MIXED else "supported"
