"""The goals, and what was measured against each."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

Found = list[dict[str, Any]]


def _of(found: Found, case: str, system: str = "knnoise") -> Found:
    return [t for t in found if (t["case"], t["system"]) == (case, system)]


def _median(found: Found, case: str, name: str, system: str = "knnoise") -> float:
    return median(told[name] for told in _of(found, case, system))


def _against(case: str, system: str) -> Callable[[Found], float]:
    """Our time over theirs, the median over rounds."""

    def ratio(found: Found) -> float:
        theirs = {told["round"]: told["seconds"] for told in _of(found, case, system)}
        ours = _of(found, case)
        return median(t["seconds"] / theirs[t["round"]] for t in ours if t["round"] in theirs)

    return ratio


def _per_row(found: Found) -> float:
    large, small = (
        _median(found, case, "graph_core_seconds") / _median(found, case, "n")
        for case in ("graph-3M", "graph-300k")
    )
    return large / small


def _overhead(found: Found) -> float:
    return _median(found, "graph", "seconds") / (_median(found, "graph", "kernel_seconds") / 2)


def _k100(found: Found) -> float:
    return _median(found, "graph-k100", "seconds") / _median(found, "graph", "seconds")


def _flat(found: Found) -> float:
    sizes = [_median(found, f"same-blocks-{n}", "worker_mb") for n in ("300k", "1M", "3M")]
    return max(sizes) / min(sizes)


def _rates(found: Found) -> float:
    rates, graph = (f"{name}_core_seconds" for name in ("rates", "graph"))
    return _median(found, "graph", rates) / _median(found, "graph", graph)


GOALS: list[tuple[str, Callable[[Found], float], float]] = [
    ("connected, 64: knnoise / pynndescent", _against("connected", "pynndescent"), 0.6),
    ("connected, 32: knnoise / pynndescent", _against("connected-32", "pynndescent"), 0.6),
    ("connected, 128: knnoise / pynndescent", _against("connected-128", "pynndescent"), 0.6),
    *(
        (f"{case}: knnoise / {system}", _against(case, system), most)
        for case, of_compiled, of_faiss in (
            ("connected", 0.65, 0.22),
            ("connected-32", 0.5, 0.5),
            ("clusters", 0.65, 0.5),
            ("tails", 0.65, 0.4),
            ("connected-128", 0.9, 0.2),
            ("gauss-24", 0.9, 0.25),
        )
        for system, most in (("pynndescent-compiled", of_compiled), ("faiss", of_faiss))
    ),
    ("connected, 200k: knnoise / faiss IVF", _against("connected-200k", "faiss"), 0.7),
    ("connected, queries: knnoise / faiss IVF", _against("connected-queries", "faiss"), 0.7),
    ("connected, 50k, s", lambda f: _median(f, "connected-50k", "seconds"), 6),
    ("graph: knnoise / faiss IVF", _against("graph", "faiss"), 0.4),
    ("graph: knnoise / hnswlib", _against("graph", "hnswlib"), 0.35),
    ("graph: knnoise / pynndescent on the whole pool", _against("graph", "pynndescent"), 0.4),
    ("core time per row of the graph, 3M / 300k", _per_row, 1.10),
    ("training: wall time / (kernel seconds / 2 workers)", _overhead, 1.25),
    ("training: k = 100 / k = 30", _k100, 2.5),
    ("largest worker, 300k to 3M rows: largest / smallest", _flat, 1.10),
    ("largest worker at 3M rows, MB", lambda f: _median(f, "graph-3M", "worker_mb"), 2048),
    ("driver at 3M rows, MB", lambda f: _median(f, "graph-3M", "driver_mb"), 1024),
    ("queries: knnoise / faiss IVF (time)", _against("queries", "faiss"), 1.0),
    ("Gaussian in 32 dimensions: knnoise / faiss IVF", _against("gauss", "faiss"), 0.45),
    ("Fashion-MNIST: knnoise / faiss IVF", _against("fashion", "faiss"), 0.8),
    ("make demo after installation, s", lambda f: _median(f, "demo", "seconds"), 60),
    ("2,000 rows of CSV, second run, s", lambda f: _median(f, "csv", "seconds"), 3),
    ("rates and diagnostics / graph, core time", _rates, 0.10),
]
"""What, how it is measured, and the most it may be."""


def table(found: Found) -> str:
    """Markdown; a goal whose runs are missing says so."""
    lines = ["| goal | at most | measured | met |", "|---|---|---|---|"]
    for name, measure, most in GOALS:
        try:
            value = measure(found)
        except (ValueError, KeyError):  # nothing to average
            lines.append(f"| {name} | {most:g} | not run | |")
            continue
        lines.append(f"| {name} | {most:g} | {value:.3g} | {'yes' if value <= most else 'NO'} |")
    return "\n".join(lines)
