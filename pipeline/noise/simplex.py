"""Clean class chances from shares of given labels and the transition matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pipeline.arrays import Float64, Int64, Integers


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
    answer = _project(exact)
    todo = np.flatnonzero((exact < -1e-12).any(axis=1) & (len(matrix) > 2))
    gram, pull = matrix @ matrix.T, eta_corr @ matrix.T
    step = 1.0 / float(np.linalg.eigvalsh(gram)[-1])
    return _ascend(answer, todo, lambda x, rows: _project(x - step * (x @ gram - pull[rows])))


def posterior_of_candidates(code: Integers, eta_corr: Float64, matrix: Float64) -> Float64:
    """``posterior_simplex`` where clean classes are sought among a few candidates of each row.

    ``code`` is (row, candidate), -1 where a row has fewer; ``eta_corr`` (row, candidate) shares of
    given labels, 0 for all classes that are no candidates. Returns (row, candidate), rows add up to
    1.
    """
    gram = matrix @ matrix.T
    step = 1.0 / float(np.linalg.eigvalsh(gram)[-1])
    answer = np.empty(eta_corr.shape, np.float64)
    for start in range(0, len(code), 1024):
        some = slice(start, start + 1024)
        answer[some] = _among(code[some], eta_corr[some], matrix, gram, step)
    return answer


def _among(
    code: Integers, eta_corr: Float64, matrix: Float64, gram: Float64, step: float
) -> Float64:
    """``posterior_of_candidates`` of a few rows."""
    there, slot = code >= 0, np.maximum(code, 0)
    pull = np.einsum("rl,rcl->rc", eta_corr * there, matrix[slot[:, :, None], slot[:, None, :]])
    inner = gram[slot[:, :, None], slot[:, None, :]]

    def forward(x: Float64, rows: Int64) -> Float64:
        slope = np.einsum("rc,rcd->rd", x, inner[rows]) - pull[rows]
        return _project(np.where(there[rows], x - step * slope, -np.inf))

    return _ascend(_project(np.where(there, pull, -np.inf)), np.arange(len(code)), forward)


def _ascend(answer: Float64, todo: Int64, forward: Callable[[Float64, Int64], Float64]) -> Float64:
    """Accelerated projected gradient from ``answer`` on, in the rows ``todo``; ``forward`` takes a
    step from points of some rows and projects it."""
    last, ahead, speed = answer[todo], answer[todo], 1.0
    for _ in range(1000):
        new = answer[todo] = forward(ahead, todo)
        going = np.abs(new - ahead).max(axis=1) > 1e-9
        if not going.any():
            break
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * speed**2))
        ahead = (new + (speed - 1.0) / faster * (new - last))[going]
        todo, last, speed = todo[going], new[going], faster
    return answer


def _project(point: Float64) -> Float64:
    """Nearest point of the simplex to each row (Duchi et al. 2008)."""
    ranked = np.sort(point, axis=1)[:, ::-1]
    excess = (np.cumsum(ranked, axis=1) - 1.0) / np.arange(1, point.shape[1] + 1)
    last = np.maximum((ranked > excess).sum(axis=1), 1) - 1
    cut = np.take_along_axis(excess, last[:, None], axis=1)
    return np.asarray(np.maximum(point - cut, 0.0))
