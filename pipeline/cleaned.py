"""Any classifier, trained on what knnoise makes of labels that are partly wrong."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from pipeline.arrays import AnyArray, Float64, Int64
from pipeline.decision.soft import WAYS, kept, soft_labels
from pipeline.estimator import RobustKNeighborsClassifier, check_labels_are_there, in_memory

Codes = Int64
LEAST = 0.01
"""Chance of a label below which a row is not repeated for it."""


def _has(method: str) -> Any:
    """Whether the estimator has a method."""
    return available_if(lambda self: hasattr(getattr(self, "estimator_", self.estimator), method))


def _weights_of(estimator: Any) -> str | None:
    """What `fit` calls the weights of rows; None where it takes none."""
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    if not isinstance(estimator, Pipeline):
        return None
    if get_config()["enable_metadata_routing"]:  # by which no step is named
        taken = get_routing_for_object(estimator).consumes("fit", ["sample_weight"])
        return next(iter(taken), None)
    name, last = estimator.steps[-1]
    inside = _weights_of(last)
    return None if inside is None else f"{name}__{inside}"


class CleanedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that is trained on labels as knnoise cleans them.

    Parameters
    ----------
    estimator : any classifier of scikit-learn's interface
    how : "drop" leaves suspect labels out, "relabel" gives these rows the likely label, "weight"
        makes the chance that a label is right its row's `sample_weight`, and "soft" gives every
        row all labels, weighted by their chances; "auto" is "soft" where `fit` takes weights, else
        "drop"
    neighbors : what judges the labels; by default `RobustKNeighborsClassifier()`

    Attributes
    ----------
    estimator_ : the classifier, trained
    neighbors_ : what judged the labels, trained
    classes_ : (class,) the labels
    label_quality_ : (row,) float64, chance that a training row's given label is its true one
    label_issues_ : (row,) bool, whether it is suspect
    n_features_in_, feature_names_in_ : as scikit-learn has them

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 2000)
    >>> X = rng.normal(size=(2000, 2)) + 3 * y[:, None]
    >>> given = np.where(rng.random(2000) < np.where(y == 1, 0.4, 0.05), 1 - y, y)
    >>> plain = LogisticRegression().fit(X, given)
    >>> cleaned = CleanedClassifier(LogisticRegression()).fit(X, given)
    >>> bool((cleaned.predict(X) == y).mean() > (plain.predict(X) == y).mean() + 0.01)
    True
    """

    def __init__(self, estimator: Any, *, how: str = "auto", neighbors: Any = None) -> None:
        self.estimator = estimator
        self.how = how
        self.neighbors = neighbors

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike, groups: Any = None) -> Self:
        """Judge the given labels by neighbors, and train the classifier on what is left of them.

        Parameters
        ----------
        X : (row, feature), finite, dense or sparse, or a data frame of numbers
        y : (row,) given labels of any classes
        groups : (row,) whose label each is, as of `RobustKNeighborsClassifier`

        Raises
        ------
        ValueError
            for parameters or data that make no sense, and for a classifier whose `fit` takes no
            `sample_weight` where weights are asked for.
        """
        if not hasattr(self.estimator, "fit") or is_regressor(self.estimator):
            raise ValueError(f"estimator={self.estimator!r}: need a classifier")
        weights = _weights_of(self.estimator)
        how = self.how if self.how != "auto" else "drop" if weights is None else "soft"
        if how not in WAYS:
            raise ValueError(f"how={self.how!r}: need 'auto', {' or '.join(map(repr, WAYS))}")
        if how in ("weight", "soft") and weights is None:
            raise ValueError(
                f"how={self.how!r}: fit of {type(self.estimator).__name__} takes no sample_weight; "
                "give 'drop' or 'relabel'"
            )
        judge = RobustKNeighborsClassifier() if self.neighbors is None else clone(self.neighbors)
        if not isinstance(judge, RobustKNeighborsClassifier):
            raise ValueError(f"neighbors={judge!r}: need a RobustKNeighborsClassifier")
        check_labels_are_there(y)
        X = in_memory(X)
        x, y = validate_data(self, X, y, accept_sparse="csr", ensure_min_samples=2)
        X = X if hasattr(X, "columns") else x
        check_classification_targets(y)
        self.neighbors_ = judge.fit(X, y, groups=groups)
        self.classes_ = judge.classes_
        self.label_quality_, self.label_issues_ = judge.label_quality_, judge.label_issues_
        given, likely = (np.searchsorted(self.classes_, of) for of in (y, judge.likely_label_))
        rows, label, weight = self._cleaned(how, given, likely)
        learner, more = clone(self.estimator), {}
        if weights is not None and how in ("weight", "soft"):
            more[weights] = weight
        self.estimator_ = learner.fit(_safe_indexing(X, rows), self.classes_[label], **more)
        return self

    def _cleaned(self, how: str, given: Codes, likely: Codes) -> tuple[Codes, Codes, Float64]:
        """Rows to train on, which may repeat, codes of their labels, and weights."""
        rows, quality = np.arange(len(given)), self.label_quality_
        if how == "soft":
            matrix = self.neighbors_.transition_matrix_
            chance = soft_labels(given, likely, quality, matrix).T
            label, rows = np.nonzero(chance >= LEAST)
            return rows, label, chance[label, rows]
        keep = kept(given, self.label_issues_, len(self.classes_))
        if how in ("drop", "relabel") and (keep & self.label_issues_).any():
            alone = self.classes_[np.unique(given[keep & self.label_issues_])].tolist()
            warnings.warn(
                f"all labels {alone} are suspect, and left as given, since a classifier has to "
                "know each class; how='weight' counts them by their chance",
                stacklevel=3,
            )
        if how == "drop":
            rows = np.flatnonzero(keep)
        label = np.where(keep, given, likely) if how == "relabel" else given
        return rows, label[rows], quality[rows]

    def predict(self, X: npt.ArrayLike) -> AnyArray:
        """(row,) what the classifier predicts."""
        x = self._checked(X)
        return np.asarray(self.estimator_.predict(x))

    @_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: npt.ArrayLike) -> Float64:
        """(row, class) chances, as the classifier gives them."""
        x = self._checked(X)
        return np.asarray(self.estimator_.predict_proba(x))

    @_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: npt.ArrayLike) -> Float64:
        """What the classifier decides by, as it gives it."""
        x = self._checked(X)
        return np.asarray(self.estimator_.decision_function(x))

    def _checked(self, X: npt.ArrayLike) -> Any:
        """Rows that fit those of the training; a data frame stays one."""
        check_is_fitted(self)
        X = in_memory(X)
        x = validate_data(self, X, accept_sparse="csr", reset=False)
        return X if hasattr(X, "columns") else x

    def __sklearn_tags__(self) -> Any:
        """As scikit-learn has them: sparse rows are taken where the classifier takes them."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags
