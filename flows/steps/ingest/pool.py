"""Source → pool, streamed: chunks are read by the workers where the source can be divided and is
large, else by this process, while the workers are starting. The pool has the same bits."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from flows.engine.deadline import Deadline
from flows.engine.job import Job, Output, execute
from flows.engine.parts import Part, rows_name
from flows.engine.results import LabelValue, as_json, result_of
from flows.steps.graph.lookup import CORRECTIONS
from flows.steps.ingest.columns import WORDS, FiniteCheck, GroupCodes, SingleCodes, Unlabeled
from flows.steps.ingest.transform import keep_projection
from pipeline.arrays import Bools, Float32, Int64, Integers
from pipeline.blocks.metric import EMBEDDING
from pipeline.blocks.projection import Covariance
from pipeline.blocks.sampling import MOST_ANCHORS, RowSample
from pipeline.blocks.scaling import SPREAD_ROWS, FeatureStatistics, Scaling, spreads
from pipeline.streams import Stream
from storage.arrays.groups import Arrays
from storage.errors import InputError, KnnoiseError, StepTimeoutError, StorageError, amount
from storage.runs.ledger import Record
from storage.runs.pool import ChunkWriter, Pool, pool_chunk_rows
from storage.runs.run import Run
from storage.sources.base import Source, unchanged
from storage.sources.blocks import Chunk, Corrections, Votes
from storage.sources.formats.csv import counted
from storage.sources.request import Gaps, is_place
from storage.sources.values.texts import are_whole

SAMPLE_ROWS = 1 << 17
SAMPLE_BYTES = 64 << 20
_AT_ONCE = 2
"""Chunks written at once."""
READ_BYTES = 64 << 20
"""About how many bytes of features a worker reads at a time."""
TEXT_BYTES = 32 << 20
"""The same of features that are text: they take longer."""
FEWEST_READS = 8
"""Reads of so many bytes that this process does while workers start: of fewer they read nothing."""
FEWEST_TEXTS = 48
"""The same for text, whose single reader has threads of its own: workers are faster from 1.5 GB."""
MAX_MAGNITUDE = 1e15
"""Squares of differences of larger features leave float32."""

SAMPLES = {
    "partition": (Stream.PARTITION, SAMPLE_ROWS),
    "anchors": (Stream.ANCHORS, MOST_ANCHORS),
}
"""Hash stream of each sample drawn meanwhile, and its rows where `SAMPLE_BYTES` allows; both are in
order of hash, features unscaled."""


def embedded(source: Source) -> Bools:
    """(feature,) which features are parts of an embedding: places of a column of lists, and all of
    an array of `EMBEDDING` features or more."""
    names, content = source.feature_names, source.format.content
    if content == "arrays":
        return np.full(len(names), len(names) >= EMBEDDING)
    return np.array([content == "tables" and is_place(name) for name in names], np.bool_)


@dataclass(frozen=True)
class CorrectionsUsed:
    file: str
    n_rows: int
    n_changed: int
    """Rows whose given label was another."""
    n_conflicts: int
    """Rows left out, as reviewers disagree."""


@dataclass(frozen=True)
class Ingested:
    """What one pass over a source found."""

    n_rows: int
    n_chunks: int
    n_features: int
    feature_names: list[str]
    label_name: str | None
    statistics: dict[str, list[float]]
    scaling: Scaling
    files: list[str]
    label_values: list[LabelValue] | None = None
    """The given label of each code; None for a source without labels."""
    class_counts: list[int] | None = None
    scale: str = "none"
    scale_reason: str = ""
    n_filled: int = 0
    n_dropped: int = 0
    n_unlabeled: int = 0
    n_repeated: int = 0
    """Lines that give the features of a row again."""
    unseen: dict[str, int] = field(default_factory=dict)
    """Rows without a value that has a feature, by encoded column."""
    id_name: str | None = None
    id_whole: bool = False
    """Whether all ids are whole numbers."""

    @property
    def left_out(self) -> int:
        """Lines of the source that are no rows of the pool."""
        return self.n_dropped + self.n_unlabeled + self.n_repeated

    def pool(self, run: Run, path: str) -> Pool:
        return Pool(run, path, self.n_rows, self.n_features)


@dataclass
class _Reading:
    """What one pass over the source collects, or over some of its chunks; of the pool's size only a
    byte a row."""

    source: Source
    seed: int
    kind: type[Unlabeled] = SingleCodes
    """Of labels, where it has any."""
    pca: int | None = None
    classes: Sequence[LabelValue] | None = None
    """The only candidates there may be; None for any."""
    n_rows_in_all: int | None = None
    """Rows of the source, where they are known: samples keep few others than theirs."""

    def __post_init__(self) -> None:
        n_features = len(self.source.feature_names)
        most = SAMPLE_BYTES // (4 * n_features)
        self.finite = FiniteCheck(self.source.feature_names, self.source.files)
        kind = Unlabeled if self.source.label_name is None else self.kind
        self.labels = kind(self.source, self.classes)
        self.statistics = FeatureStatistics(n_features)
        self.covariance = None if self.pca is None else Covariance(n_features)
        self.samples = {
            name: RowSample(min(size, most), self.seed, stream, self.n_rows_in_all)
            for name, (stream, size) in SAMPLES.items()
        }
        self.gaps = Gaps()
        self.groups = self.source.coding.groups(self.source.feature_names)
        self.unseen = dict.fromkeys(self.groups, 0)
        self.id_whole = self.source.beside.id is not None
        by = self.source.beside.group
        self.of_group = None if by is None else GroupCodes(by)
        self.n_rows = 0
        self.certain: list[Int64] = []
        """(2, row) places among the corrections, and among the rows that were kept."""

    def see(self, chunk: Chunk) -> None:
        if self.source.corrections is not None:
            wanted, rows = self.source.corrections.row, chunk.rows
            at = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1)
            which = np.flatnonzero(rows[at] == wanted)
            self.certain.append(np.stack([which, self.n_rows + at[which]]))
        self.n_rows += len(chunk.x)
        self.finite.see(chunk)
        self.id_whole = self.id_whole and chunk.id is not None and are_whole(chunk.id)
        for column, places in self.groups.items():
            self.unseen[column] += int((chunk.x[:, places].sum(axis=1) == 0).sum())
        self.labels.see(chunk)
        if self.finite.count:
            return
        self.statistics.see(chunk.x)
        if self.covariance is not None:
            self.covariance.see(chunk.x)
        for sample in self.samples.values():
            sample.see(chunk.start, chunk.x)

    def merge(self, after: _Reading) -> None:
        """Take what another pass saw of the chunk that follows."""
        self.certain += [np.stack([which, row + self.n_rows]) for which, row in after.certain]
        self.n_rows += after.n_rows
        self.gaps.until = self.n_rows
        self.id_whole = self.id_whole and after.id_whole
        for column, count in after.unseen.items():
            self.unseen[column] += count
        self.labels.merge(after.labels)
        self.statistics.merge(after.statistics)
        for name, sample in self.samples.items():
            sample.merge(after.samples[name])

    @property
    def whole(self) -> bool:
        """Whether nothing is missing of a source whose chunks were read apart."""
        sampled = (
            len(sample.row) == min(sample.size, self.n_rows) for sample in self.samples.values()
        )
        return self.n_rows == self.source.n_rows and all(sampled)

    def why_empty(self) -> str:
        if self.gaps.dropped:
            rows = amount(self.gaps.dropped, "row")
            return f"has a gap in each of its {rows}; fill some, or train with --impute median"
        if self.gaps.other:
            return f"has no label in any of its {amount(self.gaps.other, 'row')}"
        return "holds no rows"

    def coded(self, chunk: Chunk) -> Chunk:
        """A chunk with codes in place of its groups, if it has any, and of its labels what is
        written."""
        chunk = self.labels.coded(chunk)
        if self.of_group is None or chunk.group is None:
            return chunk
        return chunk._replace(group=self.of_group.encode(chunk.group, chunk.start))

    def chosen(self, scale: str) -> tuple[str, str]:
        """The scaling, and why it is this one."""
        if scale != "auto":
            return scale, "as asked"
        parts = embedded(self.source)
        plain = np.flatnonzero(~parts)
        if not len(plain):
            return "none", "auto: an embedding stays as it is"
        names = [self.source.feature_names[column] for column in plain]
        wide = spreads(self.samples["partition"].x[:SPREAD_ROWS, plain])
        if self.largest().max() > MAX_MAGNITUDE:
            return "standard", f"auto: some columns reach {self.largest().max():g}"
        if not wide.apart:
            return "none", "auto: the columns are on one scale"
        kept = ", embeddings stay as they are" if parts.any() else ""
        return "standard", f"auto: {wide.described(names)}{kept}"

    def largest(self, scaling: Scaling | None = None) -> Float32:
        """(feature,) largest magnitude, scaled if asked for."""
        ends = np.stack([self.statistics.low, self.statistics.high]).astype(np.float32)
        with np.errstate(over="ignore"):
            return np.asarray(np.abs(ends if scaling is None else scaling.apply(ends)).max(axis=0))

    def check(self, scale: str, trained: Scaling | None, gaps: str) -> None:
        """Refuse rows that cannot be learned from, or compared with those of the training whose
        queries they are, by its scaling; `gaps` is what can be done about these."""
        self.finite.raise_if_any(gaps)
        remedy = "use --scale range or standard"
        if trained is not None:
            remedy = "as scaled in training; mend or leave out such rows"
        elif (self.statistics.low == self.statistics.high).all():
            raise InputError("every feature is constant: there is nothing to learn from")
        largest = self.largest(trained)
        if scale == "none" and largest.max() > MAX_MAGNITUDE:
            name = self.source.feature_names[int(largest.argmax())]
            raise InputError(
                f"column {name!r} reaches {largest.max():g}, beyond what distances can hold; "
                f"{remedy}"
            )


def ingest(
    job: Job,
    source: Source,
    *,
    path: str,
    scale: str,
    seed: int,
    labels: type[Unlabeled] = SingleCodes,
    pca: int | None = None,
    classes: Sequence[LabelValue] | None = None,
    trained: Scaling | None = None,
    gaps: str = "",
) -> Ingested:
    """Stream a source, whose `labels` are of a kind, into the group `path`: `pool`, or `queries` to
    a training that scaled its features as `trained` says.

    A pass that was interrupted begins anew. Of a finished pool, chunks that were found damaged are
    made again, and nothing else. With `pca`, the principal components of the rows are learned on
    the way and kept beside. Candidates of queries are among the `classes`. `gaps` are the words for
    what the caller can do about gaps.

    Raises `InputError` where labels are of one class or too many, or features are not finite.
    """

    step, damaged = f"ingest-{path}", job.damaged.get((path, "all"))
    files = list(source.files)
    if damaged is not None:  # they may have moved since
        files = result_of(damaged, Ingested).files

    def finish(run: Run) -> Output:
        rows = pool_chunk_rows(len(source.feature_names))
        total = None if source.n_rows is None else -(-source.n_rows // rows)
        if damaged is None:  # all chunks are of one pass, in which the source does not change
            run.ledger.forget_all(step)
        with (
            unchanged(run.config()["source"], source),
            job.reporter.step("ingest", total, "chunks") as tick,
        ):
            reading = None
            if damaged is None and pca is None and source.divides:
                reading = _read_apart(job, source, path, seed, tick)
            if reading is not None:
                writer = _writer(run, path, reading, reading.source.n_rows)
            else:
                in_all = None if source.leaves_out else source.n_rows
                reading = _Reading(source, seed, labels, pca, classes, in_all)
                writer = _writer(run, path, reading, None)
                for record in _written(run, step, _parts(reading, writer)):
                    tick(record=record)
            reading.check(scale, trained, gaps)
            if source.annotations is not None:
                source.annotations.check(reading.gaps.until)
        return _finish(run, writer, reading, scale, files)

    ingested = job.result(path, finish, Ingested, shown=False)
    with Deadline(f"ingest-{path}", job.step_timeout).interrupting("chunks"):
        _repair(job, path, ingested, _Reading(source, seed, labels, classes=classes))
    return ingested


class _Read(NamedTuple):
    """What came of some chunks that one worker read."""

    passes: list[_Reading]
    """Over a chunk each: sums depend on what was one chunk, and not on who read how many."""
    records: list[Record]


def _read_apart(job: Job, source: Source, path: str, seed: int, tick: Any) -> _Reading | None:
    """The pass over a source whose chunks are read and written by the workers.

    None, and nothing is kept, where there is little to read, a worker cannot read it, or it cannot
    be learned from: then one reader goes through all of it, and says what is wrong.
    """
    n_features = len(source.feature_names)
    rows = pool_chunk_rows(n_features)
    text = source.format.content == "texts"
    if text and source.n_bytes >= FEWEST_TEXTS * TEXT_BYTES and job.n_workers() > 1:
        source = counted(source)
    n_chunks = -(-(source.n_rows or 0) // rows)
    size = max(1, (TEXT_BYTES if text else READ_BYTES) // (4 * n_features * rows))
    if n_chunks < FEWEST_READS * size or job.n_workers() < 2:  # one has threads that decode
        return None
    step = f"ingest-{path}"
    firsts = range(0, n_chunks, size)
    parts = [Part(rows_name(first), range(first, min(first + size, n_chunks))) for first in firsts]
    reading = _Reading(source, seed)
    _writer(job.run, path, reading, source.n_rows)  # who finds it there opens it
    reads: dict[int, _Read | None] = {}
    do = partial(_read, job.run, path, source, seed, _ends(source))
    for first, read in job.each("ingest", do, parts):
        reads[first] = read
        for record in () if read is None else read.records:
            tick(record=record)
    try:
        for first in firsts:
            read = reads.pop(first)
            if read is None:
                raise InputError("not read")
            for chunk in read.passes:
                reading.merge(chunk)
        if reading.whole:
            return reading
    except InputError:
        pass
    job.run.ledger.forget_all(step)
    return None


def _writer(run: Run, path: str, reading: _Reading, n_rows: int | None) -> ChunkWriter:
    """The writer of a pool, whose rows may have been counted before they are read."""
    source = reading.source
    n_features = len(source.feature_names)
    rows, named = pool_chunk_rows(n_features), source.beside._asdict()
    optional = [column for column, name in named.items() if name is not None]
    optional += reading.labels.optional
    return ChunkWriter(run, path, rows, n_rows, optional=optional, feature=n_features, word=WORDS)


def _ends(source: Source) -> list[dict[str, Any]]:
    """What its first and last file look like from here."""
    return [file.describe(with_digest=False) for file in (source.parts[0], source.parts[-1])]


def _read(
    run: Run, path: str, source: Source, seed: int, ends: list[Any], part: Part[range]
) -> tuple[int, _Read | None]:
    """Read and write some chunks; None where they cannot be read, or are not the driver's."""
    passes: list[_Reading] = []
    chunks, first = part.args, part.args.start

    def write_parts(there: Iterable[Chunk], writer: ChunkWriter) -> Iterator[_Write]:
        for number, chunk in zip(chunks, there, strict=False):
            passes.append(_Reading(source, seed, n_rows_in_all=source.n_rows))
            passes[-1].see(chunk)
            passes[-1].finite.raise_if_any()
            yield _Write(writer, number, passes[-1].coded(chunk), None)

    try:
        if _ends(source) != ends:
            return first, None
        writer = _writer(run, path, _Reading(source, seed), source.n_rows)
        writes = write_parts(source.chunks(writer.rows, first), writer)
        written = [record for record in _written(run, f"ingest-{path}", writes) if record]
        return first, _Read(passes, written)
    except KnnoiseError:
        return first, None


def ingested(run: Run) -> Ingested:
    """What was written of the pool of a finished training.

    Raises `StorageError` where its record is gone.
    """
    record = run.ledger.get("pool", "all")
    if record is None:
        raise StorageError(f"{run.location.url}: the record of its pool is gone; train again")
    return result_of(record, Ingested)


def _repair(job: Job, path: str, done: Ingested, reading: _Reading) -> None:
    """Write the chunks of a finished pool that have no record any more."""
    step = f"ingest-{path}"
    there = job.run.ledger.records(step)
    missing = {n for n in range(done.n_chunks) if _Write.name(n) not in there}
    if not missing:
        return
    writer = _writer(job.run, path, reading, done.n_rows)
    with job.reporter.step("ingest", len(missing), "chunks") as tick:
        for part in _parts(reading, writer):
            if part is not None and part.number in missing:
                record = part.execute(job.run, step)
                job.same_as_before(record)
                missing.discard(part.number)
                tick(record=record)
            if not missing:
                return


@dataclass(frozen=True)
class _Write:
    writer: ChunkWriter
    number: int
    chunk: Chunk
    votes: Votes | None

    @staticmethod
    def name(number: int) -> str:
        return f"chunk-{number:06d}"

    def execute(self, run: Run, step: str) -> Record:
        return execute(run, step, self.do, Part(self.name(self.number), None))

    def do(self, run: Run, part: Part[None]) -> Output:
        columns: Arrays = {"x": self.chunk.x, "row": self.chunk.rows}
        if "source_id" in self.writer.arrays:
            columns["source_id"] = self.chunk.source_id
        optional = {"id": self.chunk.id, "group": self.chunk.group, "candidates": self.chunk.label}
        optional |= {"together": self.chunk.together}
        columns |= {name: there for name, there in optional.items() if there is not None}
        written = self.writer.chunk(self.number, **columns)
        return Output([*written, *self._annotations(run)])

    def _annotations(self, run: Run) -> list[str]:
        """Keep the annotations of the chunk's rows, if there are any; keys of what was written."""
        if (votes := self.votes) is None:
            return []
        row, path = self.number * self.writer.rows + votes.place, annotations_of(self.number)
        columns: Arrays = {"row": row, "annotator": votes.annotator, "label": votes.label}
        return run.write(path, "annotations", columns)


def _written(run: Run, step: str, parts: Iterable[_Write | None]) -> Iterator[Record | None]:
    """Write chunks, `_AT_ONCE` at a time, while the next is read and looked at: most of a write is
    waiting for the disk."""
    writing = ThreadPoolExecutor(_AT_ONCE)
    under_way: deque[Future[Record]] = deque()
    try:
        for part in parts:
            if len(under_way) == _AT_ONCE:
                yield under_way.popleft().result()
            if part is None:
                yield None
            else:
                under_way.append(writing.submit(part.execute, run, step))
        while under_way:
            yield under_way.popleft().result()
    except StepTimeoutError:  # a write that hangs does not keep it from being told
        writing.shutdown(wait=False, cancel_futures=True)
        raise
    except Exception:  # the run may be removed for it, and nothing is to be written from then on
        writing.shutdown(cancel_futures=True)
        raise
    finally:
        writing.shutdown(wait=False)


def _parts(reading: _Reading, writer: ChunkWriter) -> Iterator[_Write | None]:
    """The chunks to write; None for each after a bad value, when only the others are counted."""
    for number, chunk in enumerate(reading.source.chunks(writer.rows, gaps=reading.gaps)):
        reading.see(chunk)
        several = reading.source.annotations
        votes = None if several is None or writer.path != "pool" else several.of(chunk)
        yield None if reading.finite.count else _Write(writer, number, reading.coded(chunk), votes)
    if reading.n_rows == 0:
        raise InputError(f"{reading.source.files[0]} {reading.why_empty()}")


def _finish(
    run: Run, writer: ChunkWriter, reading: _Reading, requested: str, files: list[str]
) -> Output:
    source = reading.source
    scale, reason = reading.chosen(requested)
    kept = embedded(source)
    kept[[place for places in reading.groups.values() for place in places]] = True
    groups = {} if reading.of_group is None else reading.of_group.about()
    values, counts, columns, about = reading.labels.in_all()
    corrected: list[str] = []
    if source.corrections is not None and values is not None:
        corrected = _correct(run, source.corrections, reading, columns["y"], values)
        counts = np.bincount(columns["y"], minlength=len(values)).tolist()
    if writer.path == "pool":  # whose labels may be sets, or still to be bought
        columns = {"y": np.full(reading.n_rows, -1, np.int8), **columns}
    result = Ingested(
        n_rows=reading.n_rows,
        n_chunks=-(-reading.n_rows // writer.rows),
        n_features=len(source.feature_names),
        feature_names=list(source.feature_names),
        label_name=source.label_name,
        statistics=reading.statistics.summary(),
        scaling=reading.statistics.scaling(scale, kept if requested == "auto" else None),
        files=files,
        n_filled=reading.gaps.filled,
        n_dropped=reading.gaps.dropped,
        n_unlabeled=reading.gaps.other if source.only == "labeled" else 0,
        n_repeated=reading.gaps.repeated,
        unseen={column: count for column, count in reading.unseen.items() if count},
        scale=scale,
        scale_reason=reason,
        label_values=values,
        class_counts=counts,
        id_name=source.beside.id,
        id_whole=reading.id_whole,
    )
    about = {**groups, **about, **as_json(result), **_annotators(reading, values)}
    written = writer.finish(reading.n_rows, about, **columns)
    for name, sample in reading.samples.items():
        written += run.write(f"samples/{name}", "sample", {"x": sample.x, "row": sample.row})
    if reading.covariance is not None and reading.pca is not None:
        written += keep_projection(run, reading.covariance, reading.pca, result.scaling)
    return Output([*written, *corrected], result)


def annotations_of(number: int) -> str:
    """The group of the annotations of one chunk of the pool."""
    return f"annotations/{number:06d}"


def _annotators(reading: _Reading, classes: list[Any] | None) -> dict[str, Any]:
    """What the attributes of a pool say of its annotators; nothing where labels are single."""
    several = reading.source.annotations
    if several is None or classes is None:
        return {}
    place = {value: code for code, value in enumerate(classes)}
    return {
        "annotator_values": list(several.annotators),
        "annotation_values": list(several.values),
        "annotation_codes": [place.get(value, -1) for value in several.values],
        "annotations_empty": several.n_empty,
    }


def _correct(
    run: Run, corrections: Corrections, reading: _Reading, y: Integers, values: list[Any]
) -> list[str]:
    """Put the labels that somebody checked in place of those given, and keep them in the group
    `corrections`; keys of what was written."""
    code = corrections.codes(values, reading.gaps.until)
    which, row = np.concatenate(reading.certain, axis=1)
    code = code[which]
    about = CorrectionsUsed(
        file=corrections.file.name,
        n_rows=len(row),
        n_changed=int((y[row] != code).sum()),
        n_conflicts=corrections.n_conflicts,
    )
    given, y[row] = y[row].astype(np.int32), code
    columns = {"row": row, "y": code, "given": given}
    return run.write(CORRECTIONS, CORRECTIONS, columns, asdict(about))


def corrections_used(run: Run) -> CorrectionsUsed | None:
    """What the corrections of a pool changed; None where it was read without any."""
    if not run.has(CORRECTIONS):
        return None
    about: dict[str, Any] = run.group(CORRECTIONS).attrs.asdict()
    return CorrectionsUsed(**{name: about[name] for name in CorrectionsUsed.__annotations__})


def corrections_remarks(run: Run, source: Source) -> list[str]:
    """What is to be said of corrections besides what they changed, as sentences: labels of one
    reviewer that differ, and those of rows that are not in the pool."""
    used, given = corrections_used(run), source.corrections
    if used is None or given is None:
        return []
    name, remarks = given.file.location.name, []
    if n := len(given.revoked):
        remarks.append(
            f"{name}: {amount(n, 'row has', 'rows have')} several labels by the same reviewer, "
            f"first row {given.revoked[0]:,} (from 0); the last of them counts"
        )
    if n := len(given.row) - used.n_rows:
        which = "with gaps" if source.coding.drop else "in lines that repeat a row"
        remarks.append(f"{name}: {amount(n, 'label')} of rows {which} not used: these are left out")
    return remarks
