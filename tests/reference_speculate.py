"""Speculate-correct word for word: every permutation, every subset, one row at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.methods.speculate_correct import Design


def wrong(order: Sequence[int], label: NDArray[Any], hidden: set[int], k: int, truth: int) -> int:
    """1 where the majority of the k nearest rows that are not hidden errs."""
    voters = [label[j] for j in order if j not in hidden][:k]
    return int((2 * sum(voters) > k) != truth)


def all_nearer(order: Sequence[int], subsets: list[set[int]], i: int, k: int) -> bool:
    """b_i: each of the first i subsets has a row nearer than the k-th row of no subset."""
    every = set().union(*subsets)
    at = [place for place, j in enumerate(order) if j not in every][k - 1]
    return all(any(j in subset for j in order[:at]) for subset in subsets[:i])


def powerset(size: int) -> Iterator[tuple[int, ...]]:
    for count in range(size + 1):
        yield from itertools.combinations(range(size), count)


def term(
    order: Sequence[int], label: NDArray[Any], subsets: list[set[int]], i: int, k: int, truth: int
) -> int:
    """f_i of (37), and f_{r+1} of (38), at one row."""
    r = len(subsets)
    if not all_nearer(order, subsets, i - 1, k):
        return 0
    total = 0
    for chosen in powerset(i - 1):
        withheld = {*chosen, i - 1} if i <= r else set(chosen)
        hidden = set().union(*(subsets[s] for s in withheld))
        total += (-1) ** len(chosen) * wrong(order, label, hidden, k, truth)
    return total


def true_error(
    x: NDArray[Any],
    label: NDArray[Any],
    query: NDArray[Any],
    truth: NDArray[Any],
    k: int,
    r: int,
    m: int,
) -> tuple[float, list[float]]:
    """Error of the classifier over some rows, and the means of its r + 1 terms over them."""
    subsets = [set(range(s * m, (s + 1) * m)) for s in range(r)]
    orders = [np.argsort(np.abs(x - at)).tolist() for at in query]
    pairs = list(zip(orders, truth.tolist(), strict=True))
    error = float(np.mean([wrong(order, label, set(), k, t) for order, t in pairs]))
    return error, [
        float(np.mean([term(order, label, subsets, i, k, t) for order, t in pairs]))
        for i in range(1, r + 2)
    ]


def exact_estimate(near: NDArray[Any], label: NDArray[Any], k: int, r: int, m: int) -> float:
    """(104) over all splits, with terms of zero where the w nearest rows do not suffice."""
    n = len(label)
    total, splits = 0.0, 0
    for split in set(
        itertools.permutations([s for s in range(r) for _ in range(m)] + [r] * (n - r * m))
    ):
        subsets = [{j for j in range(n) if split[j] == s} for s in range(r)]
        splits += 1
        for i in range(1, r + 1):
            for j in subsets[i - 1]:
                order = near[j].tolist()
                if sum(split[a] == r for a in order) >= k:
                    total += term(order, label, subsets, i, k, int(label[j])) / m
    return total / splits


def printed_terms(design: Design, delta: float) -> tuple[float, float, float, float]:
    """(112) to (116) as printed."""
    n, k, r, m, w, s = design.n, design.k, design.r, design.m, design.w, design.samples

    def chance(i: int) -> float:
        total = 0.0
        for h in range(i + 1):
            product = 1.0
            for j in range(k):
                product *= (n - r * m - j) / (n - r * m + h * m - j)
            total += (-1) ** h * math.comb(i, h) * product
        return total

    epsilon_v = sum(
        2 ** (i - 1)
        * chance(i - 1)
        / math.sqrt(2 * m)
        * (1.06 * math.sqrt(math.log(20 / (9 * delta))) + 3.22)
        for i in range(1, r + 1)
    )
    epsilon_r = 2 ** (r - 1) * chance(r)
    epsilon_c = 0.0
    for i in range(k):
        product = float(math.comb(w, i))
        for j in range(i):
            product *= n - r * m - j
        for j in range(w - i):
            product *= r * m - 1 - j
        for j in range(w):
            product /= n - 1 - j
        epsilon_c += r * 2 ** (r - 1) * product
    v = sum(chance(i - 1) * r**2 * 2 ** (2 * (i - 1)) for i in range(1, r + 1)) / r
    log = math.log(20 / delta)
    epsilon_s = math.sqrt(2 * v * log / s) + r * 2**r * log / (3 * s)
    return epsilon_v, epsilon_r, epsilon_c, epsilon_s
