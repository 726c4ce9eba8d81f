"""A pool with the rows of another and features made of that one's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from flows.engine.job import Job, Output
from flows.engine.parts import Part, by_rows
from flows.engine.results import as_json
from flows.steps.ingest.columns import WORDS
from flows.steps.ingest.pool import SAMPLES, Ingested
from pipeline.arrays import Float32, Int64
from pipeline.blocks.scaling import Scaling
from storage.arrays.groups import read_array, read_group, write_group
from storage.runs.ledger import Record
from storage.runs.pool import ChunkWriter, Pool, Rows, pool_chunk_rows
from storage.runs.run import Run

_OPTIONAL = ("id", "candidates")


class FeatureChange(Protocol):
    """What the features of one part of a pool become; a small value, as a part is."""

    def features(self, rows: Rows) -> Float32:
        """(row, feature) float32 features of these rows."""
        ...


def derive(
    job: Job, read: Ingested, of: Pool, changes: Sequence[FeatureChange], *, whole: bool = False
) -> Ingested:
    """Write the group of the same name as that of the pool `of`, and its samples; what it is.

    changes : one for each part of the old pool
    read : what is known of the rows; the features made are not to be scaled any more
    whole : whether ids and candidates are taken along
    """
    parts = by_rows(zip(of.parts(), changes, strict=True))
    writer = _writer(job.run, of, whole)
    written: list[Record] = []

    def finish(run: Run) -> Output:
        about: dict[str, Any] = of.run.group(of.path).attrs.asdict()
        result = replace(read, scaling=Scaling())
        keys = writer.finish(of.n_rows, {**about, **as_json(result)})
        return Output([*keys, *_samples(run, of, [part.part for part in written])], result)

    def make(job: Job) -> Ingested:
        written.extend(job.parts(f"derive-{of.path}", partial(derive_part, of=of), parts))
        return job.result(of.path, finish, Ingested)

    return job.task("derive", make)


def _writer(run: Run, of: Pool, whole: bool) -> ChunkWriter:
    """Of the new group; its chunks are those of the old one."""
    there = set(of.run.group(of.path).array_keys()) if whole else set()
    rows, optional = pool_chunk_rows(of.n_features), [n for n in _OPTIONAL if n in there]
    n_features = of.n_features
    return ChunkWriter(
        run, of.path, rows, of.n_rows, optional=optional, feature=n_features, word=WORDS
    )


def derive_part(run: Run, part: Part[tuple[Rows, FeatureChange]], of: Pool) -> Output:
    """Write the chunks of some rows, and those of the rows that are in a sample."""
    rows, change = part.args
    new = run.group(of.path)
    names = [name for name in sorted(new.array_keys()) if name != "x"]
    writer = _writer(run, of, any(name in new for name in _OPTIONAL))
    columns = {name: of.read(name, rows) for name in names}
    columns["x"] = change.features(rows)
    written = []
    for start in range(0, rows.stop - rows.start, writer.rows):
        some = {name: column[start : start + writer.rows] for name, column in columns.items()}
        written += writer.chunk((rows.start + start) // writer.rows, **some)
    drawn = _sampled(of.run, rows)
    path = f"sampled/{part.name}"
    sample = {"row": drawn, "x": columns["x"][drawn - rows.start]}
    write_group(run.scratch, path, "sample", sample)
    return Output([*written, f"scratch.zarr/{path}"])


def _sampled(run: Run, rows: Rows) -> Int64:
    """The rows, ascending, that are in a sample of the old pool."""
    row = np.unique(
        np.concatenate([read_array(run.group(f"samples/{name}"), "row") for name in SAMPLES])
    )
    return row[(row >= rows.start) & (row < rows.stop)]


def _samples(run: Run, of: Pool, parts: Sequence[str]) -> list[str]:
    """Write the samples of the old pool with the new features; keys of what was written."""
    pieces = [read_group(run.scratch, f"sampled/{part}") for part in parts]
    known = np.concatenate([part["row"] for part in pieces])
    x = np.concatenate([part["x"] for part in pieces])
    written = []
    for name in SAMPLES:
        row = read_array(of.run.group(f"samples/{name}"), "row")
        sample = {"x": x[np.searchsorted(known, row)], "row": row}
        write_group(run.store, f"samples/{name}", "sample", sample)
        written.append(run.key(f"samples/{name}"))
    return written
