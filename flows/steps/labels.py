"""Counts → verdicts on the training labels, in source order."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from flows.job import Job, Output
from flows.steps.lists import incoming
from pipeline.blockwise import Part
from pipeline.rule import Rule
from pipeline.threshold import is_label_issue, label_quality
from storage.convert import write_parquet
from storage.errors import StorageError
from storage.exchange import Exchange
from storage.ledger import Record
from storage.pool import ChunkWriter, Pool
from storage.run import Run

COLUMNS = ("row", "given_label", "predicted_label", "label_quality", "is_label_issue", "eta_corr")


def find_label_issues(
    job: Job, pool: Pool, counted: list[Record], rates: dict[str, Any]
) -> dict[str, Any]:
    """Write the group `labels` and `label_issues.parquet`; the step's result."""
    n_parts = len(pool.parts())
    slices = incoming(counted, n_parts)
    ChunkWriter(job.run, "labels", pool.part_rows, pool.n_rows)
    rule, k = Rule(**rates["decision_rule"]), rates["k"]
    at = rates["k_curve"]["grid"].index(k)
    common = {"pool": pool, "k": k, "at": at, "rule": rule}
    judged = job.parts(
        "labels",
        label_part,
        [
            Part(f"rows-{i:06d}", {**common, "number": i, "rows": rows, "slices": slices[i]})
            for i, rows in enumerate(pool.parts())
        ],
    )

    def finish(run: Run) -> Output:
        writer = ChunkWriter(run, "labels", pool.part_rows, pool.n_rows)
        written = writer.finish(pool.n_rows, {"k": k, **asdict(rule)})
        write_parquet(run, "labels", run.location.path("label_issues.parquet"), COLUMNS)
        n_issues = sum(record.result["issues"] for record in judged)
        return Output([*written, "label_issues.parquet"], {"n_label_issues": n_issues})

    return job.once("label-issues", finish).result


def label_part(run: Run, part: Part) -> Output:
    """Verdicts on the rows of one part of the pool, from their neighbours without themselves."""
    rows, pool, k, at, rule = (part.args[name] for name in ("rows", "pool", "k", "at", "rule"))
    columns = Exchange(run.location, "counts").receive(part.args["slices"])
    order = np.argsort(columns["row"])
    row, count = columns["row"][order], columns["count"][order, at]
    if not np.array_equal(row, np.arange(rows.start, rows.stop)):
        raise StorageError(f"rows {rows.start:,} to {rows.stop:,}: counts do not cover them")
    given = pool.read("y", rows)
    eta = count / k
    issue = is_label_issue(eta, given, rule.p0, rule.p1)
    written = ChunkWriter(run, "labels", pool.part_rows, pool.n_rows).chunk(
        part.args["number"],
        row=row,
        given_label=given,
        predicted_label=rule.predict(eta),
        label_quality=label_quality(eta, given, rule.p0, rule.p1).astype(np.float32),
        is_label_issue=issue,
        eta_corr=eta.astype(np.float32),
    )
    return Output(written, {"issues": int(issue.sum())})
