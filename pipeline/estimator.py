"""The same kernels in memory, behind scikit-learn's interface."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from pipeline.arrays import AnyArray, Bools, Float32, Float64, Int64
from pipeline.blocks.logits import can_learn
from pipeline.blocks.metric import AS_SCALED, EMBEDDING, LEARNED, SAMPLE_ROWS, choose_metric
from pipeline.blocks.metric import FEWEST_ROWS as LEAST_ROWS
from pipeline.blocks.sampling import in_sample, shuffled
from pipeline.blocks.scaling import FeatureStatistics, Scaling, spreads
from pipeline.decision.choose_k import choose, squared_losses
from pipeline.decision.class_rule import decide, decide_weighed, temper
from pipeline.decision.class_votes import class_losses, contradicted
from pipeline.decision.odds import judged_by_places
from pipeline.decision.quality import FIT_ROWS, correction, reach_of
from pipeline.decision.suspects import (
    PORTION,
    Suspects,
    by_models,
    suspects_of,
    suspects_of_two,
    votes_among,
)
from pipeline.decision.tempering import (
    MatrixDecision,
    Worth,
    assumed,
    believed,
    softened,
    worth,
)
from pipeline.decision.threshold import cost_share, credible, tempered, vote_table
from pipeline.decision.votes import FEWEST_NEIGHBORS, counts, extremes_with_self, k_grid
from pipeline.diagnostics.health import is_coarse_in_float32
from pipeline.in_memory import training_lists
from pipeline.knn.rows import METRICS, Rows, as_rows, dense, nearest_rows
from pipeline.knn.threads import Threads
from pipeline.methods.rules import rule_of
from pipeline.noise.copies import (
    FEWEST,
    Mates,
    most_mates,
    of_one_value,
    one_of_copies,
    without_mates,
)
from pipeline.noise.extrema import minmax
from pipeline.noise.rates import FEWEST_ROWS, too_few
from pipeline.noise.rates import given as known
from pipeline.noise.transition import Transition, mates_in, of_rates, transition_matrix
from pipeline.streams import Stream

_HAIR = 2.0**-53
_SINGULAR = 1e6
"""Condition of a matrix from which its inverse says nothing."""
_SEEDS = 2**32
"""Seeds that scikit-learn takes."""
_ROWS: dict[str, Any] = {"dtype": np.float32, "order": "C", "accept_sparse": "csr"}
"""What scikit-learn makes of X."""
LOOKED_AT = 1000
"""Rows, about, by which it is seen whether features lose digits."""
_MISSING = ("None", "nan", "<NA>", "NaT")
STANDARD = "seuclidean"
"""Distances of standard scores, as SciPy has it."""


def check_labels_are_there(y: Any) -> None:
    """Raise `ValueError` where a label is missing."""
    _check_there(y, "y: the label", "leave such rows out")


def _check_there(y: Any, what: str, remedy: str) -> None:
    """Raise `ValueError` where a value is masked, or what Python, NumPy and pandas have in place of
    one; scikit-learn compares it with the others."""
    values = y if isinstance(y, np.ndarray) else np.asarray([] if y is None else y, object)
    gaps = values.dtype.kind == "f" and np.isnan(values).any()
    looked_at = np.ma.isMaskedArray(values) or values.dtype.kind in "OMmT" or gaps
    for row, one in enumerate(values.ravel().tolist() if looked_at else ()):
        if not isinstance(one, str) and str(one) in _MISSING:
            raise ValueError(f"{what} of row {row} (from 0) is missing; {remedy}")


def _distinct(what: str, values: AnyArray) -> tuple[AnyArray, Int64]:
    """The values that differ, and (row,) the place of each row's."""
    try:
        return np.unique(values, return_inverse=True)
    except TypeError as error:
        kinds = " and ".join(sorted({type(one).__name__ for one in values.tolist()}))
        raise ValueError(f"{what}: {kinds} have no order; give values of one type") from error


def _belongs(x: Rows, together: Any) -> Int64:
    """(row,) numbers of the groups of rows that belong together; a row without a value is one."""
    check_consistent_length(x, together)
    values = column_or_1d(together)
    there = [isinstance(one, str) or str(one) not in _MISSING for one in values.tolist()]
    number = np.arange(len(values))
    number[there] = len(values) + _distinct("together", values[there])[1]
    if (n_groups := len(np.unique(number))) < FEWEST:
        raise ValueError(f"together: {n_groups} groups are too few, at least {FEWEST} are needed")
    return number


def _check_others(alike: Bools, least: int) -> None:
    """Raise `ValueError` where a list has too few rows of other groups."""
    others = (~alike).sum(axis=1)
    if others.min() < least:
        raise ValueError(
            f"together: of the {alike.shape[1]} nearest of row {others.argmin()} (from 0) "
            f"{others.min()} are of other groups, at least {least} are needed; give smaller groups"
        )


def _standard(x: Float32) -> Scaling:
    """What makes standard scores of rows (row, feature)."""
    statistics = FeatureStatistics(x.shape[1])
    for start in range(0, len(x), PORTION):
        statistics.see(x[start : start + PORTION])
    return statistics.scaling("standard")


def in_memory(X: Any) -> Any:
    """Features whose rows can be taken by number: a data frame of Dask as one of pandas.

    Raises `ValueError` where a value is masked; scikit-learn takes what lies below.
    """
    if np.ma.is_masked(X):
        row = int(np.ma.getmaskarray(X).any(axis=-1).argmax())
        raise ValueError(f"X: a value of row {row} (from 0) is masked; fill or drop it")
    return X.compute() if hasattr(X, "to_dask_array") else X


def _warn_of_lost_digits(X: Any) -> None:
    """Warn of features of dense rows that single precision rounds by much of their spread."""
    if hasattr(X, "__len__") and not issparse(X):
        some = _safe_indexing(X, np.arange(0, len(X), max(1, len(X) // LOOKED_AT)))
        columns = np.asarray(some, np.float64).T
        coarse = [place for place, values in enumerate(columns) if is_coarse_in_float32(values)]
        if coarse:
            normal = np.nanmax(np.abs(columns[coarse[0]])) >= np.finfo(np.float32).tiny
            remedy = "subtract a constant" if normal else "multiply it"
            warnings.warn(
                f"X: {len(coarse)} of {len(columns)} features lose digits in single precision, the "
                f"first of them column {coarse[0]} (from 0); {remedy} before",
                stacklevel=3,
            )


class RobustKNeighborsClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """k nearest neighbors that learn from labels which are partly wrong.

    Parameters
    ----------
    n_neighbors : "auto", or how many given labels an average is taken of; "auto" takes the size of
        the best leave-one-out Brier score on the given labels
    noise : "crossfit", "minmax" (Algorithm 2 of Reeve & Kabán 2019; two classes), or the transition
        matrix where it is known: (class, class), row = true class
    objective : what the threshold of two classes serves: "accuracy", "balanced" (accuracy), or two
        costs such as "1:5", of predicting the second class where the first is true and of the
        opposite
    metric : "euclidean" of the features as they are; "seuclidean": of their standard scores;
        "weighted": of these, weighted by what each tells of the given labels; "model": of these and
        the logits of a model that was not fitted on the row; or "cosine": rows are scaled to length
        1, and a row of zeros is orthogonal to all others. "auto" takes the one by which neighbors
        predict labels best, one of the first two by whether the features' scales differ; of 64
        features or more of one scale, which may be embeddings, no model, and weights where these
        are much better; of fewer than 100 rows one of the first two, "euclidean" of sparse rows
    builder : "auto", "exact", "join" or "pynndescent", how neighbors of training rows are found;
        sparse rows are searched exactly
    random_state : number, the seed of the search and of the sample of rows that the rates are read
        from
    n_jobs : threads that share the search of dense rows, as scikit-learn has it: None is one unless
        joblib's context says otherwise, -1 all cores; results do not depend on it
    verbose : whether to print each stage and the seconds it takes

    Attributes
    ----------
    classes_ : (class,) the labels
    n_neighbors_ : the k in use
    transition_matrix_ : (class, class) float64, P(given | true), row = true class
    metric_ : the metric in use; "normal-scores": features as they are, but for those of heavy tails
    metric_choice_ : what was tried, with its loss, and the relevance of each feature; None where
        nothing was
    noise_rates_ : (p0, p1) of two classes, P(given 1 | true 0) and P(given 0 | true 1); else None
    threshold_ : average of given labels from which class 1 is predicted by the vote of one k; None
        for other than two
    weighed_vote_ : (gain, gain_error, matrix_error, agreeing, taken) what neighborhoods of several
        sizes, weighed, and models of the features where they tell more, are worth beside the vote
        of one k, and whether they predict, which they do unless they are likely to lose; None where
        the vote of one k is asked for, by `n_neighbors`, `noise` or `objective`
    support_, reason_ : how far the rates can be trusted, and why, in words
    transition_interval_ : (class, class, 2) float64, 95 % interval of each entry; None where the
        matrix is given
    class_support_ : the verdict of each true class
    label_quality_ : (row,) float64, chance that a training row's given label is its true one, from
        its neighbors' labels, models and its own; low is bad
    label_issues_ : (row,) bool, whether another class is likelier than not; `label_quality_ < 0.5`
    likely_label_ : (row,) the likeliest true class of each training row, its given label considered
    groups_, group_rates_ : (group,) the values of `groups`, and (group, class) P(given another |
        true) of each; None without them
    correction_ : (part, gain, gain_error) how far the matrix corrects predictions of more than two
        classes, and the rows it puts right; None for two classes
    n_features_in_, feature_names_in_ : as scikit-learn has them

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 2000)
    >>> X = rng.normal(size=(2000, 2)) + 4 * y[:, None]
    >>> given = np.where(rng.random(2000) < np.where(y == 1, 0.1, 0.3), 1 - y, y)
    >>> model = RobustKNeighborsClassifier().fit(X, given)
    >>> [round(float(rate), 1) for rate in model.noise_rates_]
    [0.3, 0.1]
    >>> bool((model.predict(X) == y).mean() > 0.99)
    True
    """

    def __init__(
        self,
        n_neighbors: int | str = "auto",
        *,
        noise: str | npt.ArrayLike = "crossfit",
        objective: str = "accuracy",
        metric: str = "auto",
        builder: str = "auto",
        random_state: int = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.noise = noise
        self.objective = objective
        self.metric = metric
        self.builder = builder
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        knn_graph: Any = None,
        groups: Any = None,
        together: Any = None,
    ) -> Self:
        """Find neighbors, choose k, and read the noise off the given labels.

        All rows count alike: as in scikit-learn's own neighbors there is no `sample_weight`.

        Parameters
        ----------
        X : (row, feature), finite, dense or sparse; searched in float32. Sparse rows stay sparse,
            and give what they give as a dense array with the same metric
        y : (row,) given labels of any classes
        knn_graph : (row, row) sparse matrix of distances to nearest neighbors, as of scikit-learn's
            `KNeighborsTransformer` or of cleanlab's Datalab; rows may be their own neighbors, which
            does not count. It stands in place of the search; X is searched for new rows, and for
            lists of 460 to read the noise off where those of the graph are shorter. The metric
            "auto" is then "euclidean"
        groups : (row,) whose label each is, such as the annotator's name: label qualities then
            count by how often each group is wrong
        together : (row,) which rows belong together, such as the patient's number, as they share a
            label: they are left out of each other's neighbors, and rates count one of each; a row
            whose value is missing is alone

        Raises
        ------
        ValueError
            for parameters or data that make no sense.
        """
        check_labels_are_there(y)
        X = in_memory(X)
        x, y = validate_data(self, X, y, **_ROWS, ensure_min_samples=FEWEST_NEIGHBORS + 1)
        _warn_of_lost_digits(X)
        check_classification_targets(y)
        self.classes_, self._label = np.unique(y, return_inverse=True)
        self.groups_, group = None, None
        if groups is not None:
            check_consistent_length(x, groups)
            groups = column_or_1d(groups)
            _check_there(groups, "groups: the value", "give it a name")
            self.groups_, group = _distinct("groups", groups)
        if len(self.classes_) < 2:
            (one,) = self.classes_.tolist()
            raise ValueError(f"y has one class, {one!r}: nothing to tell apart")
        self._check(x)
        self._learn_metric(x, knn_graph is not None)
        self._x = self._rows(x)
        with self._timed(f"neighbors of {x.shape[0]:,} rows"):
            index, distance, anchors, reach = self._lists(self.n_neighbors, knn_graph)
        is_auto = self.n_neighbors == "auto"
        belongs = None if together is None else _belongs(x, together)
        mates = self._mates(anchors, reach, belongs)
        if mates:
            if knn_graph is None:
                with self._timed(f"neighbors of {x.shape[0]:,} rows, {mates.most} more of each"):
                    index, distance, _, _ = self._lists(index.shape[1] + mates.most)
            least = 1 if is_auto else int(self.n_neighbors)
            if belongs is None:
                mate = mates.among(np.arange(len(index)), index, distance)
            else:
                mate = of_one_value(belongs, belongs[index])
                _check_others(mate, FEWEST_NEIGHBORS if is_auto else least)
            order = without_mates(mate, least)
            index = np.take_along_axis(index, order, axis=1)
            distance = np.take_along_axis(distance, order, axis=1)
        lists, self._longest = self._label[index], index.shape[1]
        self.n_neighbors_ = self._choose_k(lists) if is_auto else int(self.n_neighbors)
        near = lists[:, : self.n_neighbors_]
        with self._timed(f"noise, with k = {self.n_neighbors_}"):
            group_of = None if belongs is None else belongs[anchors]
            noise = self._noise(near, anchors, reach, group_of, mates.groups)
            noise = noise if mates else self._by_places(noise, lists, x)
        self.support_, self.reason_ = noise.support, noise.reason
        self.transition_interval_, self.class_support_ = noise.interval, noise.class_support
        self.transition_matrix_, self.noise_rates_, self.threshold_ = noise.matrix, None, None
        if noise.rates is not None:
            votes = vote_table(near.sum(axis=1), self._label, self.n_neighbors_)
            rates = credible(noise.rates, [votes])
            self._rule = rule_of(rates, tempered(rates, votes, self.objective))
            self.noise_rates_ = (noise.rates.p0, noise.rates.p1)
            self.threshold_ = self._rule.threshold
        with self._timed("suspect labels"):
            self.correction_ = None if noise.rates is not None else self._temper(near, noise)
            reaches = knn_graph is None
            suspects = self._suspects(index, distance, noise, x, group, mates, reaches)
            self.weighed_vote_ = self._weigh(lists, distance, noise, x)
        self.label_quality_, self.label_issues_ = suspects.label_quality, suspects.is_label_issue
        self.likely_label_ = self.classes_[suspects.likely_class]
        of_groups = None if group is None else suspects.rates
        self.group_rates_ = None if of_groups is None else of_groups[:-1]
        return self

    def predict(self, X: npt.ArrayLike) -> AnyArray:
        """(row,) the most likely true class of each row, by neighborhoods of several sizes or by
        the corrected vote of one k (`weighed_vote_`)."""
        _, chosen = self._decided(X)
        return np.asarray(self.classes_[chosen])

    def predict_proba(self, X: npt.ArrayLike) -> Float64:
        """(row, class) float64, chances of the true class, rows add up to 1; with the objective
        "accuracy" greatest at the class predicted."""
        chance, chosen = self._decided(X)
        if self.objective != "accuracy":
            return chance
        first = chance.argmax(axis=1)
        tied = np.flatnonzero(first != chosen)  # as likely both, and the rule decides
        first, second = first[tied], chosen[tied]
        middle = (chance[tied, first] + chance[tied, second]) / 2
        chance[tied, first], chance[tied, second] = middle - _HAIR, middle + _HAIR
        return chance

    def __sklearn_tags__(self) -> Any:
        """As scikit-learn has them: sparse rows are taken."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _threads(self) -> Threads:
        return Threads(effective_n_jobs(self.n_jobs))

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        """Print a stage when it begins, and the seconds it took."""
        begun = time.perf_counter()
        if self.verbose:
            print(f"[{type(self).__name__}] {stage} ...", end=" ", flush=True)
        yield
        if self.verbose:
            print(f"{time.perf_counter() - begun:.1f} s", flush=True)

    def _check(self, x: Rows) -> None:
        if self.n_neighbors != "auto":
            k = self.n_neighbors
            if not isinstance(k, int | np.integer) or not 1 <= k < x.shape[0]:
                raise ValueError(
                    f"n_neighbors={k!r}: need 'auto' or a number from 1 to {x.shape[0] - 1}"
                )
        seed = self.random_state
        if not isinstance(seed, int | np.integer) or not 0 <= seed < _SEEDS:
            raise ValueError(f"random_state={seed!r}: need a number from 0 to {_SEEDS - 1}")
        try:
            cost_share(str(self.objective))
        except ValueError as error:
            raise ValueError(f"objective={error}") from error
        if self.objective != "accuracy" and len(self.classes_) > 2:
            raise ValueError(f"objective={self.objective!r} is for two classes; leave it out")
        metrics = ("auto", STANDARD, *LEARNED, *METRICS)
        if self.metric not in metrics:
            raise ValueError(f"metric={self.metric!r}: need {' or '.join(map(repr, metrics))}")
        if self.metric == STANDARD and issparse(x):
            raise ValueError(f"metric={self.metric!r}: needs dense X; give metric='euclidean'")
        if self.metric in LEARNED and (issparse(x) or x.shape[0] < LEAST_ROWS):
            raise ValueError(
                f"metric={self.metric!r}: needs dense X of at least {LEAST_ROWS} rows to learn from"
            )
        if isinstance(self.noise, str):
            allowed = ("crossfit", "minmax") if len(self.classes_) == 2 else ("crossfit",)
            if self.noise not in allowed:
                raise ValueError(
                    f"noise={self.noise!r} with {len(self.classes_)} classes: need "
                    f"{' or '.join(map(repr, allowed))}, or a transition matrix"
                )

    def _learn_metric(self, x: Rows, has_graph: bool) -> None:
        """Choose the metric, on a sample of rows."""
        self.metric_, self.metric_choice_ = self.metric, None
        self._scaling = self._weights = Scaling()
        if self.metric in METRICS:
            return
        if has_graph and self.metric != "auto":
            raise ValueError(
                f"metric={self.metric!r}: a knn_graph has its own; leave one of them out"
            )
        self.metric_ = METRICS[0]
        if issparse(x) or has_graph:
            return
        rows = shuffled(len(x), self.random_state, Stream.PARTITION)[:SAMPLE_ROWS]
        sample = x[rows]
        if self.metric == STANDARD or (self.metric == "auto" and spreads(sample).apart):
            self.metric_, self._scaling = STANDARD, _standard(x)
        if self.metric == STANDARD or len(x) < LEAST_ROWS:
            return
        with self._timed(f"metric, on {len(rows):,} rows"):
            sample, label = self._scaling.apply(sample), self._label[rows]
            alone = one_of_copies(sample, label, self._threads())
            self.metric_choice_, self._weights = choose_metric(
                *(sample[alone], label[alone], self.random_state, self.metric),
                angles=self.metric_ != STANDARD,
                embedded=self.metric_ != STANDARD and x.shape[1] >= EMBEDDING,
                n_rows=len(x),
                threads=self._threads(),
            )
        taken = self.metric_choice_.metric
        if self.metric not in ("auto", taken):
            if (why := self.metric_choice_.why_no_model()) is not None:
                raise ValueError(f"metric={self.metric!r}: {why}; give metric='weighted'")
            raise ValueError(f"metric={self.metric!r}: nothing in X tells anything of the labels")
        if taken != AS_SCALED:
            self.metric_ = taken

    def _rows(self, x: Rows) -> Rows:
        """Rows whose Euclidean distances order as the metric does."""
        if self.metric_ in METRICS:
            return as_rows(x, self.metric_)
        return self._weights.apply(self._scaling.apply(dense(x)))

    def _choose_k(self, near: Int64) -> int:
        """The size of the least sum of the classes' leave-one-out scores."""
        grid, c = k_grid(near.shape[1]), len(self.classes_)
        if c == 2:
            own = self._label.astype(np.int8)
            losses = squared_losses(counts(near.astype(np.int8), grid), own, grid)
        else:
            losses = class_losses(near, self._label, c, grid)
        return choose(losses, len(near), grid).k

    def _lists(
        self, n_neighbors: int | str, knn_graph: Any = None
    ) -> tuple[Int64, Float32, Int64, Float32]:
        """As of `training_lists`."""
        how = self.builder, self.random_state, self._threads(), knn_graph, len(self.classes_)
        return training_lists(self._x, n_neighbors, *how)

    def _mates(self, anchors: Int64, reach: Float32, belongs: Int64 | None) -> Mates:
        """As of `mates_in`, or as is known; none where rates are not read off lists."""
        if belongs is not None:
            mate = of_one_value(belongs[anchors[:, 0]], belongs[anchors[:, 1:]])
            return Mates(groups=len(np.unique(belongs)), most=most_mates(mate))
        if not isinstance(self.noise, str) or self.noise != "crossfit":
            return Mates()
        n, c = self._x.shape[0], len(self.classes_)
        return mates_in(anchors, self._label[anchors], reach, n, c, self._threads())

    def _noise(
        self, near: Int64, anchors: Int64, reach: Float32, group: Int64 | None, n_groups: int
    ) -> Transition:
        """The matrix and how far it can be trusted."""
        n, c = self._x.shape[0], len(self.classes_)
        if not isinstance(self.noise, str):
            try:
                matrix = np.asarray(self.noise, np.float64)
            except (TypeError, ValueError):
                matrix = np.empty(0)
            is_one = matrix.shape == (c, c) and matrix.min() >= 0
            if not is_one or np.abs(matrix.sum(1) - 1).max() > 1e-6:
                raise ValueError(f"noise: need a ({c}, {c}) matrix whose rows are distributions")
            if c == 2:
                return of_rates(known(matrix[0, 1], matrix[1, 0]))
            if np.linalg.cond(matrix) > _SINGULAR:
                raise ValueError("noise: by this matrix labels tell no classes apart; give another")
            return Transition(matrix, "supported", "Given by the user.")
        if self.noise == "minmax":
            k, own = near.shape[1], self._label.astype(np.int8)
            return of_rates(minmax(extremes_with_self(own, near.astype(np.int8), (k,)) / k, k, n))
        if n < FEWEST_ROWS:
            rates = replace(known(0.0, 0.0), method="contradicted") if c == 2 else None
            return Transition(
                *(np.eye(c), "unsupported", too_few(n), rates),
                impurity=np.ones(c),
                doubt=np.ones((c, c)),
            )
        x = self._x[anchors[:, 0]]
        lists = anchors, self._label[anchors], n_groups or n, c, x, reach
        return transition_matrix(*lists, threads=self._threads(), group=group)

    def _by_places(self, noise: Transition, lists: Int64, x: Rows) -> Transition:
        """The same; of two classes not by rates that the places of a sample contradict."""
        if noise.rates is None or not can_learn(x.shape[1]):
            return noise
        rows, grid = np.flatnonzero(self._drawn()), k_grid(lists.shape[1])
        count, own = counts(lists[rows].astype(np.int8), grid), self._label[rows].astype(np.int8)
        judged = judged_by_places(noise.rates, count, grid, own, x[rows])
        return noise if judged is noise.rates else of_rates(judged)

    def _suspects(
        self,
        index: Int64,
        distance: Float32,
        noise: Transition,
        x: Rows | None,
        group: Int64 | None,
        mates: Mates,
        reaches: bool,
    ) -> Suspects:
        """Qualities of the training rows' labels; the matrix is trusted by its verdict."""
        drawn = np.flatnonzero(self._drawn())
        known = drawn, x, self._threads(), group, mates
        if noise.rates is not None:
            suspects, self._weighed, self._forests = suspects_of_two(
                index, distance, self._label, noise.rates, *known, reaches
            )
            return suspects
        c = len(self.classes_)
        counts_of = np.bincount(self._label, minlength=c)
        wrong = contradicted(votes_among(index, self._label, c, drawn))
        self._by = correction(assumed(noise, counts_of, wrong), counts_of)
        suspects, self._first, self._forests = suspects_of(
            index, distance, self._label, self._by, *known, reaches
        )
        return suspects

    def _weigh(self, lists: Int64, distance: Float32, noise: Transition, x: Rows) -> Worth | None:
        """What neighborhoods of all sizes are worth beside the vote of one k; None where the vote
        of one k is asked for."""
        chosen = isinstance(self.noise, str) and self.noise == "crossfit"
        chosen &= (self.n_neighbors, self.objective) == ("auto", "accuracy")
        if not chosen or len(lists) < FEWEST_ROWS:
            return None
        rows = np.flatnonzero(self._drawn())
        trees = self._trees(x, rows)
        one_k, weighed = (
            self._vote(lists[rows], distance[rows], is_weighed, trees)[1]
            for is_weighed in (False, True)
        )
        if noise.rates is None:
            matrix, error = self._believed(noise), noise.standard_errors
        else:
            matrix = of_rates(known(self._rule.p0, self._rule.p1)).matrix
            error = noise.rates.risk(float(self._label.mean()))
        return worth(one_k, weighed, self._label[rows], matrix, error)

    def _believed(self, noise: Transition) -> Float64:
        """The matrix without the rows that nothing supports."""
        counts_of = np.bincount(self._label, minlength=len(self.classes_))
        return believed(noise, counts_of)

    def _temper(self, near: Int64, noise: Transition) -> MatrixDecision:
        """How far the matrix corrects predictions, from a sample of rows."""
        c = len(self.classes_)
        matrix, counts_of = self._believed(noise), np.bincount(self._label, minlength=c)
        if not isinstance(self.noise, str):
            decision = MatrixDecision(1.0, float("nan"), float("nan"))
        else:
            rows, k = np.flatnonzero(self._drawn()), near.shape[1]
            own = self._label[rows]
            decision = temper(near[rows], own, k, matrix, counts_of, noise.standard_errors)
        part = decision.part
        self._matrix = softened(matrix, counts_of, part) if part else None
        return decision

    def _drawn(self) -> Bools:
        """(row,) whether weights are fitted on the row."""
        n = self._x.shape[0]
        return in_sample(np.arange(n), n, FIT_ROWS, self.random_state, Stream.PARTITION)

    def _decided(self, X: npt.ArrayLike) -> tuple[Float64, Int64]:
        """(row, class) chances of the true class, and (row,) place of the one predicted."""
        check_is_fitted(self)
        X = in_memory(X)
        features = validate_data(self, X, **_ROWS, reset=False)
        x = self._rows(features)
        is_weighed = self.weighed_vote_ is not None and self.weighed_vote_.taken
        longest = self._longest if is_weighed else self.n_neighbors_
        with self._timed(f"neighbors of {x.shape[0]:,} new rows"):
            index, distance = nearest_rows(x, self._x, longest, threads=self._threads())
        return self._vote(self._label[index], distance, is_weighed, self._trees(features))

    def _trees(self, x: Rows, rows: Int64 | None = None) -> AnyArray | None:
        """What models say of features of new rows, or of some rows of the training: ``tree_odds``
        of two classes, ``model_chances`` of more; None where none are heard."""
        if self._forests is None:
            return None
        if rows is None:
            return by_models(self._forests.for_new_rows(), x, len(self.classes_))
        return by_models(self._forests, x[rows], len(self.classes_))

    def _vote(
        self, near: Int64, distance: Float32, is_weighed: bool, trees: AnyArray | None = None
    ) -> tuple[Float64, Int64]:
        """The same by labels (row, rank) of the nearest and their distances: neighborhoods of all
        sizes, weighed, and models, or the corrected vote of one k."""
        k, c = self.n_neighbors_, len(self.classes_)
        if self.noise_rates_ is not None:
            if is_weighed:
                one = self._weighed.chance(near.astype(np.int8), distance, trees)
                return np.stack([1.0 - one, one], axis=1), (one >= 0.5).astype(np.int64)
            share = near[:, :k].mean(axis=1)
            one = self._rule.posterior(share, k)
            return np.stack([1.0 - one, one], axis=1), self._rule.predict(share).astype(np.int64)
        decided = (
            decide_weighed(near, self._by, self._first, trees, reach_of(distance))
            if is_weighed
            else decide(near, c, k, self._matrix)
        )
        chance = np.zeros((len(near), c))
        row, place = np.nonzero(decided.code >= 0)
        chance[row, decided.code[row, place]] = decided.chance[row, place]
        return chance, decided.predicted
