"""Whose labels: are groups' rates found, do their intervals cover, is the test of them right?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.study.coverage import KINDS
from benchmarks.study.lists import search
from benchmarks.study.results import Results
from pipeline.decision.threshold import predict, threshold
from pipeline.noise.extrema import anchor_plan, crossfit
from pipeline.noise.group_cells import NEAREST, Layout, apart
from pipeline.noise.groups import Groups, Whole, group_rates
from pipeline.noise.rates import NoiseRates, clean_shares
from pipeline.noise.transition import of_rates

SIZES = (200,) * 8 + (500,) * 6 + (1000,) * 4 + (2000,) * 3 + (5000, 20_000)
"""Rows of the groups of a pool, which are mixed among each other."""
LOW, HIGH = 0.05, 0.35
POOLS = {"blobs": 2, "sheets": 2, "moons": 2, "hypercube": 1, "rare": 1}
"""Pools of each kind."""
K = 30
DRAWS = 5
"""Draws of wrong labels of each pool and setting."""
ASSIGNED = 20
"""Ways to deal the rows to groups, of each draw where groups are alike."""
SETTINGS = (
    *("apart", "skewed", "regions", "alike", "skewed, alike"),
    *("one +0.05", "one +0.1", "one +0.15"),
)
"""Rates drawn for each group; the same, and classes shared unequally; the same, and each group in a
region of its own; all alike; the same, and classes shared unequally; all but one."""
ODD = 13
"""The group that differs where one does."""
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def run(work: Path) -> None:
    results = Results(work, "groups")
    for kind, pools in POOLS.items():
        for seed in range(pools):
            key = f"{kind}/{seed}"
            if key not in results:
                results.add(key, {"kind": kind, "cases": pool(kind, sum(SIZES), seed)})
            print(f"groups {key}", flush=True)


def pool(kind: str, n: int, seed: int, sizes: tuple[int, ...] = SIZES) -> list[dict[str, Any]]:
    """All settings on one pool."""
    x, y = KINDS[kind](n, seed)
    x, y = np.ascontiguousarray(x, np.float32), y.astype(np.int8)
    near = search(x, np.arange(n), K + 1)[:, 1:]
    wanted, columns = anchor_plan(n, x.shape[1])
    anchors = np.random.default_rng([7, n, seed]).permutation(n)[:wanted]
    lists = search(x, anchors, columns).astype(np.int64)
    cases = []
    for setting in SETTINGS:
        for draw in range(DRAWS):
            rng = np.random.default_rng([8, seed, SETTINGS.index(setting), draw])
            group = shared(y, sizes, rng, skewed=setting.startswith("skewed"))
            if setting == "regions":
                group = np.repeat(np.arange(len(sizes)), sizes)[np.argsort(np.argsort(x[:, 0]))]
            rates = drawn(setting, len(sizes), rng)
            given = (y ^ (rng.random(n) < rates[group, y])).astype(np.int8)
            whole = crossfit(lists, given[lists], n)
            for _ in range(ASSIGNED if "alike" in setting else 1):
                found = groups_of(near, given, group, whole, len(sizes))
                cases.append({"setting": setting, **compared(found, rates, sizes)})
                group = shared(y, sizes, rng, skewed=setting.startswith("skewed"))
    return cases


def shared(
    y: NDArray[np.int8], sizes: tuple[int, ...], rng: np.random.Generator, *, skewed: bool
) -> Ints:
    """(row,) groups, at random; `skewed`: the odds of class 1 are nine times as high in every
    second one."""
    slot = np.repeat(np.arange(len(sizes)), sizes)
    lean = np.log(9.0) * (slot % 2) * skewed
    slots = np.argsort(rng.logistic(size=len(slot)) + lean)
    rows = np.lexsort((rng.random(len(y)), y))
    found = np.empty(len(slot), np.int64)
    found[rows] = slot[slots]
    return found


def drawn(setting: str, n_groups: int, rng: np.random.Generator) -> Floats:
    """(group, 2) P(given the other class | true class)."""
    if setting in ("apart", "skewed", "regions"):
        return rng.uniform(LOW, HIGH, (n_groups, 2))
    rates = np.tile([0.2, 0.1], (n_groups, 1))
    if setting.startswith("one"):
        rates[min(ODD, n_groups - 1)] += float(setting.split("+")[1])
    return rates


def groups_of(
    near: NDArray[np.int32], given: NDArray[np.int8], group: Ints, rates: NoiseRates, n_groups: int
) -> Groups:
    """What a training says of its groups; `near` (row, k) without the rows themselves."""
    k = near.shape[1]
    ones = given[near].sum(axis=1, dtype=np.int64)
    likely = predict(ones / k, threshold(rates.p0, rates.p1))
    layout = Layout(n_groups, 2, k + 1)
    none = np.zeros(len(given), np.bool_)
    level = np.where(likely == 1, ones, k - ones)
    cells = layout.count(group, likely, level, given, none)
    prior = np.array(clean_shares(rates.p0, rates.p1, float(given.mean())))
    errors = np.array(rates.standard_errors)
    matrix, support = of_rates(rates).matrix, [rates.support] * 2
    whole = Whole((0, 1), matrix, prior, errors, support, apart(group, group[near[:, :NEAREST]]))
    return group_rates(cells, layout, whole, "group", range(n_groups))


def compared(found: Groups, rates: Floats, sizes: tuple[int, ...]) -> dict[str, Any]:
    """The p-value, and of every rate: size of the group, error, error of the shrunken one, whether
    the interval covers, half its width, verdict."""
    told = []
    for group in found.groups:
        g = int(group.value)
        for rate in group.rates:
            true = float(rates[g, int(rate.true)])
            low, high = rate.interval
            told.append(
                [
                    sizes[g],
                    rate.estimate - true,
                    rate.shrunk - true,
                    bool(low <= true <= high),
                    (high - low) / 2,
                    rate.support,
                ]
            )
    return {"p_value": found.p_value, "rates": told}
