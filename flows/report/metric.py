"""What is near, and which columns matter: in sentences, and as bars."""

import numpy as np

from flows.report.model import PoolReport
from pipeline.arrays import Int64
from storage.sources.request import Coding, is_place

SHOWN = 15
"""Columns of most use that are shown, and of no use that are named."""
_MEANING = {
    "as-scaled": "the features as scaled",
    "cosine": "directions of the features as scaled",
    "normal-scores": "features, normal scores of those of heavy tails",
    "weighted": "features weighted by what they tell of labels",
    "probabilities": "features, and logits of your model's probabilities",
    "model": "features weighted, and logits of a model that was not fitted on the row",
}


def lines(report: PoolReport) -> list[str]:
    """The lines of the text of a training."""
    if report.metric is None:
        return []
    most = [(name, share) for name, share in bars(report)[:5] if not is_place(name)]
    names = ", ".join(f"{name} {share:.0%}" for name, share in most if share > 0.005)
    useless = useless_sentence(report)
    return [
        tried_sentence(report),
        *([f"  what tells most of the labels: {names}"] if names else []),
        *([f"  {useless}"] if useless else []),
        *(f"  {line}" for line in notes(report)),
    ]


def tried_sentence(report: PoolReport) -> str:
    """What was tried, with its loss, and what was taken."""
    if report.metric is None:
        return ""
    tried = ", ".join(f"{one.metric} {one.loss:.4f} (k = {one.k})" for one in report.metric.tried)
    return (
        f"metric {report.metric.metric}: {_MEANING[report.metric.metric]}; log loss of "
        f"{report.metric.n_judged:,} given labels as their neighbors predict them: {tried}"
    )


def notes(report: PoolReport) -> list[str]:
    """What the user's probabilities are worth, where there are such; what logits hide; rows without
    a direction, where directions are compared."""
    metric = report.metric
    if metric is None:
        return []
    texts = []
    losses = {one.metric: one.loss for one in metric.tried}
    if (mine := losses.pop("probabilities", None)) is not None:
        columns = min(losses.values())
        worth = "better" if mine < columns else "no better"
        texts.append(
            f"your model's probabilities predict given labels {worth} than the columns: loss "
            f"{mine:.3f} for {columns:.3f}"
        )
    if "normal-scores" in losses:
        texts.append("columns of heavy tails, such as amounts, count by their normal scores")
    if metric.by_reach > 0:
        texts.append(
            "with how far neighbors are, features as scaled predict better, by "
            f"{metric.by_reach:.4f}"
        )
    if metric.metric == "model":
        texts.append(
            "where the labels of a region are often wrong, models take that for the truth: "
            "--metric weighted flags more of these"
        )
    if metric.no_direction > 0:
        texts.append(
            f"{metric.no_direction:.1%} of the rows are zeros and have no direction: near each "
            "other alone"
        )
    return texts


def bars(report: PoolReport) -> list[tuple[str, float]]:
    """The columns that tell most of the given labels, the first first: (name, share of what all
    tell of them)."""
    useful = [(name, share) for name, share, of_use in _columns(report) if of_use]
    return sorted(useful, key=lambda column: -column[1])[:SHOWN]


def telling(report: PoolReport) -> Int64:
    """(feature,) places of the features, those that tell most of the labels first, as far as that
    is known."""
    n = len(report.config.feature_names)
    known = report.metric is not None and report.pca is None
    first = report.metric.order() if known and report.metric is not None else []
    order = dict.fromkeys([*(at for at in first if at < n), *range(n)])
    return np.array(list(order), np.int64)


def useless_sentence(report: PoolReport) -> str:
    """The columns that tell nothing of the labels; empty where there are none.

    Places of a column of lists are not named: nobody would leave one out.
    """
    stated = report.config.parameters.get("model_probabilities") or "\0"
    useless = [
        name
        for name, _, of_use in _columns(report)
        if not (of_use or name.startswith(stated) or is_place(name))
    ]
    some = ", ".join(useless[:SHOWN])
    more = f" and {len(useless) - SHOWN:,} more" if len(useless) > SHOWN else ""
    return f"of no use for the labels, as far as can be told: {some}{more}" if useless else ""


def _columns(report: PoolReport) -> list[tuple[str, float, bool]]:
    """Columns, an encoded one as a whole: name, share of what all tell of the given labels, and
    whether that is more than as many features tell by chance."""
    if report.metric is None:
        return []
    encoded, chance = Coding.of_json(report.config.coding).encoded, report.metric.chance
    shares_of: dict[str, list[float]] = {}
    for name, share in zip(_names(report), report.metric.relevance, strict=False):
        shares_of.setdefault(encoded.get(name, (name,))[0], []).append(share)
    return [
        (name, sum(shares), sum(shares) > chance * len(shares) ** 0.5)
        for name, shares in shares_of.items()
    ]


def _names(report: PoolReport) -> list[str]:
    """Of what the metric weighs: the features, or the components that stand for them."""
    if report.pca is None:
        return report.config.feature_names
    return [f"component {number}" for number in range(1, report.pca.n_components + 1)]
