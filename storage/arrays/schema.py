"""What every Zarr group of a run holds: dimensions, types, fill values, meaning."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import nan
from typing import Any

import numpy as np

LABEL = "label"
"""Type of an array of label codes: int8 for two classes, else uint8 or uint16, by their number."""


@dataclass(frozen=True)
class Column:
    """One array of a group; the first dimension is the one that tasks divide."""

    dims: tuple[str, ...]
    dtype: str
    fill: float | str
    description: str
    optional: bool = False
    """Whether a group may be without it."""

    def stored(self, label: np.dtype[Any]) -> tuple[Any, float | str]:
        """Type and fill value; of labels, `label` and a code that no class has."""
        if self.dtype != LABEL:
            text = self.dtype == "string"
            return self.dtype if text else np.dtype(self.dtype), self.fill
        return label, -1 if label.kind == "i" else int(np.iinfo(label).max)


def label_dtype(labels: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which labels of some type are stored."""
    return labels if labels in (np.uint8, np.uint16) else np.dtype(np.int8)


def _columns(dtype: str, fill: float | str, *first: str) -> Callable[..., Column]:
    """What makes columns of one type by their description and dimensions beyond the `first`."""

    def column(description: str, *dims: str, optional: bool = False) -> Column:
        return Column((*first, *dims), dtype, fill, description, optional)

    return column


_label, _flag, _mask = (
    _columns(dtype, fill, "row") for dtype, fill in ((LABEL, -1), ("bool", False), ("uint64", 0))
)
_int16, _int32, _int64 = (_columns(f"int{bits}", -1, "row") for bits in (16, 32, 64))
_number, _parameter = _columns("float32", nan, "row"), _columns("float64", nan)

_X = _number("features", "feature")
_ID = _columns("string", "", "row")("id of the row, as text", optional=True)
_GIVEN = _label("code of the given (possibly wrong) label")
_GROUP = _int16("whose label: place in `group_values`; -1 is nobody's", optional=True)
_CANDIDATES = _mask("candidates of the row: class c is bit c % 64 of word c // 64", "word")
_NEAR = _int32("neighbors that are near duplicates")

GROUPS: dict[str, dict[str, Column]] = {
    "pool": {
        "x": _number("features as read, unscaled", "feature"),
        "y": _GIVEN,
        "row": _int64("position in the source"),
        "source_id": _int32("index in the attribute `files`"),
        "id": _ID,
        "group": _GROUP,
        "together": _int64(
            "hash of what rows that belong together share; -1: alone", optional=True
        ),
        "candidates": _mask(
            "candidates of the row: bit b is the class at place b of `candidate_codes`",
            "word",
            optional=True,
        ),
    },
    "queries": {
        "x": _number("features as read, unscaled", "feature"),
        "row": _int64("position in the source"),
        "id": _ID,
        "candidates": replace(_CANDIDATES, optional=True),
    },
    "sample": {"x": _X, "row": _int64("training row, in the order of its sampling hash")},
    "corrections": {
        "row": _int64("position in the source, ascending"),
        "y": _int32("label that somebody checked, as a class"),
        "given": _int32("label that the row was given, as a class"),
    },
    "annotations": {
        "row": _int64("training row, ascending"),
        "annotator": _int16("place in `annotator_values` of the pool"),
        "label": _int16("place in `annotation_values` of the pool"),
    },
    "annotators": {
        "matrix": _parameter("P(given | true) of each", "annotator", "true", "given"),
        "support": _parameter("labels of rows truly of the class", "annotator", "true"),
        "sure": _parameter("how often neighbors are right", "top", "level"),
        "prior": _parameter("shares of the classes", "true"),
    },
    "consensus": {
        "row": _int64("position in the source"),
        "given_label": _GIVEN,
        "consensus_label": _label("likeliest class by annotators and neighbors"),
        "certainty": _number("P(the consensus is true)"),
        "n_annotations": _int32("labels that annotators gave the row"),
        "agreement": _number("share of these labels that are the consensus"),
    },
    "projection": {
        "center": _parameter("mean of the training rows", "feature"),
        "weight": _parameter("weights, scale included", "feature", "component"),
        "variance": _parameter("of the training rows, descending", "component"),
    },
    "curves": {
        "place": _int64("feature of a heavy tail"),
        "knot": _parameter("values, ascending", "curve", "knot"),
        "score": _parameter("what they become", "curve", "knot"),
    },
    "forests": {
        "feature": Column(("node",), "int32", -1, "feature that splits"),
        "threshold": _parameter("largest value that goes left", "node"),
        "left": Column(
            ("node",), "int32", -1, "node on the left, before that on the right; of leaves itself"
        ),
        "value": _parameter("what a leaf adds to the logit", "node"),
        "root": Column(("fold", "tree"), "int64", -1, "first node"),
        "start": _parameter("logit before all trees", "fold", "class"),
        "spread": _parameter("factor of the logits", "one"),
        "slope": _parameter("linear function under the trees", "fold", "feature", "class"),
    },
    "review": {
        "row": _int64("training row, in the order of the review"),
        "given_label": _int32("code of the given label"),
        "likely_label": _int32("code of the likeliest label"),
        "label_quality": _number("low is bad"),
        "is_label_issue": _flag("more likely wrong than right"),
        "moved": _int64("verdicts that a correction of the label changes"),
        "suspect_draw": _int64("place in a random draw of the suspects"),
        "row_draw": _int64("place in a random draw of all rows"),
        "group": _int64("place here of the first of its alike suspects"),
        "neighbor": _int64("training rows nearest first", "rank"),
        "distance": _number("Euclidean, ascending", "rank"),
        "neighbor_label": _int32("code of its given label", "rank"),
    },
    "bounds": {"bound": _number("distance that holds all neighbors")},
    "partition": {
        "centroid": Column(("block", "feature"), "float32", nan, "block centers, scaled"),
        "region": Column(("block",), "int32", 0, "region of each: lists are made at once"),
    },
    "blocks": {
        "x": _number("features, scaled", "feature"),
        "row": _int64("training row, ascending"),
        "given_label": _GIVEN,
    },
    "graph": {
        "row": _int64("training row, ascending"),
        "given_label": _GIVEN,
        "neighbor": _int64("training rows nearest first, ties by lot, self excluded", "rank"),
        "distance": _number("Euclidean, ascending", "rank"),
        "neighbor_label": _label("given label of the neighbor", "rank"),
    },
    "mates": {"mate": _flag("the neighbor at that place belongs together with the row", "rank")},
    "network": {
        "place": _int32("rows of the block, near ones next to each other"),
        "link": _int32("where walks go from each, as numbers in this order", "link"),
    },
    "anchors": {
        "row": _int64("training row drawn as anchor, ascending"),
        "neighbor": _int64("exact nearest training rows, the anchor itself first", "rank"),
        "distance": _number("Euclidean, ascending", "rank"),
        "neighbor_label": _label("given label of the neighbor", "rank"),
    },
    "labels": {
        "row": _int64("position in the source"),
        "given_label": _GIVEN,
        "predicted_label": _label("label by the corrected rule, without the row itself"),
        "label_quality": _number("P(the given label is the true one); low is bad"),
        "is_label_issue": _flag("the given label is more likely wrong than right"),
        "eta_corr": _number("share of the k neighbors given 1, self excluded"),
    },
    "checks": {
        "row": _int64("position in the source"),
        "outlier_score": _number("exp(-mean distance / its median); low is far out"),
        "is_outlier": _flag("far above the upper quartile of distances"),
        "nearest_row": _int64("position of the nearest row"),
        "nearest_distance": _number("to that row"),
        "near_duplicates": _NEAR,
        "contradicting_duplicates": _int32("near duplicates with another given label"),
        "data_value": _number("sum of KNN-Shapley values over rows that list it"),
    },
    "class_labels": {
        "row": _int64("position in the source"),
        "given_label": _GIVEN,
        "predicted_label": _label("label by the corrected vote, without the row itself"),
        "label_quality": _number("P(the given label is the true one); low is bad"),
        "is_label_issue": _flag("the given label is more likely wrong than right"),
        "likely_label": _label("likeliest true class, the given label among the evidence"),
        "given_share": _number("share of the k neighbors with the given label"),
    },
    "candidate_labels": {
        "row": _int64("position in the source"),
        "candidates": _CANDIDATES,
        "predicted_label": _label("label by PL A-kNN, without the row itself"),
        "disambiguated_label": _label("the likeliest of the row's own candidates"),
        "in_candidates": Column(("row",), "bool", True, "the predicted label is a candidate"),
        "n_neighbors": _int32("neighbors used"),
        "n_labels": _int32("labels left; 1 where the neighbors decided"),
        "label_quality": _number("exp(-lead² / 2) of the predicted label; low is bad"),
        "is_label_issue": _flag("the predicted label is no candidate"),
    },
    "candidate_scores": {
        "row": _int64("position in the source"),
        "predicted_label": _label("label by PL A-kNN"),
        "in_candidates": _flag(
            "whether what the neighbors say is among the row's own candidates", optional=True
        ),
        "n_neighbors": _int32("neighbors used"),
        "n_labels": _int32("labels left; 1 where the neighbors decided"),
        "near_duplicates": _NEAR,
    },
    "class_scores": {
        "row": _int64("position in the source"),
        "predicted_label": _label("label by the corrected vote"),
        "posterior": _number("P(the predicted label is the true one)"),
        "vote_share": _number("share of the k nearest given the predicted label"),
        "near_duplicates": _NEAR,
        "top_label": _int16("likeliest true classes, likeliest first", "top"),
        "top_posterior": _number("P(true label) of each", "top"),
    },
    "posteriors": {"posterior": Column(("row", "true"), "float32", 0.0, "P(true label), by class")},
    "transition": {
        "matrix": _parameter("P(given | true)", "true", "given"),
        "low": _parameter("95 % interval, lower end", "true", "given"),
        "high": _parameter("95 % interval, upper end", "true", "given"),
        "decision": _parameter("the matrix by which votes are corrected", "true", "given"),
    },
    "correction": {
        "matrix": _parameter("P(given | true), blurred", "true", "given"),
        "inverse": _parameter("its inverse", "given", "true"),
        "prior": _parameter("clean shares of the classes", "true"),
        "elsewhere": _parameter("mean over the true classes", "given"),
    },
    "mistakes": {
        "wrong": _parameter("P(given another | true), the whole last", "group", "true"),
    },
    "scores": {
        "row": _int64("position in the source"),
        "eta_corr": _number("share of the k nearest given 1"),
        "posterior": _number("P(true label 1), noise removed"),
        "predicted_label": Column(("row",), "int8", -1, "label by the corrected threshold"),
        "near_duplicates": _NEAR,
    },
}
