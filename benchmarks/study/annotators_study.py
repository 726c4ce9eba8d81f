"""Simulated annotators of known skill, and of rows that are hard: matrices and consensus against
majority and Dawid-Skene."""

from __future__ import annotations

import zlib
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks.study import data, metric_study
from benchmarks.study.beside import consensus_of
from benchmarks.study.results import Results
from pipeline.knn.exact import nearest
from pipeline.knn.lists import nearness
from pipeline.noise.annotator_matrices import Agreement, is_shared
from pipeline.noise.annotator_verdicts import verdicts_on
from pipeline.noise.annotators import NEAR, RowLabels
from pipeline.noise.transition import transition_matrix

Floats = NDArray[np.float64]
SETS = ("magic04@5000", "landsat@5000", "pendigits@5000", "letter@5000", "fashion_mnist@5000")
SEEDS = 2
TUNED = (
    *("ionosphere", "diabetes", "splice", "heart", "landsat", "letter", "magic04", "fourclass"),
    *("optdigits", "nothing", "rare class", "ten classes"),
)
UNTUNED = (
    *("cancer", "german", "housing", "mushroom", "optdigits13", "pendigits", "segment", "shuttle"),
    *("usps", "vehicle", "w8a", "fashion_mnist", "overlap", "many columns", "small"),
)
"""Sets by which constants were chosen, and others; in `nothing`, features tell nothing."""
ROWS, SPREAD = 1500, 1.5
"""Rows of each at most, and the deviation of how easy a row is."""
SUPPORTS = ("supported", "weak", "unsupported")
SMOOTHED = 0.01
"""Labels added to each count of the majority's matrices, of which some have none."""


class Crowd(NamedTuple):
    """How many annotators there are, how many label a row, and how many of them do not look."""

    annotators: int
    fewest: int
    most: int
    spammers: int

    @property
    def told(self) -> str:
        """The crowd in words."""
        rows = str(self.most) if self.fewest == self.most else f"{self.fewest} to {self.most}"
        return f"{self.annotators}, {rows} a row, {self.spammers} spammers"


CROWDS = (
    Crowd(5, 2, 2, 0),
    Crowd(10, 1, 3, 2),
    Crowd(10, 3, 3, 2),
    Crowd(30, 1, 5, 4),
    Crowd(30, 2, 2, 6),
    Crowd(10, 1, 1, 2),
)
CROWDS_OF_EACH = (
    *(Crowd(5, 1, 1, 0), Crowd(10, 1, 1, 2), Crowd(30, 1, 1, 4)),
    *(Crowd(5, 2, 2, 0), Crowd(10, 1, 3, 2), Crowd(10, 3, 3, 2), Crowd(30, 1, 5, 4)),
)


class Votes(NamedTuple):
    """Annotations, and the matrices they were drawn by."""

    row: NDArray[np.int64]
    annotator: NDArray[np.int64]
    label: NDArray[np.int64]
    matrix: Floats
    """(annotator, true, given) as realized: the shares of the labels that were drawn."""
    seen: NDArray[np.bool_]
    """(annotator, true) whether any row of the class was labeled."""


def drawn(y: NDArray[np.int64], crowd: Crowd, rng: np.random.Generator) -> Votes:
    """Annotators of skill 0.55 to 0.95, of each class 0.15 better or worse; mistakes go where a
    Dirichlet(0.5) draw says. Spammers answer by one draw of classes, or by chance."""
    c = int(y.max()) + 1
    matrix = np.empty((crowd.annotators, c, c))
    for j in range(crowd.annotators):
        if j < crowd.spammers:
            matrix[j] = rng.dirichlet(np.ones(c)) if j % 2 else 1.0 / c
            continue
        right = np.clip(rng.uniform(0.55, 0.95) + rng.uniform(-0.15, 0.15, c), 0.3, 0.98)
        for a in range(c):
            off = rng.dirichlet(np.full(c - 1, 0.5))
            matrix[j, a] = np.insert(off * (1.0 - right[a]), a, right[a])
    number = rng.integers(crowd.fewest, crowd.most + 1, len(y))
    row = np.repeat(np.arange(len(y)), number)
    who = np.concatenate([rng.permutation(crowd.annotators)[:n] for n in number])
    below = rng.random(len(row))[:, None] > matrix[who, y[row]].cumsum(axis=1)
    label = np.minimum(below.sum(axis=1), c - 1)
    count = np.zeros((crowd.annotators, c, c))
    np.add.at(count, (who, y[row], label), 1.0)
    seen = count.sum(axis=2) > 0
    return Votes(row, who, label, count / np.maximum(count.sum(axis=2, keepdims=True), 1.0), seen)


def of_hard_rows(y: NDArray[np.int64], crowd: Crowd, rng: np.random.Generator) -> Votes:
    """GLAD's annotators (Whitehill et al., NIPS 2009): right with the chance of a logistic function
    of ability times how easy the row is, exp of a normal number of deviation `SPREAD`; half of the
    mistakes of a row are one class, which tempts everybody. Spammers have no ability."""
    c, n = int(y.max()) + 1, len(y)
    easy, able = np.exp(rng.normal(0, SPREAD, n)), rng.normal(1.6, 0.8, crowd.annotators)
    able[: crowd.spammers] = 0.0
    number = rng.integers(crowd.fewest, crowd.most + 1, n)
    row = np.repeat(np.arange(n), number)
    who = np.concatenate([rng.permutation(crowd.annotators)[:k] for k in number])
    right = rng.random(len(row)) < np.maximum(expit(able[who] * easy[row]), 1.0 / c * (c > 2))
    tempting = ((y + rng.integers(1, c, n)) % c)[row]
    other = np.where(
        rng.random(len(row)) < 0.5, tempting, (y[row] + rng.integers(1, c, len(row))) % c
    )
    label = np.where(right, y[row], other)
    count = np.zeros((crowd.annotators, c, c))
    np.add.at(count, (who, y[row], label), 1.0)
    seen = count.sum(axis=2) > 0
    return Votes(row, who, label, count / np.maximum(count.sum(axis=2, keepdims=True), 1.0), seen)


def every(folder: Path, results: Results) -> None:
    """Annotators with and without hard rows, on sets whose neighbors tell much, little, nothing."""
    sets = *TUNED, *UNTUNED
    for name, x, y in data.each("annotators, every set", sets, partial(few_rows, folder)):
        others = min(100, len(x) - 1)
        neighbor, distance = nearest(x, x, others, exclude=np.arange(len(x)))
        kinds = (("alike", drawn), ("hard", of_hard_rows))
        for seed, crowd, (rows, draw) in product(range(SEEDS), CROWDS_OF_EACH, kinds):
            if (key := f"{rows}/{name}/{crowd.told}/{seed}/fresh") not in results:
                votes = draw(y, crowd, np.random.default_rng(zlib.crc32(key.encode())))
                found = case(x, y, votes, neighbor, distance)
                about = {"set": name, "crowd": crowd.told, "single": crowd.most == 1}
                results.add(key, {"rows": rows, "tuned": name in TUNED, **about, **found})


def few_rows(folder: Path, name: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """`ROWS` rows of a set at most, and their classes."""
    if name == "nothing":
        rng = np.random.default_rng(4)
        x = rng.normal(size=(1000, 10)).astype(np.float32)
        return x, rng.integers(0, 4, 1000)
    x, y = metric_study.load(folder, name)
    rows = np.random.default_rng(77).permutation(len(x))[:ROWS]
    return x[rows], np.unique(y[rows], return_inverse=True)[1].astype(np.int64)


def run(folder: Path, work: Path) -> None:
    results = Results(work, "annotators")
    every(folder, results)
    for name, x, y in data.each("annotators", SETS, partial(data.load, folder)):
        keys = [(crowd, seed) for crowd in CROWDS for seed in range(SEEDS)]
        left = [(c, s) for c, s in keys if f"{name}/{c.told}/{s}" not in results]
        if not left:
            continue
        y = np.unique(y, return_inverse=True)[1].astype(np.int64)
        neighbor, distance = nearest(x, x, 100, exclude=np.arange(len(x)))
        for crowd, seed in left:
            key = f"{name}/{crowd.told}/{seed}"
            votes = drawn(y, crowd, np.random.default_rng(zlib.crc32(key.encode())))
            results.add(
                key, {"set": name, "crowd": crowd.told, **case(x, y, votes, neighbor, distance)}
            )
            print(key, results.rows[key], flush=True)


def case(
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    votes: Votes,
    neighbor: NDArray[np.int64],
    distance: NDArray[np.float32],
) -> dict[str, object]:
    """Share of right labels and error of the matrices, by method."""
    n, (n_annotators, c, _) = len(y), votes.matrix.shape
    count = np.zeros((n, c))
    np.add.at(count, (votes.row, votes.label), 1.0)
    lot = np.random.default_rng(n).random(count.shape)
    most = (count + 0.5 * lot).argmax(axis=1)
    of_most = np.full((n_annotators, c, c), SMOOTHED)
    np.add.at(of_most, (votes.annotator, most[votes.row], votes.label), 1.0)
    theirs, their_matrix = dawid_skene(votes, n_annotators, c)
    lists = np.column_stack([np.arange(n), neighbor])
    given = transition_matrix(lists, most[lists], n, c, x=x)
    start = np.searchsorted(votes.row, np.arange(n + 1))
    labels = RowLabels(start, votes.annotator.astype(np.int32), votes.label.astype(np.int32))
    shares = np.bincount(most, minlength=c) / n
    weight = nearness(distance[:, :NEAR])
    judged, sums, skills = consensus_of(
        neighbor[:, :NEAR], weight, labels, n_annotators, given.matrix, shares
    )
    found = {
        "majority": (most, of_most / of_most.sum(axis=2, keepdims=True)),
        "Dawid-Skene": (theirs, their_matrix),
        "ours": (judged.consensus, skills.matrix),
    }
    accuracy = realized(votes, y, n_annotators)
    agreement = Agreement.of(start, labels.label, c)
    shared = is_shared(agreement, n)
    every_one = verdicts_on(range(n_annotators), sums, skills, shared)
    inside = [one.interval[0] <= accuracy[int(one.value)] <= one.interval[1] for one in every_one]
    of = {
        support: [hit for hit, one in zip(inside, every_one, strict=True) if one.support == support]
        for support in SUPPORTS
    }
    return {
        "n": n,
        "classes": c,
        "right": {name: float((label == y).mean()) for name, (label, _) in found.items()},
        "error": {name: error(matrix, votes) for name, (_, matrix) in found.items()},
        "certainty": float(judged.certainty.mean()),
        "covered": float(np.mean(inside)),
        "intervals": {support: [sum(map(bool, hits)), len(hits)] for support, hits in of.items()},
        "support": len(votes.row),
    }


def realized(votes: Votes, y: NDArray[np.int64], n_annotators: int) -> Floats:
    """(annotator,) share of the labels that are right."""
    right = np.bincount(votes.annotator, votes.label == y[votes.row], n_annotators)
    return right / np.maximum(np.bincount(votes.annotator, minlength=n_annotators), 1)


def error(matrix: Floats, votes: Votes) -> float:
    """Mean absolute difference from the realized matrix, summed over a row, of rows with labels."""
    return float(np.abs(matrix - votes.matrix).sum(axis=2)[votes.seen].mean())


def dawid_skene(votes: Votes, n_annotators: int, c: int) -> tuple[NDArray[np.int64], Floats]:
    """Labels and matrices of crowd-kit, 100 rounds at most."""
    from crowdkit.aggregation import DawidSkene  # of the extra `crowd`; heavy

    columns = {"task": votes.row, "worker": votes.annotator, "label": votes.label}
    model = DawidSkene(n_iter=100)
    label = model.fit_predict(pd.DataFrame(columns))
    matrix = np.full((n_annotators, c, c), 1.0 / c)
    errors = model.errors_
    places = errors.index.to_frame().to_numpy(np.int64)
    for a in errors.columns:
        matrix[places[:, 0], int(a), places[:, 1]] = errors[a].to_numpy()
    total = matrix.sum(axis=2, keepdims=True)
    return label.sort_index().to_numpy(np.int64), matrix / np.where(total > 0, total, 1.0)
