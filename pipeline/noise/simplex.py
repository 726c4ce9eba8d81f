"""Clean class chances from shares of given labels and the transition matrix."""

from __future__ import annotations

import numpy as np
from numba import njit

from pipeline.arrays import Float64, Integers

STEPS, NEAR = 1000, 1e-9
"""Of the ascent at most, and how little the last one moves."""


def posterior_simplex(eta_corr: Float64, matrix: Float64) -> Float64:
    """Clean class chances: the q on the simplex with ``q @ matrix`` nearest to ``eta_corr``.

    ``eta_corr`` is (row, class) float64, shares of given labels; ``matrix`` (class, class), row =
    true class. Rows whose exact solution is a distribution get it, the others accelerated projected
    gradient (Beck & Teboulle 2009) to 1e-9. Two classes: ``threshold.posterior``.
    Returns (row, class) float64, rows add up to 1. ValueError unless the matrix is row-stochastic.
    """
    if matrix.min() < 0 or np.abs(matrix.sum(axis=1) - 1.0).max() > 1e-6:
        raise ValueError("matrix: its rows must be distributions, each row a true class")
    exact = eta_corr @ np.linalg.pinv(matrix)
    beyond = (exact < -1e-12).any(axis=1)
    _project_all(exact)
    every = np.broadcast_to(np.arange(len(matrix)), exact.shape)[beyond]
    exact[beyond] = _nearest(exact[beyond], every, eta_corr[beyond], matrix)
    return exact


def posterior_of_candidates(code: Integers, eta_corr: Float64, matrix: Float64) -> Float64:
    """``posterior_simplex`` where clean classes are sought among a few candidates of each row.

    ``code`` is (row, candidate), -1 at the end where a row has fewer; ``eta_corr`` (row, candidate)
    shares of given labels, 0 for all classes that are no candidates. Returns (row, candidate), rows
    add up to 1.
    """
    return _nearest(np.where(code >= 0, eta_corr, 0.0), code, eta_corr, matrix)


def _nearest(start: Float64, code: Integers, eta_corr: Float64, matrix: Float64) -> Float64:
    """The answer for each row, sought from a point of its candidates on."""
    gram, answer = matrix @ matrix.T, start.copy()
    step = 1.0 / float(np.linalg.eigvalsh(gram)[-1])
    _ascend(answer, code, eta_corr, matrix, gram, step)
    return answer


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _ascend(
    answer: Float64, code: Integers, eta_corr: Float64, matrix: Float64, gram: Float64, step: float
) -> None:
    """Accelerated projected gradient from each row's ``answer`` on, which is replaced."""
    width = answer.shape[1]
    pull, inner = np.empty(width), np.empty((width, width))
    for i in range(len(answer)):
        n = 0
        while n < width and code[i, n] >= 0:
            n += 1
        if n == 0:
            continue
        for c in range(n):
            pull[c] = 0.0
            for d in range(n):
                pull[c] += eta_corr[i, d] * matrix[code[i, c], code[i, d]]
                inner[c, d] = gram[code[i, c], code[i, d]]
        new, last, speed = answer[i, :n], answer[i, :n].copy(), 1.0
        ahead, point = last.copy(), np.empty(n)
        for _ in range(STEPS):
            for c in range(n):
                slope = -pull[c]
                for d in range(n):
                    slope += ahead[d] * inner[c, d]
                point[c] = ahead[c] - step * slope
            _project(point)
            new[:] = point
            if np.abs(new - ahead).max() <= NEAR:
                break
            faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * speed**2))
            for c in range(n):
                ahead[c] = new[c] + (speed - 1.0) / faster * (new[c] - last[c])
                last[c] = new[c]
            speed = faster


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _project_all(points: Float64) -> None:
    """Replace points (row, class) by the nearest ones of the simplex."""
    for i in range(len(points)):
        _project(points[i])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _project(point: Float64) -> None:
    """The same of one point (Duchi et al. 2008)."""
    ranked = np.sort(point)
    total, cut = 0.0, 0.0
    for n in range(1, len(point) + 1):
        total += ranked[-n]
        if n == 1 or ranked[-n] > (total - 1.0) / n:
            cut = (total - 1.0) / n
    for c in range(len(point)):
        point[c] = max(point[c] - cut, 0.0)
