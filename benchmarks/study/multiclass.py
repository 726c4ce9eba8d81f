"""Transition matrices of many classes: row-wise L1 error against cleanlab's, same neighbors."""

from __future__ import annotations

import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from bqlearn.metrics import anchor_transition_matrix
from numpy.typing import NDArray

from benchmarks.study import data
from benchmarks.study.estimates import cleanlab_matrix, leave_one_out
from benchmarks.study.lists import Lists, lists_of
from benchmarks.study.noises import flipped
from benchmarks.study.results import Results

Floats = NDArray[np.float64]
SETS = (*data.TUNED, "segment", "pendigits", "vehicle", "fashion_mnist")
"""Sets of more than two classes, none rarer than 3 %; shuttle's rarest have ten rows."""
KINDS = ("uniform", "pairs", "random")
STRENGTH = (0.2, 0.4)


def noise_matrix(kind: str, strength: float, classes: int) -> Floats:
    """(true, given) row-stochastic matrix with `strength` of each row off the diagonal on average.

    `uniform`: to all other classes alike. `pairs`: class c to c + 1 alone. `random`: a row's share
    is between half and one and a half of `strength`, spread by a Dirichlet(0.5) draw.
    """
    rng = np.random.default_rng([23, classes, KINDS.index(kind), round(100 * strength)])
    off = np.zeros((classes, classes))
    for row in range(classes):
        others = np.delete(np.arange(classes), row)
        if kind == "uniform":
            off[row, others] = strength / len(others)
        elif kind == "pairs":
            off[row, (row + 1) % classes] = strength
        else:
            share = strength * rng.uniform(0.5, 1.5)
            off[row, others] = share * rng.dirichlet(np.full(len(others), 0.5))
    return off + np.diag(1.0 - off.sum(axis=1))


def run(folder: Path, work: Path, trials: int = 3) -> None:
    results = Results(work, "multiclass")
    for name in SETS:
        start = time.perf_counter()
        try:
            lists = lists_of(folder, work / "lists", name)
        except data.Absent as reason:
            print(f"{name}: skipped, {reason}", flush=True)
            continue
        for kind in KINDS:
            for strength in STRENGTH:
                for trial in range(trials):
                    key = f"{name}/{kind}/{strength}/{trial}"
                    if key not in results:
                        results.add(key, case(lists, key, noise_matrix(kind, strength, _c(lists))))
        print(f"multiclass {name}: {time.perf_counter() - start:.0f} s", flush=True)


def _c(lists: Lists) -> int:
    return int(lists.y.max()) + 1


def case(lists: Lists, key: str, noise: Floats) -> dict[str, Any]:
    """Mean over rows of the L1 distance to the matrix realized in the sample."""
    classes, seed = len(noise), zlib.crc32(key.encode())
    given = flipped(lists.y, noise, np.random.default_rng([seed, 3]))
    realized = np.zeros((classes, classes))
    np.add.at(realized, (lists.y, given), 1.0)
    realized /= realized.sum(axis=1, keepdims=True)
    near = lists.anchors.near
    start = time.perf_counter()
    ours = lists.anchors.matrix(given, classes)
    seconds = time.perf_counter() - start
    chances = leave_one_out(near, given, classes)
    matrices = {
        "crossfit": ours.matrix,
        "cleanlab": cleanlab_matrix(chances, given[near[:, 0]]),
        "biquality": anchor_transition_matrix(chances),
    }
    name, kind, strength, trial = key.split("/")
    return {
        "set": name,
        "kind": kind,
        "strength": float(strength),
        "trial": int(trial),
        "seed": seed,
        "n": lists.n,
        "classes": classes,
        "tuned": data.is_tuned(name),
        "error": {m: float(np.abs(a - realized).sum(axis=1).mean()) for m, a in matrices.items()},
        "support": ours.support,
        "seconds": seconds,
    }
