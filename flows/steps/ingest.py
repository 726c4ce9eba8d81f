"""Source → pool, streamed. In this process: the source may be readable from here alone, and the
workers are starting meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.job import Job, Output, execute
from pipeline.blockwise import Part
from pipeline.sampling import RowSample
from pipeline.scale import FeatureStatistics
from storage.errors import InputError
from storage.groups import write_group
from storage.ledger import Record
from storage.pool import ChunkWriter, Pool, pool_chunk_rows
from storage.run import Run
from storage.sources import Chunk, FiniteCheck, LabelCodes, Source

SAMPLE_ROWS = 1 << 17
"""Rows to a sample, where `SAMPLE_BYTES` allows."""
SAMPLE_BYTES = 64 << 20
MAX_MAGNITUDE = 1e15
"""Squares of differences of larger features leave float32."""

SAMPLES = {"partition": 1, "anchors": 2}
"""Hash streams of the samples drawn meanwhile; both are in order of hash, features unscaled."""


@dataclass
class _Pass:
    """What one pass over the source collects; of the pool's size only a byte a row."""

    source: Source
    seed: int

    def __post_init__(self) -> None:
        n_features = len(self.source.feature_names)
        size = min(SAMPLE_ROWS, SAMPLE_BYTES // (4 * n_features))
        self.finite = FiniteCheck(self.source.feature_names, self.source.files)
        name = self.source.label_name
        self.codes = None if name is None else LabelCodes(where=f"labels {name!r}")
        self.statistics = FeatureStatistics(n_features)
        self.samples = {
            name: RowSample(size, self.seed, stream) for name, stream in SAMPLES.items()
        }
        self.labels: list[npt.NDArray[np.int8]] = []
        self.n_rows = 0

    def see(self, chunk: Chunk) -> None:
        self.n_rows += len(chunk.x)
        self.finite.see(chunk)
        if self.codes is not None and chunk.label is not None:
            self.labels.append(self.codes.encode(chunk.label, chunk.start))
        if self.finite.count:
            return
        self.statistics.see(chunk.x)
        for sample in self.samples.values():
            sample.see(chunk.start, chunk.x)

    def check(self, scale: str) -> None:
        self.finite.raise_if_any()
        if (self.statistics.low == self.statistics.high).all():
            raise InputError("every feature is constant: there is nothing to learn from")
        largest = np.maximum(np.abs(self.statistics.low), np.abs(self.statistics.high))
        if scale == "none" and largest.max() > MAX_MAGNITUDE:
            name = self.source.feature_names[int(largest.argmax())]
            raise InputError(
                f"column {name!r} reaches {largest.max():g}, beyond what distances can hold; "
                "use --scale range or standard"
            )

    def y(self) -> tuple[npt.NDArray[np.int8], list[Any]]:
        assert self.codes is not None
        values, remap = self.codes.finish()
        return remap[np.concatenate(self.labels)], list(values)


def ingest(job: Job, source: Source, *, path: str, scale: str, seed: int) -> dict[str, Any]:
    """Stream a source into the group `path` (`pool` or `queries`).

    Chunks committed by an earlier, interrupted run are read again but not written again.

    Returns
    -------
    the step's result: n_rows, n_features, feature_names, label_values, statistics, …

    Raises
    ------
    InputError
        labels are not of two values, or features are not finite.
    """

    def finish(run: Run) -> Output:
        n_features = len(source.feature_names)
        writer = ChunkWriter(run, path, pool_chunk_rows(n_features), feature=n_features)
        seen = _Pass(source, seed)
        total = None if source.n_rows is None else -(-source.n_rows // writer.rows)
        with job.reporter.step("ingest", total, "chunks") as tick:
            for record in _written(run, f"ingest-{path}", _parts(seen, writer)):
                tick(record=record)
        seen.check(scale)
        return _finish(run, writer, seen, scale)

    _forget_incomplete(job, path)
    return job.once(path, finish, shown=False).result


def _forget_incomplete(job: Job, path: str) -> None:
    """A pool some of whose chunks were damaged is streamed again, as far as they go."""
    ledger = job.run.ledger
    done = ledger.get(path, "all")
    if done is not None and len(ledger.records(f"ingest-{path}")) < done.result["n_chunks"]:
        job.damaged[path, "all"] = done
        ledger.forget(path, "all")


@dataclass(frozen=True)
class _Write:
    """The part that writes one chunk."""

    writer: ChunkWriter
    number: int
    chunk: Chunk

    def execute(self, run: Run, step: str) -> Record:
        return execute(run, step, self.do, Part(f"chunk-{self.number:06d}"))

    def do(self, run: Run, part: Part) -> Output:
        columns: dict[str, npt.NDArray[Any]] = {
            "x": self.chunk.x,
            "row": np.arange(self.chunk.start, self.chunk.start + len(self.chunk.x)),
        }
        if "source_id" in self.writer.group:
            columns["source_id"] = self.chunk.source_id
        return Output(self.writer.chunk(self.number, **columns))


def _written(run: Run, step: str, parts: Iterable[_Write | None]) -> Iterator[Record | None]:
    """Write chunks, each while the next is read and looked at."""
    with ThreadPoolExecutor(1) as writing:
        under_way: Future[Record] | None = None
        for part in parts:
            if under_way is not None:
                yield under_way.result()
            under_way = None if part is None else writing.submit(part.execute, run, step)
            if part is None:
                yield None
        if under_way is not None:
            yield under_way.result()


def _parts(seen: _Pass, writer: ChunkWriter) -> Iterator[_Write | None]:
    """The chunks to write; None for each after a bad value, when only the others are counted."""
    for number, chunk in enumerate(seen.source.chunks(writer.rows)):
        seen.see(chunk)
        yield None if seen.finite.count else _Write(writer, number, chunk)
    if seen.n_rows == 0:
        raise InputError(f"{seen.source.files[0]} holds no rows")


def _finish(run: Run, writer: ChunkWriter, seen: _Pass, scale: str) -> Output:
    source = seen.source
    result: dict[str, Any] = {
        "n_rows": seen.n_rows,
        "n_chunks": -(-seen.n_rows // writer.rows),
        "n_features": len(source.feature_names),
        "feature_names": list(source.feature_names),
        "label_name": source.label_name,
        "statistics": seen.statistics.summary(),
        "scaling": asdict(seen.statistics.scaling(scale)),
        "files": list(source.files),
    }
    columns = {}
    if seen.codes is not None:
        columns["y"], result["label_values"] = seen.y()
        result["class_counts"] = np.bincount(columns["y"], minlength=2).tolist()
    written = writer.finish(seen.n_rows, result, **columns)
    for name, sample in seen.samples.items():
        write_group(run.store, f"samples/{name}", "sample", {"x": sample.x, "row": sample.row})
        written.append(run.key(f"samples/{name}"))
    return Output(written, result)


def open_pool(run: Run, path: str, result: dict[str, Any]) -> Pool:
    """The pool that `ingest` made."""
    return Pool(run, path, result["n_rows"], result["n_features"])
