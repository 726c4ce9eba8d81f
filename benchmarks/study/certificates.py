"""Speculate-correct bounds: the cube of Bax, Weng & Tian, and coverage over many seeds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from benchmarks.study.noises import flipped
from benchmarks.study.pools import cube
from benchmarks.study.results import Results
from pipeline.decision.threshold import threshold
from pipeline.diagnostics.reliability import clopper_pearson
from pipeline.methods.speculate_correct import (
    Counts,
    Design,
    Inequality,
    Rule,
    at_least,
    best_design,
    certify,
    clean_loss,
    clean_range,
    majority,
    sample_block,
    threshold_rules,
)
from pipeline.simulate import flip

SIZES = (20_000, 50_000, 100_000)
K = (3, 5, 7, 9, 11, 13)
DELTA, LISTS, SAMPLES, NOISE = 0.05, 29, 10_000_000, 0.1
"""All as in the paper."""
DATA_SEEDS = 4
N_TEST, TEST_SEED = 1_000_000, 10_000
COVERAGE_ROWS, COVERAGE_SEEDS, COVERAGE_SAMPLES, COVERAGE_TEST = 2000, 200, 200_000, 20_000
TIMED_ROWS = 1_000_000
BESIDE_SIZES, BESIDE_SEEDS, BESIDE_K, BESIDE_TEST = (2000, 10_000, 50_000, 100_000), 5, 5, 100_000


def run(work: Path) -> None:
    results = Results(work, "certificates")
    for n in SIZES:
        for seed in range(DATA_SEEDS):
            if f"cube/{n}/{K[0]}/{seed}" not in results:
                for row in cube_case(n, seed):
                    results.add(f"cube/{n}/{row['k']}/{seed}", {"kind": "cube", **row})
        print(f"certificates n={n}", flush=True)
    if "time" not in results:
        results.add("time", {"kind": "time", **timed()})
    for n in BESIDE_SIZES:
        for seed in range(BESIDE_SEEDS):
            if (key := f"beside/{n}/{seed}") not in results:
                results.add(key, {"kind": "beside", "n": n, **beside_case(n, seed)})
    for problem in PROBLEMS:
        for seed in range(COVERAGE_SEEDS):
            if (key := f"coverage/{problem.name}/{seed}") not in results:
                row = coverage_case(problem, seed)
                results.add(key, {"kind": "coverage", "problem": problem.name, **row})
        print(f"certificates {problem.name}", flush=True)


def _sampled(
    lists: NDArray[Any], given: NDArray[Any], design: Design, rule: Rule, classes: int, seed: int
) -> Counts:
    rows = np.arange(len(given))
    return sample_block(rows, given, given[lists[:, : design.w]], design, rule, classes, seed)


def _others(x: NDArray[np.float32], k: int) -> tuple[cKDTree, NDArray[np.int64]]:
    tree = cKDTree(x)
    return tree, tree.query(x, k + 1)[1][:, 1:]


def cube_case(n: int, seed: int) -> list[dict[str, Any]]:
    """The estimates of each k by both inequalities' designs, beside the true error."""
    x, y, _ = cube(n, seed)
    given = flip(y, NOISE, NOISE, seed)
    tree, lists = _others(x, LISTS)
    wrong = np.zeros(len(K))
    for part in range(0, N_TEST, 100_000):
        test, truth, _ = cube(100_000, TEST_SEED + part)
        votes = np.cumsum(given[tree.query(test, max(K))[1]], axis=1, dtype=np.int64)
        wrong += [((2 * votes[:, k - 1] > k) != truth).sum() for k in K]
    rows = []
    for at, k in enumerate(K):
        error = NOISE + (1.0 - 2.0 * NOISE) * float(wrong[at]) / N_TEST
        row: dict[str, Any] = {"n": n, "k": k, "seed": seed, "error": error}
        inequality: Inequality
        for inequality in ("lemma6", "hoeffding"):
            design = best_design(n, k, LISTS, SAMPLES, DELTA, inequality)
            counts = _sampled(lists, given, design, majority(2), 2, seed)
            found = certify(counts, design, DELTA, inequality=inequality)
            row[inequality] = {
                "r": design.r,
                "m": design.m,
                "estimate": found.estimate,
                "parts": list(vars(found.epsilon).values()),
                "epsilon": found.epsilon.total,
            }
        others = range(100, 108) if (n, seed) == (SIZES[0], 0) else ()
        again = [_sampled(lists, given, design, majority(2), 2, s) for s in others]
        row["resampled"] = [certify(c, design, DELTA).estimate for c in again]
        rows.append(row)
    return rows


def beside_case(n: int, seed: int) -> dict[str, float]:
    """The bound beside Clopper-Pearson on a tenth that is held out, and leave-one-out: widths, and
    how far estimates are from the true error of the rule of all rows."""
    x, y, _ = cube(n, seed)
    given, cut = flip(y, NOISE, NOISE, seed), n // 10
    tree, lists = _others(x, 50)
    test, truth, _ = cube(BESIDE_TEST, TEST_SEED + seed)

    def says(index: NDArray[Any], label: NDArray[Any]) -> NDArray[np.bool_]:
        return np.asarray(2 * label[index].sum(axis=1, dtype=np.int64) > BESIDE_K)

    error = _noisy_error(says(tree.query(test, BESIDE_K)[1], given) != truth)
    rest, of_rest = cKDTree(x[cut:]), given[cut:]
    wrong = int((says(rest.query(x[:cut], BESIDE_K)[1], of_rest) != given[:cut]).sum())
    low, high = clopper_pearson(wrong, cut, DELTA)
    fewer = _noisy_error(says(rest.query(test, BESIDE_K)[1], of_rest) != truth)
    design = best_design(n, BESIDE_K, lists.shape[1], 1_000_000, DELTA)
    bound = certify(_sampled(lists, given, design, majority(2), 2, seed), design, DELTA)
    one_out = float((says(lists[:, :BESIDE_K], given) != given).mean())
    return {
        "error": error,
        "bound": bound.upper - bound.lower,
        "bound_off": abs(bound.estimate - error),
        "held_out": high - low,
        "held_out_off": abs(wrong / cut - error),
        "one_out_off": abs(one_out - error),
        "cost": fewer - error,
    }


def _noisy_error(wrong: NDArray[np.bool_]) -> float:
    """Error against labels such as those given."""
    return NOISE + (1.0 - 2.0 * NOISE) * float(wrong.mean())


def timed() -> dict[str, Any]:
    """Processor seconds of all samples of a million rows, lists at hand."""
    rng = np.random.default_rng(0)
    given = rng.integers(0, 2, TIMED_ROWS).astype(np.int8)
    lists = rng.integers(0, 2, (TIMED_ROWS, LISTS)).astype(np.int8)
    design = best_design(TIMED_ROWS, 9, LISTS, SAMPLES, DELTA)
    rows = np.arange(TIMED_ROWS)
    sample_block(rows[:10], given[:10], lists[:10], design, majority(2), 2, 0)
    start = time.process_time()
    sample_block(rows, given, lists, design, majority(2), 2, 0)
    return {"rows": TIMED_ROWS, "seconds": time.process_time() - start}


@dataclass(frozen=True)
class Problem:
    """Rows, noise and the rule that is certified."""

    name: str
    says: str
    k: int
    rates: tuple[float, float]
    """p0 and p1; of more than two classes, the share that moves to the next one"""
    rule: Callable[[NDArray[Any], NDArray[Any]], Rule]
    """from lists and given labels; most look at neither"""
    clean: bool = False
    n_rules: int = 1
    classes: int = 2


def _best_on_the_same_labels(lists: NDArray[Any], given: NDArray[Any]) -> Rule:
    share = given[lists[:, :5]].mean(axis=1)
    thresholds = (np.arange(6) + 0.5) / 5.0
    wrong = [((share >= t) != given).mean() for t in thresholds]
    return at_least(float(thresholds[int(np.argmin(wrong))]))


PROBLEMS = (
    Problem("majority", "majority of 5, noise (.1, .1)", 5, (0.1, 0.1), lambda *_: majority(2)),
    Problem(
        "corrected",
        "corrected threshold of known rates (.1, .3), error against the given labels",
        9,
        (0.1, 0.3),
        lambda *_: at_least(threshold(0.1, 0.3)),
    ),
    Problem(
        "clean",
        "the same, error against the clean labels with the rates known",
        9,
        (0.1, 0.3),
        lambda *_: at_least(threshold(0.1, 0.3)),
        clean=True,
    ),
    Problem(
        "chosen",
        "threshold chosen on the very labels, all 7 certified at once",
        5,
        (0.1, 0.3),
        _best_on_the_same_labels,
        n_rules=threshold_rules(5),
    ),
    Problem(
        "octants",
        "8 classes, .2 of the labels wrong",
        9,
        (0.2, 0.0),
        lambda *_: majority(8),
        classes=8,
    ),
)


def coverage_case(problem: Problem, seed: int) -> dict[str, Any]:
    """Whether the bound holds the true error of one training set."""
    x, y, noise = _labeled(COVERAGE_ROWS, seed, problem)
    given = flipped(y, noise, np.random.default_rng([seed, 3]))
    tree, lists = _others(x, LISTS)
    rule = problem.rule(lists, given)
    design = _design(problem.k, problem.n_rules)
    counts = _sampled(lists, given, design, rule, problem.classes, seed)
    test, truth, _ = _labeled(COVERAGE_TEST, TEST_SEED + seed, problem)
    guess = rule(given[tree.query(test, problem.k)[1]]).astype(np.int64)
    if problem.clean:
        error = float((guess != truth).mean())
        found = certify(counts, design, DELTA, clean_loss(noise))
        wide = clean_range(counts, design, DELTA, (0.08, 0.12), (0.27, 0.33))
    else:
        error = 1.0 - float(noise[truth, guess].mean())
        found = certify(counts, design, DELTA, n_rules=problem.n_rules)
        wide = (found.lower, found.upper)
    return {
        "error": error,
        "estimate": found.estimate,
        "half_width": found.half_width,
        "lower": found.lower,
        "upper": found.upper,
        "wide": list(wide),
        "r": design.r,
        "m": design.m,
    }


@cache
def _design(k: int, n_rules: int) -> Design:
    return best_design(COVERAGE_ROWS, k, LISTS, COVERAGE_SAMPLES, DELTA / n_rules)


def _labeled(
    n: int, seed: int, problem: Problem
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float64]]:
    """Features, clean labels and P(given | true)."""
    x, y, _ = cube(n, seed)
    p0, p1 = problem.rates
    if problem.classes == 2:
        return x, y.astype(np.int64), np.array([[1.0 - p0, p0], [p1, 1.0 - p1]])
    octant = (x < 0) @ np.array([1, 2, 4])
    eye = np.eye(problem.classes)
    return x, octant, (1.0 - p0) * eye + p0 * np.roll(eye, 1, axis=1)
