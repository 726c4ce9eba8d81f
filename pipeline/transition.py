"""Noise rates of c classes: P(given b | true a) as a row-stochastic matrix, row = true class a.

As for two classes, rows are described by labels disjoint from the labels the rates are read on
(``held_out``, class by class). The held-out label of row i follows ``F[i] @ matrix`` with ``F[i]``
the chances of its clean classes, a softmax of its label shares weighed over neighbourhood sizes. In
a pure region F is a corner of the simplex and the label shares are a row of the matrix; both are
fitted together by maximum likelihood, so every label counts. Two classes get ``crossfit``'s answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from pipeline.extrema import CrossfitParams, crossfit, held_out
from pipeline.rates import MIXED, NoiseRates, Support

Floats = NDArray[np.float64]
FEW, TOO_FEW = 100.0, 25.0
"""Least rows * (diagonal's lead over its column)**2 of any class for full, or any, support."""


@dataclass(frozen=True)
class TransitionParams:
    """How the matrix is fitted; tuned on optdigits, landsat, usps and letter."""

    mixing_penalty: float = 8.0
    """Penalty on squared departures from "label shares times the inverse of a first matrix", the
    index that would be right if classes did not overlap."""
    purity: float = 0.02
    """Reward per label for rows of one class alone: of two fits alike, the one with purer rows."""
    anchor_share: float = 0.3
    """Share of a class' expected rows that are its first anchors."""
    iterations: int = 150


@dataclass(frozen=True)
class Transition:
    """The matrix and how far it can be trusted."""

    matrix: Floats
    """(true class, given class) float64; rows add up to 1."""
    support: Support
    reason: str
    rates: NoiseRates | None = None
    """``crossfit``'s full answer where there are two classes."""
    diagnostics: dict[str, Any] = field(default_factory=dict)
    """Numbers and lists for the report; JSON as it stands."""


def transition_matrix(
    neighbor: NDArray[np.int64],
    label: NDArray[np.integer],
    n_rows: int,
    n_classes: int,
    params: TransitionParams = TransitionParams(),
) -> Transition:
    """P(given | true) from anchors' neighbour lists, the same in whatever order anchors come.

    ``neighbor`` is (anchor, K) int64 row ids, nearest first, column 0 the anchor itself; ``label``
    (anchor, K) integers in [0, n_classes), the given labels of those rows; ``n_rows`` the size of
    the pool. A class no list shows keeps its identity row. ValueError on labels out of range,
    shapes that differ, fewer than 20 anchors or K < 10.
    """
    if neighbor.shape != label.shape or len(neighbor) < 20 or neighbor.shape[1] < 10:
        lists = f"neighbor {neighbor.shape} and label {label.shape}"
        raise ValueError(f"{lists}: need equal shapes, at least 20 anchors and 10 columns")
    if label.min() < 0 or label.max() >= n_classes:
        raise ValueError(f"labels {label.min()} to {label.max()}: need 0 to {n_classes - 1}")
    if n_classes == 2:
        return of_rates(crossfit(neighbor, label.astype(np.int8), n_rows))
    seen = np.unique(label)
    if len(seen) == 1:
        return Transition(np.eye(n_classes), "unsupported", "Every label is the same.")
    order = np.argsort(neighbor[:, 0], kind="stable")
    near, given = neighbor[order], label[order]
    most = CrossfitParams().coverage
    columns = [held_out(near, (given == b).astype(np.int8), n_rows, most) for b in seen]
    held = np.stack([labels.ones for labels, _, _ in columns], axis=1)
    share = np.ascontiguousarray(np.stack([f.T for _, f, _ in columns], axis=2))
    with threadpool_limits(1, user_api="blas"):  # as in crossfit
        fitted, clean = _fit(share, held, params)
    matrix = np.eye(n_classes)
    matrix[np.ix_(seen, seen)] = fitted
    return _judge(matrix, fitted, clean, n_rows)


def of_rates(rates: NoiseRates) -> Transition:
    """Two classes' rates as a matrix, ``[[1 - p0, p0], [p1, 1 - p1]]``, with their verdict."""
    matrix = np.array([[1.0 - rates.p0, rates.p0], [rates.p1, 1.0 - rates.p1]])
    return Transition(matrix, rates.support, rates.reason, rates, rates.diagnostics)


def posterior_simplex(eta_corr: Floats, matrix: Floats) -> Floats:
    """Clean class chances: the q on the simplex with ``q @ matrix`` nearest to ``eta_corr``.

    ``eta_corr`` is (row, class) float64, shares of given labels; ``matrix`` (class, class), row =
    true class. Rows whose exact solution is a distribution get it, the others accelerated projected
    gradient (Beck & Teboulle 2009) to 1e-9. Two classes: ``threshold.posterior``.
    Returns (row, class) float64, rows add up to 1. ValueError unless the matrix is row-stochastic.
    """
    if matrix.min() < 0 or np.abs(matrix.sum(axis=1) - 1.0).max() > 1e-6:
        raise ValueError("matrix: its rows must be distributions, each row a true class")
    exact = eta_corr @ np.linalg.pinv(matrix)
    answer = _project(exact)
    todo = np.flatnonzero((exact < -1e-12).any(axis=1) & (len(matrix) > 2))
    gram, pull = matrix @ matrix.T, eta_corr @ matrix.T
    step = 1.0 / float(np.linalg.eigvalsh(gram)[-1])
    last, ahead, speed = answer[todo], answer[todo], 1.0
    for _ in range(1000):
        new = answer[todo] = _project(ahead - step * (ahead @ gram - pull[todo]))
        going = np.abs(new - ahead).max(axis=1) > 1e-9
        if not going.any():
            break
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * speed**2))
        ahead = (new + (speed - 1.0) / faster * (new - last))[going]
        todo, last, speed = todo[going], new[going], faster
    return answer


def _project(point: Floats) -> Floats:
    """Nearest point of the simplex to each row (Duchi et al. 2008)."""
    ranked = np.sort(point, axis=1)[:, ::-1]
    excess = (np.cumsum(ranked, axis=1) - 1.0) / np.arange(1, point.shape[1] + 1)
    last = np.maximum((ranked > excess).sum(axis=1), 1) - 1
    cut = np.take_along_axis(excess, last[:, None], axis=1)
    return np.asarray(np.maximum(point - cut, 0.0))


def _fit(share: Floats, held: Floats, params: TransitionParams) -> tuple[Floats, Floats]:
    """Matrix (c, c) and chances of clean classes (m, c); ``share`` is (g, m, c), ``held`` (m, c).

    Free parameters: logits of the matrix, a mixing matrix, weights of the g sizes, biases.
    """
    g, _, c = share.shape
    first = _first_matrix(share[min(3, g - 1)], held, params.anchor_share)
    target = np.linalg.pinv(0.95 * first + 0.05 / c)
    target -= target.mean(axis=1, keepdims=True)
    free = np.concatenate([np.log(first).ravel(), target.ravel(), np.full(g, 6.0 / g), np.zeros(c)])
    limit = {"maxiter": params.iterations}
    for penalty in (1000.0 * params.mixing_penalty, params.mixing_penalty):
        data = (share, held, target, (penalty, params.purity))
        free = minimize(_loss, free, data, "L-BFGS-B", True, options=limit).x
    logit, mixing, weight, bias = np.split(np.asarray(free), [c * c, 2 * c * c, 2 * c * c + g])
    clean = softmax(np.tensordot(weight, share, 1) @ mixing.reshape(c, c) + bias, axis=1)
    return softmax(logit.reshape(c, c), axis=1), clean


def _loss(
    free: Floats, share: Floats, held: Floats, target: Floats, costs: tuple[float, float]
) -> tuple[float, Floats]:
    """Negative log likelihood of the held-out labels, penalised, with its gradient."""
    g, _, c = share.shape
    logit, mixing, weight, bias = np.split(free, [c * c, 2 * c * c, 2 * c * c + g])
    matrix, mixing = softmax(logit.reshape(c, c), axis=1), mixing.reshape(c, c)
    mixed = np.tensordot(weight, share, 1)
    clean = softmax(mixed @ mixing + bias, axis=1)
    chance = np.clip(clean @ matrix, 1e-9, None)
    away, pure = mixing - target, costs[1] * held.sum(axis=1, keepdims=True)
    value = 1e-2 * float(weight @ weight) + costs[0] * float((away**2).sum())
    value -= float((held * np.log(chance)).sum()) + float((pure * clean**2).sum())
    d_chance = -held / chance
    d_logit = _softmax_gradient(matrix, clean.T @ d_chance)
    d_index = _softmax_gradient(clean, d_chance @ matrix.T - 2.0 * pure * clean)
    d_weight = np.tensordot(share, d_index @ mixing.T, 2) + 2e-2 * weight
    d_mixing = mixed.T @ d_index + 2.0 * costs[0] * away
    return value, np.concatenate([d_logit.ravel(), d_mixing.ravel(), d_weight, d_index.sum(axis=0)])


def _softmax_gradient(of: Floats, gradient: Floats) -> Floats:
    return np.asarray(of * (gradient - (of * gradient).sum(axis=1, keepdims=True)))


def _first_matrix(share: Floats, held: Floats, part: float) -> Floats:
    """Held-out labels of the rows richest in each class; (c, c), every entry positive."""
    m, c = share.shape
    rows = min(m, max(20, int(part * m / c)))
    anchors = np.argsort(-share, axis=0, kind="stable")[:rows]
    found: Floats = held[anchors].sum(axis=0) + 0.5 / c
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _judge(matrix: Floats, fitted: Floats, clean: Floats, n_rows: int) -> Transition:
    """The verdict, by the class worst off: how many informative rows, and how pure they are."""
    impurity = 1.0 - (clean**2).sum(axis=0) / np.maximum(clean.sum(axis=0), 1e-12)
    others = np.where(np.eye(len(fitted), dtype=bool), -1.0, fitted).max(axis=0)
    gap = np.diag(fitted) - others
    informative = n_rows * clean.mean(axis=0) * np.maximum(gap, 0.0) ** 2
    diagnostics = {"impurity": impurity.tolist(), "informative_rows": informative.tolist()}
    diagnostics["class_share"] = clean.mean(axis=0).tolist()
    least, mixed = float(informative.min()), float(impurity.max())
    support: Support = "weak" if least < FEW or mixed > MIXED else "supported"
    support = "unsupported" if least < TOO_FEW else support
    reason = f"The worst-off class has {least:.0f} informative rows; impurity is up to {mixed:.2f}."
    return Transition(matrix, support, reason, None, diagnostics)
