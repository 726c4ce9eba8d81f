"""Compiled loops over rows with several labels: the neighbors' mixture of classes, the row's
posterior, and the sums of both."""

from __future__ import annotations

import numpy as np
from numba import njit

from pipeline.arrays import Float64, Int32, Int64

CANDIDATES = 32
"""Classes per row that are looked at: all, or those given most in its and its neighbors'
annotations."""
MIXED = 5
"""Steps from the pool's shares towards the likeliest mixture; few steps stay near the shares."""
ALPHA = 1.0
"""Neighbors for which the pool's shares count in a mixture."""
LEAST = 1e-9
"""Least chance of a class, and of a label."""
DAMPED, HALVED = 0.8, 0.5
"""Powers of the likelihood of a row's own annotations: for the consensus on a row that has several,
as hard rows mislead several annotators at once; and to see how much worse annotators may be."""
_WRONG = -30.0
"""Logarithm of the chance that a label which is certain is wrong."""


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _scale(x: Float64) -> None:
    """Make numbers add up to 1."""
    total = 0.0
    for a in range(len(x)):
        total += x[a]
    for a in range(len(x)):
        x[a] /= total


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _candidates(
    i: int,
    own: Int64,
    near: Int64,
    weight: Float64,
    start: Int64,
    label: Int32,
    c: int,
    votes: Int64,
    out: Int64,
) -> int:
    """Fill ``out`` with the classes to look at, ascending; returns their number. ``votes`` is 0
    before and after."""
    if c <= len(out):
        for a in range(c):
            out[a] = a
        return c
    for at in range(start[own[i]], start[own[i] + 1]):
        votes[label[at]] += 1_000_000
    for r in range(near.shape[1]):
        if weight[i, r] > 0:
            for at in range(start[near[i, r]], start[near[i, r] + 1]):
                votes[label[at]] += 1
    for _ in range(len(out)):
        best = np.argmax(votes)
        if votes[best] > 0:
            votes[best] = -1
    n = 0
    for a in range(c):
        if votes[a] < 0:
            out[n] = a
            n += 1
    for a in range(c):
        votes[a] = 0
    return n


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _likelihood(
    row: int,
    codes: Int64,
    start: Int64,
    annotator: Int32,
    label: Int32,
    logs: Float64,
    out: Float64,
) -> None:
    """Fill ``out`` with the chances of a row's annotations by class, scaled to add up to 1."""
    top = -np.inf
    for a in range(len(codes)):
        out[a] = 0.0
        for at in range(start[row], start[row + 1]):
            if annotator[at] < 0:
                out[a] += 0.0 if label[at] == codes[a] else _WRONG
            else:
                out[a] += logs[annotator[at], codes[a], label[at]]
        top = max(top, out[a])
    for a in range(len(codes)):
        out[a] = np.exp(out[a] - top)
    _scale(out)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _mixture(
    like: Float64, weight: Float64, used: int, share: Float64, f: Float64, g: Float64
) -> None:
    """Fill ``f`` with the mixture of classes by the neighbors; ``g`` is room."""
    n = len(share)
    for a in range(n):
        f[a] = share[a]
    for _ in range(MIXED):
        for a in range(n):
            g[a] = ALPHA * share[a]
        for r in range(used):
            s = 0.0
            for a in range(n):
                s += f[a] * like[r, a]
            for a in range(n):
                g[a] += weight[r] * f[a] * like[r, a] / max(s, 1e-300)
        _scale(g)
        for a in range(n):
            f[a] = g[a]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _believed(f: Float64, top: int, chance: float) -> None:
    """Give the class ``top`` of a mixture its learned chance; the others share the rest."""
    if np.isnan(chance):
        return
    chance = min(max(chance, 1e-6), 1.0 - 1e-6)
    rest = (1.0 - chance) / max(1.0 - f[top], LEAST)
    for a in range(len(f)):
        f[a] = max(chance if a == top else f[a] * rest, LEAST)
    _scale(f)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def expect_rows(
    own: Int64,
    near: Int64,
    weight: Float64,
    start: Int64,
    annotator: Int32,
    label: Int32,
    logs: Float64,
    prior: Float64,
    sure: Float64,
    edges: Float64,
    counts: Float64,
    sure_sums: Float64,
    prior_sums: Float64,
    right: Float64,
    checked: Float64,
    consensus: Int32,
    certainty: Float64,
    n_annotations: Int32,
    n_agreeing: Int32,
) -> None:
    """Judge rows and add up their sums. Arguments are the arrays of those of `annotators.expect`,
    with logarithms of the matrices; the last nine are written."""
    c, width = logs.shape[1], min(logs.shape[1], CANDIDATES)
    candidates, votes = np.empty(width, np.int64), np.zeros(c, np.int64)
    like, used_weight = np.empty((near.shape[1], width)), np.empty(near.shape[1])
    room = np.empty((6, width))
    for i in range(len(own)):
        n = _candidates(i, own, near, weight, start, label, c, votes, candidates)
        codes, f, g, q = candidates[:n], room[0, :n], room[1, :n], room[2, :n]
        share, likelihood, half = room[3, :n], room[4, :n], room[5, :n]
        used = 0
        for r in range(near.shape[1]):
            if weight[i, r] > 0:
                _likelihood(near[i, r], codes, start, annotator, label, logs, like[used, :n])
                used_weight[used] = weight[i, r]
                used += 1
        for a in range(n):
            share[a] = prior[codes[a]] + LEAST
        _scale(share)
        _mixture(like[:, :n], used_weight, used, share, f, g)
        top = np.argmax(f)
        level = len(edges) - 1
        while edges[level] > f[top]:
            level -= 1
        _believed(f, top, sure[codes[top], level])
        _likelihood(own[i], codes, start, annotator, label, logs, q)
        power = DAMPED if start[own[i] + 1] - start[own[i]] > 1 else 1.0
        for a in range(n):
            likelihood[a], half[a] = f[a] * q[a] ** power, f[a] * q[a] ** HALVED
            q[a] *= f[a]
        _scale(q)
        _scale(likelihood)
        _scale(half)
        sure_sums[codes[top], level, 0] += 1.0
        sure_sums[codes[top], level, 1] += q[top]
        sure_sums[codes[top], level, 2] += q[top] * (1.0 - q[top])
        checked_label = np.int64(-1)
        for at in range(start[own[i]], start[own[i] + 1]):
            if annotator[at] < 0:
                checked_label = label[at]
        best = np.argmax(likelihood)
        consensus[i], certainty[i] = codes[best], likelihood[best]
        for a in range(n):
            prior_sums[codes[a]] += q[a]
        for at in range(start[own[i]], start[own[i] + 1]):
            j = annotator[at]
            if j < 0:
                continue
            n_annotations[i] += 1
            n_agreeing[i] += label[at] == codes[best]
            right[j, 0] += 1.0
            if checked_label >= 0:
                checked[checked_label, label[at]] += 1.0
            for a in range(n):
                counts[j, codes[a], label[at]] += q[a]
                if codes[a] == label[at]:
                    right[j, 1] += q[a]
                    right[j, 2] += q[a] * (1.0 - q[a])
                    right[j, 3] += half[a]
