"""The decision rules of c classes: the vote of the k nearest, corrected by the transition matrix;
and the weighed vote of neighborhoods of several sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pipeline.arrays import Float32, Float64, Int32, Int64, Integers, UInt8
from pipeline.decision.class_votes import NONE, ClassVotes, class_votes, vote_sizes
from pipeline.decision.quality import Correction, Weights, among_candidates, chances, vote_features
from pipeline.decision.tempering import PARTS, MatrixDecision, choose_part, softened, worth
from pipeline.decision.votes import certain_as
from pipeline.noise.simplex import posterior_of_candidates, posterior_simplex

PORTION = 8192
"""Rows that are decided together."""


@dataclass(frozen=True)
class Decided:
    """What the rule says of some rows; candidates are the classes among their neighbors."""

    code: Int32
    """(row, candidate) classes, ascending; -1 where a row has fewer."""
    chance: Float64
    """(row, candidate) chance that it is the clean class; a row adds up to 1."""
    predicted: Int64
    """(row,) the likeliest class."""


def decide(neighbor_label: Integers, n_classes: int, k: int, matrix: Float64 | None) -> Decided:
    """Decide rows by the labels of their k nearest.

    Parameters
    ----------
    neighbor_label : (row, rank) codes, nearest first; a code outside [0, n_classes) is missing
    matrix : (class, class) float64, row = true class, the part of the transition matrix that is put
        to use; None for the plain vote, in which the lower of two equal classes wins
    """

    def of_one_k(votes: ClassVotes) -> Float64:
        share = votes.votes[:, :, 0] / np.maximum(votes.total, 1)
        if matrix is None:
            return np.asarray(share)
        if votes.code.shape[1] == n_classes:
            return posterior_simplex(share, matrix)
        return posterior_of_candidates(votes.code, share, matrix)

    decided = _in_portions(neighbor_label, n_classes, (k,), of_one_k)
    there = decided.code >= 0
    chance = certain_as(decided.chance, k, there.sum(axis=1, keepdims=True))
    return replace(decided, chance=np.where(there, chance, 0.0))


def decide_weighed(
    neighbor_label: Integers,
    noise: Correction,
    weights: Weights,
    trees: UInt8 | None = None,
    reach: Float32 | None = None,
) -> Decided:
    """Decide rows by labels (row, rank) in neighborhoods of all sizes, with the weights of the
    first pass of label qualities; and by ``model_chances`` (row, class) and ``reach_of`` (row,) if
    these have a weight."""
    sizes = vote_sizes(neighbor_label.shape[1])

    def of_sizes(votes: ClassVotes) -> Float64:
        return among_candidates(chances(vote_features(votes, noise), votes, weights))

    return _in_portions(neighbor_label, len(noise.matrix), sizes, of_sizes, trees, reach)


def _in_portions(
    neighbor_label: Integers,
    n_classes: int,
    sizes: tuple[int, ...],
    chance_of: Callable[[ClassVotes], Float64],
    trees: UInt8 | None = None,
    reach: Float32 | None = None,
) -> Decided:
    """Decide rows by ``chance_of`` their votes, (row, candidate)."""
    parts = []
    for start in range(0, max(1, len(neighbor_label)), PORTION):
        rows = slice(start, start + PORTION)
        near = neighbor_label[rows]
        unlabeled = np.full(len(near), NONE, np.int32)
        by_models = None if trees is None else trees[rows]
        far = None if reach is None else reach[rows]
        votes = class_votes(near, unlabeled, n_classes, sizes, by_models, far)
        chance = chance_of(votes)
        parts.append((votes.code, chance, likeliest(votes.code, chance)))
    return Decided(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def likeliest(code: Int32, chance: Float64) -> Int64:
    """(row,) the class of the greatest chance, by codes and chances (row, candidate)."""
    return np.asarray(code[np.arange(len(code)), chance.argmax(axis=1)], np.int64)


def share_of(neighbor_label: Integers, k: int, label: Integers) -> Float64:
    """(row,) share of each row's ``label``, (row,) codes, among the labels of its k nearest.

    ``neighbor_label`` is (row, rank) int, nearest first; -1 is missing.
    """
    near = neighbor_label[:, :k]
    listed = (near >= 0).sum(axis=1)
    return np.asarray((near == label[:, None]).sum(axis=1) / np.maximum(listed, 1))


def temper(
    neighbor_label: Integers,
    given_label: Integers,
    k: int,
    matrix: Float64,
    given_counts: Integers,
    error: Float64,
) -> MatrixDecision:
    """How far the matrix corrects predictions, from a sample of rows.

    ``neighbor_label`` is (row, rank), ``given_label`` (row,); ``matrix`` (class, class), row = true
    class; ``given_counts`` (class,) rows of the pool; ``error`` (class,) standard errors of the
    matrix' diagonal.
    """
    n_classes = len(matrix)
    labeled = given_label < n_classes if given_label.dtype.kind == "u" else given_label >= 0
    near, own = neighbor_label[labeled], given_label[labeled]
    plain = decide(near, n_classes, k, None).predicted
    corrected = (
        decide(near, n_classes, k, softened(matrix, given_counts, part)).predicted for part in PARTS
    )
    return choose_part([worth(plain, after, own, matrix, error) for after in corrected])
