"""Graph → counts, noise rates and threshold."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from flows.config import TrainParams
from flows.job import Job, Output
from flows.steps.folds import Folds
from flows.steps.partition import Blocks, block_name
from pipeline.blockwise import Part
from pipeline.choose_k import choose, squared_losses
from pipeline.extrema import crossfit, minmax
from pipeline.rates import given as known
from pipeline.regression import counts, extremes_with_self
from pipeline.rule import rule_of
from pipeline.threshold import tempered, vote_table
from storage.exchange import Exchange
from storage.groups import read_array, write_group
from storage.ledger import Record
from storage.pool import Pool
from storage.run import Run


def count_labels(job: Job, pool: Pool, blocks: Blocks, grid: tuple[int, ...]) -> list[Record]:
    """Counts of label 1 for each k of a grid; sent to source order."""
    exchange = Exchange(job.run.location, "counts")
    common = {"grid": grid, "to": exchange, "pool": pool}
    return job.parts(
        "regression",
        regression_part,
        [Part(block_name(b), {**common, "block": b}) for b in range(len(blocks.sizes))],
    )


def regression_part(run: Run, part: Part) -> Output:
    """Counts of one block, and for each k of the grid what choosing among them takes."""
    grid, exchange, pool = (part.args[name] for name in ("grid", "to", "pool"))
    group = run.group(f"graph/{part.args['block']:05d}")
    row, given = read_array(group, "row"), read_array(group, "given_label")
    neighbor_label = read_array(group, "neighbor_label")
    count = counts(neighbor_label, grid)
    path = f"regression/{part.args['block']:05d}"
    attributes = {"k": list(grid)}
    write_group(run.store, path, "regression", {"row": row, "count": count}, attributes)
    columns = {"row": row, "count": count.astype(np.int16)}
    sent = exchange.send(part.name, pool.part_of(row), len(pool.parts()), columns)
    return Output(
        [run.key(path), exchange.key(part.name)],
        {
            "sent": sent,
            "rows": len(row),
            "losses": squared_losses(count, given, grid).tolist(),
            "extremes": extremes_with_self(given, neighbor_label, grid).tolist(),
            "votes": [vote_table(c, given, k).tolist() for c, k in zip(count.T, grid, strict=True)],
        },
    )


def estimate_rates(
    job: Job,
    pool: Pool,
    counted: list[Record],
    grid: tuple[int, ...],
    params: TrainParams,
    folds: Folds | None = None,
) -> dict[str, Any]:
    """k, the estimates of the rates, and the rule; the step's result.

    folds : what RkNN's cross-validation chose, where that is the rule
    """
    filled = [record.result for record in counted if record.result["rows"]]

    def estimate(run: Run) -> Output:
        losses = np.sum([result["losses"] for result in filled], axis=0)
        choice = choose(losses, pool.n_rows, grid)
        k = folds.chosen.k if folds else params.k or choice.k
        at = grid.index(k)
        extremes = np.concatenate([np.asarray(result["extremes"])[:, at] for result in filled])
        estimates = {"minmax": minmax(extremes / k, k)}
        chosen = params.noise
        if params.p0 is not None and params.p1 is not None:
            chosen, estimates["given"] = "given", known(params.p0, params.p1)
        elif chosen == "crossfit":
            anchors = run.group("anchors")
            neighbor, label = (read_array(anchors, n) for n in ("neighbor", "neighbor_label"))
            estimates["crossfit"] = crossfit(neighbor, label, pool.n_rows)
        if folds:
            chosen, estimates["rknn"] = "rknn", folds.rates
        rates = estimates[chosen]
        decision = tempered(rates, np.sum([result["votes"][at] for result in filled], axis=0))
        found = {name: asdict(rates) for name, rates in estimates.items()}
        return Output(
            [],
            {
                **found[chosen],
                "noise": chosen,
                "k_noise": found[chosen]["k"],
                "k": k,
                "k_curve": asdict(choice),
                "estimates": found,
                "folds": folds and folds.told(grid),
                "decision_rule": asdict(rule_of(rates, decision)),
                "decision": {n: _json(value) for n, value in asdict(decision).items()},
            },
        )

    return job.once("rates", estimate).result


def _json(value: float | str) -> float | str | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value
