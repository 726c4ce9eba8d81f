"""One measurement in a process of its own: a training, or one check of Datalab.

    python -m benchmarks.datalab.alone ours POOL.npz RUN K
    python -m benchmarks.datalab.alone CHECK LISTS.npz OUT.npz K

The last line printed is JSON: seconds, and the most memory the process has had.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

STEPS = ("checks", "checked", "data-issues")
"""The steps of a training that do what Datalab does."""
LIMIT_GB = 10
"""Address space of a check of Datalab; beyond, it ends with MemoryError instead of the machine."""


def peak_mb() -> float:
    """Most memory resident at a time since this program was started, MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def ours(pool: str, run: str, k: int) -> dict[str, Any]:
    """Train; the seconds of the checks, and of everything."""
    from flows.train import train

    start = time.perf_counter()
    report = train.fn(pool, run, k=k, workers=0, quiet=True)
    whole = time.perf_counter() - start
    return {"seconds": sum(report["seconds"][step] for step in STEPS), "whole": whole}


def theirs(check: str, lists: str, out: str, k: int) -> dict[str, Any]:
    """One check of Datalab on a graph that is given."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from cleanlab import Datalab
    from scipy.sparse import csr_matrix

    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_GB << 30, LIMIT_GB << 30))
    with np.load(lists) as file:
        neighbor, distance, y = file["neighbor"], file["distance"], file["y"]
    ends = np.arange(0, neighbor.size + 1, neighbor.shape[1])
    n = len(y)
    graph = csr_matrix((distance.ravel().astype(np.float64), neighbor.ravel(), ends), (n, n))
    lab = Datalab({"y": y}, label_name="y", verbosity=0)
    start = time.perf_counter()
    try:
        lab.find_issues(knn_graph=graph, issue_types={check: {"k": k}})
        found = lab.get_issues(check)
    except (MemoryError, ValueError) as error:  # ValueError: a check that failed has no issues
        return {"error": str(error)}
    seconds = time.perf_counter() - start
    issue, score = (found[name].to_numpy() for name in (f"is_{check}_issue", f"{check}_score"))
    np.savez(out, issue=issue, score=score)
    p = lab.get_info(check).get("p-value")
    return {"seconds": seconds, "p": None if p is None else float(p)}


if __name__ == "__main__":
    what, source, target, k = sys.argv[1:]
    measure = partial(theirs, what) if what != "ours" else ours
    told = measure(source, target, int(k))
    print(json.dumps({**told, "peak_mb": peak_mb()}))
