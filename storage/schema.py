"""What every Zarr group of a run holds: dimensions, types, fill values, meaning."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One array of a group; the first dimension is the one that tasks divide."""

    dims: tuple[str, ...]
    dtype: str
    fill: float
    description: str


def _row(description: str) -> Column:
    return Column(("row",), "int64", -1, description)


_X = Column(("row", "feature"), "float32", float("nan"), "features")
_GIVEN = Column(("row",), "int8", -1, "given (possibly wrong) label, 0 or 1")

GROUPS: dict[str, dict[str, Column]] = {
    "pool": {
        "x": Column(("row", "feature"), "float32", float("nan"), "features as read, unscaled"),
        "y": _GIVEN,
        "row": _row("position in the source"),
        "source_id": Column(("row",), "int32", -1, "index in the attribute `files`"),
    },
    "queries": {
        "x": Column(("row", "feature"), "float32", float("nan"), "features as read, unscaled"),
        "row": _row("position in the source"),
    },
    "sample": {
        "x": _X,
        "row": _row("training row, in the order of its sampling hash"),
    },
    "bounds": {
        "bound": Column(("row",), "float32", float("nan"), "distance that holds all neighbours"),
    },
    "partition": {
        "centroid": Column(("block", "feature"), "float32", float("nan"), "block centres, scaled"),
    },
    "blocks": {
        "x": Column(("row", "feature"), "float32", float("nan"), "features, scaled"),
        "row": _row("training row, ascending"),
        "given_label": _GIVEN,
        "home": Column(("row",), "int32", -1, "block the row is at home in"),
        "core": Column(("row",), "bool", False, "at home in this block; otherwise a halo copy"),
    },
    "graph": {
        "row": _row("training row, ascending"),
        "given_label": _GIVEN,
        "neighbor": Column(
            ("row", "rank"), "int64", -1, "training rows nearest first, ties by row, self excluded"
        ),
        "distance": Column(("row", "rank"), "float32", float("nan"), "Euclidean, ascending"),
        "neighbor_label": Column(("row", "rank"), "int8", -1, "given label of the neighbour"),
    },
    "regression": {
        "row": _row("training row, ascending"),
        "count": Column(
            ("row", "k"), "int32", -1, "neighbours given 1 among the first k, self excluded"
        ),
    },
    "anchors": {
        "row": _row("training row drawn as anchor, ascending"),
        "neighbor": Column(
            ("row", "rank"), "int64", -1, "exact nearest training rows, the anchor itself first"
        ),
        "distance": Column(("row", "rank"), "float32", float("nan"), "Euclidean, ascending"),
        "neighbor_label": Column(("row", "rank"), "int8", -1, "given label of the neighbour"),
    },
    "labels": {
        "row": _row("position in the source"),
        "given_label": _GIVEN,
        "predicted_label": Column(
            ("row",), "int8", -1, "label by the corrected rule, without the row itself"
        ),
        "label_quality": Column(
            ("row",), "float32", float("nan"), "posterior of the given label; low is bad"
        ),
        "is_label_issue": Column(
            ("row",), "bool", False, "the given label is more likely wrong than right"
        ),
        "eta_corr": Column(
            ("row",), "float32", float("nan"), "share of the k neighbours given 1, self excluded"
        ),
    },
    "scores": {
        "row": _row("position in the source"),
        "eta_corr": Column(("row",), "float32", float("nan"), "share of the k nearest given 1"),
        "posterior": Column(("row",), "float32", float("nan"), "P(true label 1), noise removed"),
        "predicted_label": Column(("row",), "int8", -1, "label by the corrected threshold"),
    },
}
