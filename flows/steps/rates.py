"""Graph → counts, noise rates and threshold."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from flows.job import Job, Output
from flows.steps.partition import Blocks, block_name
from pipeline.blockwise import Part
from pipeline.extrema import crossfit, minmax
from pipeline.rates import NoiseRates
from pipeline.regression import counts, counts_with_self, k_grid
from pipeline.threshold import Decision, tempered, vote_table
from storage.exchange import Exchange
from storage.ledger import Record
from storage.pool import Pool
from storage.run import Run
from storage.schema import read_array, write_group

MOST_NOISE = 0.98
"""Sum of the rates that posteriors are computed with at most: beyond, labels say nothing."""


def count_labels(job: Job, pool: Pool, blocks: Blocks, k: int) -> list[Record]:
    """Counts of label 1 for a grid of k, by block; those at k are sent to source order."""
    exchange = Exchange(job.run.location, "counts")
    common = {"k": k, "to": exchange, "pool": pool}
    return job.parts(
        "regression",
        regression_part,
        [Part(block_name(b), {**common, "block": b}) for b in range(len(blocks.sizes))],
    )


def regression_part(run: Run, part: Part) -> Output:
    """Counts of one block, and the extremes of Algorithm 2 (the row itself counted)."""
    k, exchange = part.args["k"], part.args["to"]
    pool: Pool = part.args["pool"]
    group = run.group(f"graph/{part.args['block']:05d}")
    row, given = read_array(group, "row"), read_array(group, "given_label")
    neighbor_label = read_array(group, "neighbor_label")
    grid = k_grid(k)
    count = counts(neighbor_label, grid)
    with_self = counts_with_self(given, neighbor_label, k)
    path = f"regression/{part.args['block']:05d}"
    attributes = {"k": list(grid)}
    write_group(run.store, path, "regression", {"row": row, "count": count}, attributes)
    columns = {"row": row, "count": np.ascontiguousarray(count[:, -1])}
    offsets = exchange.send(part.name, pool.part_of(row), len(pool.parts()), columns)
    extremes = [int(with_self.min()), int(with_self.max())] if len(row) else []
    votes = vote_table(columns["count"], given, k).tolist()
    written = [run.key(path), exchange.key(part.name)]
    return Output(written, {"offsets": offsets, "extremes": extremes, "votes": votes})


def estimate_rates(
    job: Job, pool: Pool, counted: list[Record], k: int, noise: str
) -> dict[str, Any]:
    """Both estimates, and the threshold of the one asked for; the step's result."""

    def estimate(run: Run) -> Output:
        extremes = np.concatenate([record.result["extremes"] for record in counted])
        estimates = {"minmax": minmax(extremes / k, k)}
        if noise == "crossfit":
            anchors = run.group("anchors")
            neighbor, label = (read_array(anchors, n) for n in ("neighbor", "neighbor_label"))
            estimates["crossfit"] = crossfit(neighbor, label, pool.n_rows)
        votes = np.sum([record.result["votes"] for record in counted], axis=0)
        decision = tempered(estimates[noise], votes)
        found = {name: asdict(rates) for name, rates in estimates.items()}
        return Output(
            [],
            {
                **found[noise],
                "estimates": found,
                "rule": rule(estimates[noise], decision),
                "decision": {n: _json(value) for n, value in asdict(decision).items()},
            },
        )

    return job.once("rates", estimate).result


def rule(rates: NoiseRates, decision: Decision) -> dict[str, float]:
    """The threshold, and the rates that posteriors are computed with.

    Where the threshold moves less than the rates call for, their difference is shortened with it
    and their sum kept, so that a posterior of ½ stays at the threshold.
    """
    total = min(rates.p0 + rates.p1, MOST_NOISE)
    difference = 2.0 * decision.threshold - 1.0
    half = min(abs(difference), total) / 2.0 * (1.0 if difference >= 0 else -1.0)
    return {"threshold": decision.threshold, "p0": total / 2 + half, "p1": total / 2 - half}


def _json(value: float | str) -> float | str | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value
