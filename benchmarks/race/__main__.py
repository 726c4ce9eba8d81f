"""Runs the cases in turn, round after round, and prints ratios against the goals."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.race.data import Pool, write
from benchmarks.race.goals import table
from benchmarks.race.plots import draw

MODULES = {"faiss": "faiss", "hnswlib": "hnswlib", "pynndescent": "pynndescent"}
MODULES |= {"scikit-learn": "sklearn", "knnoise": "flows", "pynndescent-compiled": "pynndescent"}


@dataclass(frozen=True)
class Case:
    """Systems that do one task on one pool, each with the recall asked of it."""

    name: str
    pool: Pool
    task: str
    k: int
    recalls: dict[str, float | None]
    """None: what knnoise, which comes first, has reached in the same round."""
    block_rows: int = 0
    """Rows that knnoise puts into a block; 0: it chooses."""


def cases(n: int) -> list[Case]:
    """All cases, the largest common pool being of n rows."""
    all_peers = {"knnoise": 0.99, "faiss": 0.98, "hnswlib": 0.98, "pynndescent": 0.98}
    one, both = {"knnoise": 0.99}, {"knnoise": 0.99, "faiss": None}
    both_98 = {"knnoise": 0.98, "faiss": 0.98}
    loose = {"knnoise": 0.95, "faiss": None}
    small, large, huge = Pool("sheets", 3 * n // 10), Pool("sheets", n, n), Pool("sheets", 3 * n)
    wide = 3 * n // 20
    whole = {"knnoise": 0.99, "faiss": 0.99, "pynndescent": 0.99, "pynndescent-compiled": 0.99}
    loose_too = {"knnoise": 0.95, "faiss": 0.95, "pynndescent-compiled": 0.95}
    surface = Pool("connected-64-10", n, n)
    return [
        Case("connected", surface, "graph", 30, whole),
        Case("connected-32", Pool("connected-32-6", n), "graph", 30, whole),
        Case("connected-128", Pool("connected-128-14", 2 * n // 5), "graph", 30, whole),
        Case("clusters", Pool("clusters-48-7", n), "graph", 30, whole),
        Case("tails", Pool("tails-64-8", n // 2), "graph", 30, whole),
        Case("gauss-24", Pool("gauss-24", 3 * n // 10), "graph", 30, loose_too),
        Case("connected-200k", Pool("connected-64-10", n // 5), "graph", 30, both_98),
        *(
            Case(f"connected-{least}", surface, "graph", 30, dict.fromkeys(all_peers, least))
            for least in (0.9, 0.95, 0.98)
        ),
        Case("connected-queries", surface, "queries", 30, both),
        Case("connected-50k", Pool("connected-64-10", n // 20), "graph", 30, both_98),
        Case("graph", large, "graph", 30, all_peers),
        Case("graph-100k", Pool("sheets", n // 10), "graph", 30, {**all_peers, "scikit-learn": 1}),
        Case("graph-300k", small, "graph", 30, dict.fromkeys(all_peers, 0.99)),
        Case("graph-3M", huge, "graph", 30, both),
        Case("same-blocks-300k", small, "graph", 30, one, wide),
        Case("same-blocks-1M", large, "graph", 30, one, wide),
        Case("same-blocks-3M", huge, "graph", 30, one, wide),
        *(
            Case(f"recall-{least}", small, "graph", 30, dict.fromkeys(all_peers, least))
            for least in (0.9, 0.95, 0.999)
        ),
        Case("graph-k100", large, "graph", 100, one),
        Case("queries", large, "queries", 30, both),
        Case("gauss", Pool("gauss-32", 3 * n // 10), "graph", 30, loose),
        Case("fashion", Pool("fashion", min(n, 60_000)), "graph", 30, loose),
        Case("demo", Pool("sheets", 2000), "demo", 0, one),
        Case("csv", Pool("sheets", 2000), "csv", 0, one),
    ]


def measured(case: Case, system: str, folder: Path, recall: float) -> dict[str, Any]:
    """One run of one system, in a process of its own."""
    with tempfile.TemporaryDirectory() as work:
        out = f"{work}/told.json"
        what = [system, case.task, folder, case.k, recall, case.block_rows, out]
        command = [sys.executable, "-m", "benchmarks.race.systems", *map(str, what)]
        subprocess.run(command, check=True)
        told: dict[str, Any] = json.loads(Path(out).read_text())
    return {"case": case.name, "system": system, "n": case.pool.n, "k": case.k, **told}


def race(
    races: list[Case], rounds: int, results: Path, data: Path | None
) -> Iterator[dict[str, Any]]:
    """Measurements as they come; those of an earlier, unfinished race are not made again."""
    log = results / "measured.jsonl"
    old = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    done = {(told["case"], told["system"], told["round"]): told for told in old}
    yield from old
    for number in range(rounds):
        for case in races:
            for system in case.recalls:
                if (case.name, system, number) in done:
                    continue
                if importlib.util.find_spec(MODULES[system]) is None:
                    print(f"{case.name}: {system} is not installed: left out", flush=True)
                    continue
                try:
                    folder = write(case.pool, results, data)
                except FileNotFoundError as missing:
                    print(f"{case.name}: {missing}: left out", flush=True)
                    break
                wanted = case.recalls[system]
                if wanted is None:
                    wanted = done[case.name, "knnoise", number]["recall"]
                told = {"round": number, **measured(case, system, folder, wanted)}
                done[case.name, system, number] = told
                with log.open("a") as file:
                    file.write(json.dumps(told) + "\n")
                yield told


def line(told: dict[str, Any]) -> str:
    per_row = 1e6 * told["core_seconds"] / told["n"]
    return (
        f"{told['round']} {told['case']:<12} {told['system']:<12} n {told['n']:>9,} "
        f"k {told['k']:<3} {told['seconds']:8.1f} s  {per_row:6.1f} µs·core/row  "
        f"recall {told['recall']:.4f}  {told['peak_mb']:6.0f} MB"
    )


def ratios(found: list[dict[str, Any]]) -> Iterator[str]:
    """knnoise's time over each peer's, of the same round: least, median, greatest."""
    ours = {(t["case"], t["round"]): t["seconds"] for t in found if t["system"] == "knnoise"}
    pairs: dict[tuple[str, str], list[float]] = {}
    for told in found:
        mine = ours.get((told["case"], told["round"]))
        if told["system"] != "knnoise" and mine is not None:
            pairs.setdefault((told["case"], told["system"]), []).append(mine / told["seconds"])
    for (case, system), values in pairs.items():
        yield (
            f"{case:<12} knnoise / {system:<12} {min(values):.2f} {median(values):.2f} "
            f"{max(values):.2f}  ({len(values)} rounds)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="pools a tenth as large")
    parser.add_argument("--rows", type=int, help="rows of the large pool (1,000,000)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cores", type=int, default=2, help="of this machine, for all (2)")
    parser.add_argument("--only", nargs="*", metavar="CASE")
    parser.add_argument("--results", type=Path, default=Path("race"))
    parser.add_argument("--data", type=Path, help="folder with fashion_mnist.npz")
    args = parser.parse_args()
    args.results.mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])
    wanted = cases(args.rows or (100_000 if args.quick else 1_000_000))
    wanted = [case for case in wanted if not args.only or case.name in args.only]
    found = []
    for told in race(wanted, args.rounds, args.results, args.data):
        print(line(told), flush=True)
        found.append(told)
    print(*ratios(found), sep="\n")
    print(table(found))
    draw(found, args.results)


if __name__ == "__main__":
    main()
