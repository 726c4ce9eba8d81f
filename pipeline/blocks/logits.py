"""Logits of given labels, by boosted trees and linear functions of the features.

Models are fitted by folds, and a row's logits are those of models that were not fitted on it. They
stand beside features or votes; beside features so may logits of any other model's probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import njit
from scipy import linalg, optimize
from scipy.special import log_softmax

from pipeline.arrays import AnyArray, Float32, Float64, Int32, Int64, Integers, UInt32
from pipeline.knn.threads import ALONE, Threads, one_thread, quiet

FOLDS = 3
"""Parts of the rows; the models of each are fitted on the others."""
LEAVES, DEPTH, LEAF, RATE = 15, 5, 20, 0.1
"""Of a tree: leaves and levels at most, rows of a leaf at least, and the learning rate."""
HASTE, BINS = 2, 64
"""Of trees beside votes: the factor by which they are fewer and learn faster; bins of values."""
FITTED_VALUES = 1_500_000
"""Rows times features that trees are fitted on, at most: 24,000 rows of 62 features."""
FEWEST_FITTED = 1900
"""Rows from which trees beside votes learn at least, or all there are."""
FEWEST_BESIDE = 100
"""The same for logits beside features."""
LEAST_GAIN = 1e-3
"""Nats per row by which trees must make given labels likelier to be used."""
LINEAR_GAIN = 1e-2
"""The same for a linear function, alone or beside the trees of logits of two classes."""
RIDGES = (0.1, 1.0, 10.0)
"""`C` of scikit-learn's logistic regression, the inverse of its penalty, tried in turn."""
SHRUNKEN = (0.03, 0.2, 0.6)
"""Parts by which a discriminant's covariance is shrunken to a multiple of the identity, in turn."""
REGRESSED_VALUES = 5_000_000
"""Rows times features times classes of a logistic regression at most, of more than ``NARROW``
features: beyond, it takes seconds."""
NARROW = 100
DISCRIMINATED_VALUES = 6_000_000
"""Rows times features of a discriminant at most."""
LEAST_POWER = -6.0
"""Least power of 2 by which logits of discriminants are multiplied."""
MOST_FEATURES = 2048
"""Features of models beside votes, and of a discriminant, at most."""
MOST_COLUMNS = 32
"""Columns of logits beside features at most."""
MOST_FORESTS = 100
"""Classes for which trees are fitted at most."""
LEAST_CHANCE = 1e-3
"""Probabilities are taken as no less, nor nearer to 1."""
_TILE, _FEW = 256, 16
"""Rows that go together through a tree, and through slopes of four features, which stay cached."""

T = TypeVar("T")


class Forests(NamedTuple):
    """For each fold trees, as arrays, and a linear function, whose sum are logits."""

    feature: Int32
    """(node,) the feature that splits."""
    threshold: Float64
    """(node,) the largest value that goes left."""
    left: Int32
    """(node,) the node on the left; that on the right is the one after it. Leaves lead to
    themselves."""
    value: Float64
    """(node,) what a leaf adds to the logit."""
    root: Int64
    """(fold, tree) first node; trees of the classes take turns."""
    start: Float64
    """(fold, class) constant logit; one column stands for two classes."""
    spread: Float64
    """(1,) factor of the logits."""
    slope: Float64
    """(fold, feature, class) of the linear function; 0 where there is none."""

    @property
    def digest(self) -> str:
        return digest_of(self)

    def for_new_rows(self) -> Forests:
        """The same with the mean of all models for each fold: none was fitted on new rows."""
        return self._replace(
            value=self.value / FOLDS,
            root=np.tile(self.root.ravel(), (FOLDS, 1)),
            start=np.tile(self.start.mean(axis=0), (FOLDS, 1)),
            slope=np.tile(self.slope.mean(axis=0), (FOLDS, 1, 1)),
        )

    def apply(self, x: Float32) -> Float32:
        """(row, class) float32 logits of rows (row, feature) float32, those of a row's own fold:
        the same for a row whatever rows stand beside it."""
        x, fold = np.ascontiguousarray(x, np.float32), fold_of(x)
        feature, left = self.feature.view(np.uint32), self.left.view(np.uint32)
        out = self.start[fold]
        for one, roots in enumerate(self.root):
            rows = np.flatnonzero(fold == one)
            if self.slope[one].any():
                _add_linear(x, rows, self.slope[one], out)
            _add_trees(x, rows, feature, self.threshold, left, self.value, roots, out)
        if out.shape[1] > 1:
            out -= out.mean(axis=1, keepdims=True)
        return np.asarray(out * self.spread, np.float32)


def digest_of(arrays: Iterable[AnyArray]) -> str:
    """Digest of all bytes of some arrays."""
    return blake2b(b"".join(array.tobytes() for array in arrays), digest_size=16).hexdigest()


def fold_of(x: Float32) -> Int64:
    """(row,) the fold of each, by its features: equal rows are in the same one."""
    bits = (np.ascontiguousarray(x, np.float32) + np.float32(0)).view(np.uint32)
    fold = np.empty(len(x), np.int64)
    _deal_folds(bits, fold)
    return fold


def _others(x: Float32, y: Integers, fewest: int) -> list[Int64] | None:
    """For each fold the rows of all others; None where some of these have fewer classes."""
    fold = fold_of(x)
    others = [np.flatnonzero(fold != one) for one in range(FOLDS)]
    return others if all(len(np.unique(y[rows])) >= fewest for rows in others) else None


def rounds(n_classes: int) -> int:
    """Trees of each class, so many that all together cost little compared with a search."""
    return max(10, min(50, 200 // n_classes))


def fitted_beside(
    call: Callable[[], T], threads: Threads
) -> AbstractContextManager[Callable[[], T]]:
    """``Threads.beside`` of a call that fits models.

    scikit-learn is imported before: threads that begin with different parts of it find some of it
    half made.
    """
    import sklearn.ensemble
    import sklearn.linear_model  # noqa: F401

    return threads.beside(call)


def fit_forests(
    x: Float32, y: Integers, seed: int, threads: Threads = ALONE, haste: int = 1, bins: int = 255
) -> Forests | None:
    """Gradient boosting (Friedman 2001) by scikit-learn's histograms, on the labels of each fold's
    other rows, folds by threads; None where some fold leaves a class out, and for more classes than
    `MOST_FORESTS`."""
    from sklearn.base import clone
    from sklearn.ensemble import HistGradientBoostingClassifier

    classes = np.unique(y)
    others = _others(x, y, len(classes)) if 2 <= len(classes) <= MOST_FORESTS else None
    if others is None:
        return None
    boosting = HistGradientBoostingClassifier(
        learning_rate=RATE * haste,
        max_iter=rounds(len(classes)) // haste,
        max_leaf_nodes=LEAVES,
        max_depth=DEPTH,
        max_bins=bins,
        min_samples_leaf=LEAF,
        early_stopping=False,
        random_state=seed,
    )
    models = [clone(boosting) for _ in others]

    def fit(one: int, _: int) -> None:
        with one_thread():  # else their number decides the last bits
            models[one].fit(x[others[one]], y[others[one]])

    with quiet():
        threads.over(FOLDS, fit, piece=1)
    feature, threshold, left, value, start = [], [], [], [], []
    root: list[list[int]] = []
    n = 0
    for model in models:
        start.append(np.ravel(model._baseline_prediction))
        root.append([])
        for tree in (tree for trees in model._predictors for tree in trees):
            nodes, place = _laid_out(tree.nodes)
            root[-1].append(n)
            leaf = nodes["is_leaf"].astype(bool)
            feature.append(np.where(leaf, 0, nodes["feature_idx"]))
            threshold.append(np.where(leaf, np.inf, nodes["num_threshold"]))
            left.append(n + np.where(leaf, np.arange(len(nodes)), place[nodes["left"]]))
            value.append(np.where(leaf, nodes["value"], 0.0))
            n += len(nodes)
    return Forests(
        np.concatenate(feature).astype(np.int32),
        np.concatenate(threshold),
        np.concatenate(left).astype(np.int32),
        np.concatenate(value),
        np.array(root),
        np.array(start),
        np.ones(1),
        np.zeros((FOLDS, x.shape[1], len(start[0]))),
    )


def fit_logits(x: Float32, y: Integers, seed: int, threads: Threads = ALONE) -> Forests | None:
    """Logits that stand beside features, scaled to spread 1; None where there are none, or all are
    equal. Two classes have trees, with a linear function where that tells more. More classes have a
    linear function in at most ``MOST_COLUMNS`` columns; a logistic regression where classes and
    features are few: discriminants of pixels predicted given labels better, wrong ones worse."""
    classes, code = np.unique(y, return_inverse=True)
    if len(classes) == 2:
        rows = slice(max(FEWEST_BESIDE, FITTED_VALUES // x.shape[1]))
        x, code = x[rows], code[rows]
        fitted = _fit_two(x, code, seed, threads)
    else:
        is_small = len(classes) <= MOST_COLUMNS and FITTED_VALUES // x.shape[1] >= FEWEST_FITTED
        fitted = fit_regressed(x, code, len(classes), threads) if is_small else None
        fitted = fitted or fit_linear(x, code, len(classes), threads)
        if fitted and len(classes) > MOST_COLUMNS:
            fitted = _in_fewer_columns(fitted, x)
    spread = 0.0 if fitted is None else spread_of(fitted.apply(x))
    return fitted._replace(spread=np.array([1.0 / spread])) if fitted and spread > 0 else None


def _in_fewer_columns(linear: Forests, x: Float32) -> Forests:
    """A linear function with the principal components of its logits as columns, turned so that
    their mean is 0, as that of logits is."""
    logits = linear.apply(x).astype(np.float64)
    _, axis = np.linalg.eigh(logits.T @ logits)
    turned = axis[:, 1 - MOST_COLUMNS :] @ linalg.helmert(MOST_COLUMNS)
    return linear._replace(start=linear.start @ turned, slope=linear.slope @ turned)


def _fit_two(x: Float32, y: Integers, seed: int, threads: Threads) -> Forests | None:
    """Trees for two classes, mixed with a linear function where that gains ``LINEAR_GAIN``."""
    with fitted_beside(lambda: fit_linear(x, y, 2, threads), threads) as fitted:
        trees = fit_forests(x, y, seed, threads)
    linear = fitted()
    if trees is None or linear is None:
        return trees
    logits = np.column_stack([trees.apply(x), linear.apply(x)])
    _, alone = _stacked(logits[:, :1], y)
    weight, both = _stacked(logits, y)
    of_trees, of_linear = weight
    if both - alone < LINEAR_GAIN or of_linear == 0:
        return trees
    return mixed((linear, trees), (of_linear, of_trees))


def _stacked(logits: Float32, y: Integers) -> tuple[Float64, float]:
    """Weights (model,) of logits (row, model), none below 0, by logistic regression of labels of
    two classes; and the mean log likelihood of these labels."""
    from sklearn.linear_model import LogisticRegression

    with one_thread(), np.errstate(divide="ignore"):  # of what is impossible
        model = LogisticRegression().fit(logits, y)
        log_likelihood = model.predict_log_proba(logits)[np.arange(len(y)), y].mean()
    return np.maximum(model.coef_[0], 0.0), float(log_likelihood)


def can_learn(n_features: int) -> bool:
    """Whether models of so many features may stand beside votes."""
    return n_features <= MOST_FEATURES


def some_rows(x: Float32, values: int) -> Int64:
    """Rows of a sample, ascending: of at most so many ``values``, at least ``FEWEST_FITTED``."""
    most = max(values // x.shape[1], FEWEST_FITTED)
    return np.sort(np.random.default_rng(0).permutation(len(x))[:most])


def fit_some(x: Float32, y: Integers, threads: Threads = ALONE) -> Forests | None:
    """Trees beside votes, fitted on some rows of a sample; None, too, where these have too many
    values."""
    rows = some_rows(x, FITTED_VALUES)
    if len(rows) * x.shape[1] > FITTED_VALUES:
        return None
    return fit_forests(x[rows], y[rows], 0, threads, HASTE, BINS)


def _is_narrow(n_features: int, n_classes: int) -> bool:
    """Whether a logistic regression is fitted, however many rows there are."""
    return n_features <= NARROW and n_classes <= MOST_COLUMNS


def fit_linear(x: Float32, y: Integers, n_classes: int, threads: Threads = ALONE) -> Forests | None:
    """A linear function of the features for each class, without trees, fitted for each fold on some
    of the other rows; None where these are all of one class for some fold.

    It comes from ``fit_regressed``, if that takes little time, or Fisher's discriminant (of two
    classes only without the former), with the penalty by which the folds' own labels are likeliest.

    y : (row,) codes below `n_classes`, of which one column stands for two
    """
    few, best, highest = some_rows(x, FITTED_VALUES), None, -np.inf
    if _is_narrow(x.shape[1], n_classes) or len(few) * x.shape[1] * n_classes <= REGRESSED_VALUES:
        best = fit_regressed(x, y, n_classes, threads)
    if x.shape[1] <= MOST_FEATURES and (n_classes > 2 or best is None):
        rows, judged, label = some_rows(x, DISCRIMINATED_VALUES), x[few], y[few]
        if best is not None:
            highest = _log_likelihood(best.apply(judged), label)
        for linear in _linear(_discriminants, x[rows], y[rows], n_classes, 2, threads):
            logits = linear.apply(judged)
            factor = _likeliest_factor(logits, label)
            if (value := _log_likelihood(factor * logits, label)) > highest:
                slope, start = factor * linear.slope, factor * linear.start
                best, highest = linear._replace(slope=slope, start=start), value
    return best


def fit_regressed(
    x: Float32, y: Integers, n_classes: int, threads: Threads = ALONE
) -> Forests | None:
    """As ``fit_linear``, by scikit-learn's multinomial logistic regression; None where some fold
    leaves a class out."""
    few = some_rows(x, FITTED_VALUES)
    x, y = x[few], y[few]
    fitted = _linear(_regressions, x, y, n_classes, n_classes, threads)
    return max(fitted, key=lambda linear: _log_likelihood(linear.apply(x), y), default=None)


def _linear(
    functions: Callable[[Float64, Integers, int], Iterator[tuple[Float64, Float64]]],
    x: Float32,
    y: Integers,
    n_classes: int,
    fewest: int,
    threads: Threads,
) -> Iterator[Forests]:
    """For each penalty, linear functions fitted on standard scores of the folds' other rows, folds
    by threads; none where some have fewer classes."""
    others = _others(x, y, fewest) or []
    fitted: list[list[tuple[Float64, Float64]]] = [[] for _ in others]

    def fit(one: int, _: int) -> None:
        rows = others[one]
        center, scale = x[rows].mean(axis=0, dtype=np.float64), x[rows].std(axis=0, dtype=float)
        factor = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        with one_thread():
            for slope, start in functions((x[rows] - center) * factor, y[rows], n_classes):
                if n_classes == 2 and slope.shape[1] == 2:
                    slope, start = slope[:, 1:] - slope[:, :1], start[1:] - start[:1]
                slope = slope * factor[:, None]
                fitted[one].append((slope, start - center @ slope))

    with quiet():  # of more steps to take
        threads.over(len(others), fit, piece=1)
    bare = np.zeros(1, np.int32), np.full(1, np.inf), np.zeros(1, np.int32), np.zeros(1)
    for of_folds in zip(*fitted, strict=True):
        slope, start = (np.stack(column) for column in zip(*of_folds, strict=True))
        yield Forests(*bare, np.zeros((FOLDS, 1), np.int64), start, np.ones(1), slope)


def _regressions(x: Float64, y: Integers, n_classes: int) -> Iterator[tuple[Float64, Float64]]:
    """Slopes (feature, class) and constants (class,) by multinomial logistic regression. Newton's
    method takes few steps where features are correlated, but slow ones where they are many."""
    from sklearn.linear_model import LogisticRegression

    solver = "newton-cholesky" if n_classes == 2 and x.shape[1] <= NARROW else "lbfgs"
    for ridge in RIDGES:
        model = LogisticRegression(C=ridge, solver=solver).fit(x, y)
        yield model.coef_.T, model.intercept_


def _discriminants(x: Float64, y: Integers, n_classes: int) -> Iterator[tuple[Float64, Float64]]:
    """The same by Fisher's discriminant of standard scores, with the covariance within classes
    shrunken by each of several parts (Friedman 1989); of many features or classes, also of only
    those rows whose labels the most shrunken one does not contradict."""
    of_all = list(_shrunken(x, y, n_classes))
    yield from of_all
    if not _is_narrow(x.shape[1], n_classes):
        slope, start = of_all[-1]
        agrees = (x @ slope + start).argmax(axis=1) == y
        yield from _shrunken(x[agrees], y[agrees], n_classes)


def _shrunken(x: Float64, y: Integers, n_classes: int) -> Iterator[tuple[Float64, Float64]]:
    """Slopes and constants by each part in turn; a class without rows has its rareness alone."""
    count, n = np.bincount(y, minlength=n_classes), max(1, len(x))
    mean = np.stack([x[y == one].sum(axis=0) for one in range(n_classes)])
    mean /= np.maximum(count, 1)[:, None]
    away = x - mean[y]
    within = away.T @ away / n
    variance = np.trace(within) / len(within) or 1.0
    for part in SHRUNKEN:
        covariance = (1.0 - part) * within
        covariance[np.diag_indices(len(covariance))] += part * variance
        slope = linalg.solve(covariance, mean.T, assume_a="pos")
        yield slope, np.log(np.maximum(count, 0.5) / n) - 0.5 * (mean.T * slope).sum(axis=0)


def _likeliest_factor(logits: Float32, y: Integers) -> float:
    """The factor of logits (row, class) that makes labels likeliest: discriminants are too sure."""

    def loss(power: float) -> float:
        return -_log_likelihood(2.0**power * logits, y)

    best = optimize.minimize_scalar(loss, bounds=(LEAST_POWER, 0.0), method="bounded")
    return float(2.0**best.x)


def _log_likelihood(logits: Float32, y: Integers) -> float:
    """Mean log likelihood of labels by logits (row, class)."""
    if logits.shape[1] == 1:
        logits = np.column_stack([np.zeros(len(y), np.float32), logits])
    return float(log_softmax(logits, axis=1)[np.arange(len(y)), y].mean())


def mixed(models: Sequence[Forests], weights: Sequence[float]) -> Forests:
    """One model whose logits are those of all, averaged by weights of which some are above 0."""
    part = np.asarray(weights) / np.sum(weights)
    trees = [(one, by) for one, by in zip(models, part, strict=True) if by and one.value.any()]
    trees = trees or [(one, 0.0) for one in models if not one.value.any()][:1]
    nodes = np.cumsum([0, *(len(one.value) for one, _ in trees)])[:-1].astype(np.int32)
    return Forests(
        np.concatenate([one.feature for one, _ in trees]),
        np.concatenate([one.threshold for one, _ in trees]),
        np.concatenate([one.left + at for (one, _), at in zip(trees, nodes, strict=True)]),
        np.concatenate([by * one.value for one, by in trees]),
        np.hstack([one.root + at for (one, _), at in zip(trees, nodes, strict=True)]),
        np.tensordot(part, np.stack([one.start for one in models]), 1),
        np.ones(1),
        np.tensordot(part, np.stack([one.slope for one in models]), 1),
    )


def spread_of(x: Float32) -> float:
    """Root of the summed variances of the columns, (row, column)."""
    return float(np.sqrt(x.var(axis=0, dtype=np.float64).sum()))


def of_chances(chance: Float32) -> Float32:
    """(row, class) float32 logits of probabilities, less their mean; one column for two classes."""
    log = np.log(np.clip(chance.astype(np.float64), LEAST_CHANCE, 1.0 - LEAST_CHANCE))
    if log.shape[1] == 2:
        return np.asarray(log[:, 1:] - log[:, :1], np.float32)
    return np.asarray(log - log.mean(axis=1, keepdims=True), np.float32)


def _laid_out(nodes: Any) -> tuple[Any, Int64]:
    """Nodes level by level, siblings beside each other, and the new place of each."""
    order = [0]
    for at in order:
        if not nodes[at]["is_leaf"]:
            order += [int(nodes[at]["left"]), int(nodes[at]["right"])]
    place = np.empty(len(nodes), np.int64)
    place[order] = np.arange(len(nodes))
    return nodes[order], place


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _add_linear(x: Float32, rows: Int64, slope: Float64, out: Float64) -> None:
    """Add a linear function (feature, class) to the rows' logits, four features at a time."""
    whole = x.shape[1] - x.shape[1] % 4
    for first in range(0, len(rows), _FEW):
        tile = rows[first : first + _FEW]
        for f in range(0, whole, 4):
            for row in tile:
                to = out[row]
                a, b = np.float64(x[row, f]), np.float64(x[row, f + 1])
                c, d = np.float64(x[row, f + 2]), np.float64(x[row, f + 3])
                for one in range(len(to)):
                    to[one] += (a * slope[f, one] + b * slope[f + 1, one]) + (
                        c * slope[f + 2, one] + d * slope[f + 3, one]
                    )
        for f in range(whole, x.shape[1]):
            for row in tile:
                to, value = out[row], np.float64(x[row, f])
                for one in range(len(to)):
                    to[one] += value * slope[f, one]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _deal_folds(bits: UInt32, fold: Int64) -> None:
    for row in range(len(bits)):
        mixed = np.uint64(0x9E3779B97F4A7C15)
        for feature in bits[row]:
            mixed = (mixed ^ np.uint64(feature)) * np.uint64(0xFF51AFD7ED558CCD)
            mixed ^= mixed >> np.uint64(32)
        fold[row] = mixed % np.uint64(FOLDS)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _add_trees(
    x: Float32,
    rows: Int64,
    feature: UInt32,
    threshold: Float64,
    left: UInt32,
    value: Float64,
    roots: Int64,
    out: Float64,
) -> None:
    """Add the values of the rows' leaves to their logits, tree by tree in their order. Rows go down
    level by level, so that none waits for another; unsigned nodes need no check of their sign."""
    n_classes, at = out.shape[1], np.empty(_TILE, np.uint32)
    for first in range(0, len(rows), _TILE):
        tile = rows[first : first + _TILE]
        for tree in range(len(roots)):
            at[:] = roots[tree]
            for _ in range(DEPTH):
                for p in range(len(tile)):
                    node = at[p]
                    right = np.float64(x[tile[p], feature[node]]) > threshold[node]
                    at[p] = left[node] + np.uint32(right)
            column = tree % n_classes
            for p in range(len(tile)):
                out[tile[p], column] += value[at[p]]
