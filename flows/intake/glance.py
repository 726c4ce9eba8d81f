"""A sample of a source's rows, column by column, to look at before it is read as features."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pipeline.arrays import Float64
from storage.errors import patiently
from storage.sources.base import Source
from storage.sources.blocks import join, join_values
from storage.sources.files import readable
from storage.sources.formats.arrays import LabeledReader, plain_labels
from storage.sources.formats.tables import (
    Feature,
    TablesReader,
    check_label_type,
    is_embedding,
    is_number,
    list_values,
    to_labels,
)
from storage.sources.stored import as_stored
from storage.sources.values.labels import Labels
from storage.sources.values.texts import (
    Spelling,
    can_be_id,
    decoded,
    plain_texts,
    plain_values,
    pointed,
    spellings_of,
)

MOST_ROWS = 100_000
MOST_BYTES = 8 << 20
"""Of values as they are stored."""
BATCH_ROWS = 1024
"""Rows read at a time: texts may be long."""
FEWEST_ROWS = 256
PIECES, FEW_PIECES = 8, 2
"""Places of a long source that are looked at, where it can be read from any row on; and of one with
so many columns that no more than the fewest rows are."""
_NUMBER = r"^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:inf(inity)?|nan))$"


@dataclass(frozen=True)
class FeatureCandidate:
    """A column that may be a feature."""

    name: str
    values: Float64
    """`(row,)` numbers, or codes of text by first appearance; NaN where missing."""
    is_text: bool
    example: str = ""
    """The first value that is no number."""
    spellings: tuple[str, ...] = ()
    """How all its text can be read as numbers, or was asked to be read."""
    refused: bool = False
    """Whether some of its text cannot be read as asked."""
    coded: bytes = b""
    """Digest of what the codes stand for; none of numbers."""
    has_commas: bool = False
    """Whether its text is numbers with decimal commas, where points were expected."""
    n_broken: int = 0
    """Values that are no numbers, where most of the others are."""
    over_lines: bool = False
    """Whether text of it holds line breaks, which CSV is refused with."""
    names_rows: bool = False
    """Whether values of its type can be ids."""
    parsed: bool = False
    """Whether `--parse` made these numbers of it."""


@dataclass(frozen=True)
class Glance:
    """Some rows of a source."""

    columns: list[FeatureCandidate]
    label: Labels | None
    ids: Float64 | None
    """`(row,)` codes of the ids; NaN where missing."""
    n_rows: int
    whole: bool
    """Whether these are all rows."""


def look_at(source: Source) -> Glance:
    """Up to `MOST_ROWS` rows and about `MOST_BYTES` of a source opened as `raw`: all, or those of
    several places; of text and npz the first.

    Raises `InputError` where they cannot be read.
    """
    width = 8 * max(1, len(source.feature_names))
    most = max(FEWEST_ROWS, min(MOST_ROWS, MOST_BYTES // width))
    total = source.n_rows
    starts, step = [0], most + 1
    if total is not None and total > most and source.format.spread:
        pieces = PIECES if width * FEWEST_ROWS < MOST_BYTES else FEW_PIECES
        step = most // pieces
        starts = [i * (total - step) // (pieces - 1) for i in range(pieces)]

    def read() -> Glance:
        with readable(source.files[0]):
            return _tables(source, starts, step) or _arrays(source, starts, step)

    glance = patiently(read)
    if glance.label is not None:
        glance = replace(glance, label=source.labels(glance.label))
    if glance.n_rows > most and len(starts) == 1:
        cut = [replace(column, values=column.values[:most]) for column in glance.columns]
        label = None if glance.label is None else glance.label[:most]
        return Glance(cut, label, None if glance.ids is None else glance.ids[:most], most, False)
    return glance


def _arrays(source: Source, starts: list[int], step: int) -> Glance:
    taken, reader = [], as_stored(source).reader
    for start in starts:
        room = step
        for block in reader.blocks(start, step):
            taken.append(block.at(slice(0, room)))
            room -= len(taken[-1].x)
            if room <= 0:
                break
    whole = join(taken)
    with np.errstate(invalid="ignore"):  # a signaling NaN is a NaN
        x = whole.x.astype(np.float64)
    columns = [
        FeatureCandidate(name, x[:, i], False) for i, name in enumerate(source.feature_names)
    ]
    ids = None if whole.id is None else _codes(pa.array(whole.id, pa.string()))
    return Glance(columns, whole.label, ids, len(x), len(x) == source.n_rows)


def _tables(source: Source, starts: list[int], step: int) -> Glance | None:
    """None for a source that is no table."""
    reader, file = source.reader, None
    if isinstance(reader, LabeledReader):
        file, reader = reader.labels, reader.features
    if not isinstance(reader, TablesReader):
        return None
    batches: list[pa.RecordBatch] = []
    labels: list[Labels] = []
    for start in starts:
        room, most = step, MOST_BYTES // len(starts)
        for batch in reader.cells(start, min(step, BATCH_ROWS)):
            batches.append(batch.slice(0, room))
            room -= batches[-1].num_rows
            most -= batches[-1].nbytes
            if room <= 0 or most <= 0:
                break
        if file is not None:
            labels.append(_values(file.read(start, step), step - room))
    if not batches:
        return Glance([], None, None, 0, True)
    n_rows = sum(batch.num_rows for batch in batches)
    whole = len(starts) == 1 and n_rows < step and most > 0
    names = batches[0].schema.names
    columns = {name: _joined([decoded(batch[name]) for batch in batches]) for name in names}
    label = None if source.label_name is None else columns.get(source.label_name)
    if label is not None:
        check_label_type(source.files[0], str(source.label_name), label.type)
    own_labels = None if label is None else to_labels(label)
    return Glance(
        list(_features(columns, reader.features, source)),
        join_values(labels) if labels else own_labels,
        None if source.beside.id is None else _codes(columns[source.beside.id]),
        n_rows,
        whole,
    )


def _joined(pieces: list[pa.Array]) -> pa.Array:
    """A column by its pieces: where files have it in several types as numbers or lists of them if
    all are, else as text."""
    kinds = {piece.type for piece in pieces}
    if len(kinds) > 1 and all(map(is_number, kinds)):
        pieces = [piece.cast(pa.float64(), safe=False) for piece in pieces]
    elif len(kinds) > 1 and all(map(is_embedding, kinds)):
        pieces = [piece.cast(pa.list_(pa.float32()), safe=False) for piece in pieces]
    elif len(kinds) > 1:
        pieces = [piece.cast(pa.string()) for piece in pieces]
    return pa.chunked_array(pieces).combine_chunks()


def _values(pieces: Iterator[np.ndarray], count: int) -> Labels:
    """The first `count` labels of some pieces."""
    labels: list[Labels] = []
    for piece in pieces:
        labels.append(plain_labels(piece)[:count])
        count -= len(labels[-1])
        if count <= 0:
            break
    return join_values(labels) if labels else np.empty(0, object)


def _features(
    columns: dict[str, pa.Array], features: tuple[Feature, ...], source: Source
) -> Iterator[FeatureCandidate]:
    lists: dict[str, np.ndarray] = {}
    for name, place, length, _, spelling in features:
        column = columns[name]
        names_rows = can_be_id(column.type)
        if spelling is not None:
            yield _parsed(name, column, spelling)
        elif place is not None and is_embedding(column.type):
            if name not in lists:
                where = source.files[0] + ", or a file after it" * (len(source.files) > 1)
                lists[name] = list_values(column, length, f"{where}: column {name!r}")
            yield FeatureCandidate(
                f"{name}[{place}]", lists[name][:, place].astype(np.float64), False
            )
        elif is_number(column.type):
            numbers = np.asarray(column.cast(pa.float64(), safe=False))
            yield FeatureCandidate(name, numbers, False, names_rows=names_rows)
        elif types.is_string(column.type) or types.is_large_string(column.type):
            text = _of_text(name, column, source)
            yield replace(text, names_rows=names_rows)
        else:
            known = column.drop_null()
            example = str(plain_values(known[:1])[0])[:40] if len(known) else ""
            nested = types.is_nested(column.type) or isinstance(column.type, pa.BaseExtensionType)
            values, coded = _uncompared(column, name) if nested else _coded(column)
            is_time = types.is_timestamp(column.type) or types.is_date(column.type)
            spellings = ("datetime",) if is_time else ()
            yield FeatureCandidate(
                name, values, True, example, spellings, nested, coded, names_rows=names_rows
            )


def _of_text(name: str, column: pa.Array, source: Source) -> FeatureCandidate:
    """Numbers if all of a text column are, and text is read as such, else codes."""
    text, decimal = pc.utf8_trim_whitespace(column), source.dialect.decimal
    typed = source.format.content == "tables"  # text is not read as numbers unasked
    marked = pointed(text, decimal, alone=source.kind == "csv")
    bad = _no_numbers(marked)
    n_text = pc.sum(bad).as_py() or 0
    known = text.drop_null()
    if n_text == 0 and not (typed and len(known)):
        return FeatureCandidate(name, np.asarray(marked.cast(pa.float64())), False)
    commas = decimal == "." and n_text > 0
    commas = commas and not pc.any(_no_numbers(pc.replace_substring(text, ",", "."))).as_py()
    spellings = spellings_of(plain_texts(column), decimal)
    codes, coded = _coded(text)
    example = (text.filter(bad) if n_text else known)[0].as_py()[:40]
    broken = n_text if not spellings and n_text < len(known) / 2 else 0
    lines = source.kind == "csv" and bool(pc.any(pc.match_substring(column, "\n")).as_py())
    return FeatureCandidate(
        *(name, codes, True, example, tuple(spellings)),
        coded=coded,
        has_commas=commas,
        n_broken=broken,
        over_lines=lines,
    )


def _no_numbers(text: pa.Array) -> pa.Array:
    """Which texts are no plain numbers; those that are missing are not."""
    return pc.invert(pc.match_substring_regex(text, _NUMBER).fill_null(True))


def _parsed(name: str, column: pa.Array, spelling: Spelling) -> FeatureCandidate:
    """Numbers if all text is as asked, else codes."""
    text = plain_texts(column)
    numbers, bad = spelling.read(text)
    if bad is None:
        return FeatureCandidate(name, numbers, False, parsed=True)
    example, kinds, (codes, coded) = text[bad].as_py()[:40], (spelling.kind,), _coded(text)
    return FeatureCandidate(name, codes, True, example, kinds, refused=True, coded=coded)


def _coded(column: pa.Array) -> tuple[Float64, bytes]:
    """Codes, and a digest of what they stand for."""
    values, state = column.dictionary_encode(), blake2b(digest_size=16)
    for value in plain_values(values.dictionary):
        state.update(repr(value).encode(errors="surrogatepass") + b"\0")
    return _codes(values), state.digest()


def _uncompared(column: pa.Array, name: str) -> tuple[Float64, bytes]:
    """Codes of values of which no two are compared, and what makes them those of this column."""
    known = np.asarray(column.is_valid())
    return np.where(known, np.arange(len(column)), np.nan), name.encode()


def _codes(column: pa.Array) -> Float64:
    """`(row,)` codes by first appearance, NaN where missing."""
    return np.asarray(column.dictionary_encode().indices.cast(pa.float64()))
