"""JSON lines: an object a line, whose keys are the columns; a key that a line lacks is a gap.

Arrow parses a piece of whole lines at a time, from memory: its own streaming reader keeps the types
of the first piece, and reads ahead in a thread that outlives it.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from storage.errors import InputError
from storage.sources.files import SourcePath, readable
from storage.sources.formats.csv import opened
from storage.sources.formats.tables import Look, TableRows, is_list
from storage.sources.request import Request, check_width

PIECE_BYTES, LINE_BYTES, DEEPEST = 1 << 20, 4 << 20, 64
"""Bytes parsed at a time, of the longest line, and brackets that may be open at once: the parser's
recursion ends the process at some 20,000."""
CELLS = 30_000_000
"""Lines times bytes that are parsed at a time: each line may have keys of its own, and every key
takes memory in all of them."""
_WHOLE = 2.0**53
"""Beyond it some whole numbers are no floating-point numbers."""
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.S)
_AT = re.compile(r"(?:JSON parse error: )?(.*?)\.? in row (\d+)$", re.S)


@dataclass(frozen=True)
class JsonTable(TableRows):
    """Rows of one file."""

    schema: pa.Schema
    """Of all columns."""

    def batches(self, start: int, rows: int) -> Iterator[pa.RecordBatch]:
        """All rows."""
        schema = pa.schema([self.schema.field(name) for name in self.selection.columns])
        for lines in _pieces(self.location):
            table = _parsed(self.location.name, lines, schema)
            for name in {*self.selection.aside} & {*table.column_names}:
                _check_exact(f"{self.location.name}: column {name!r}", table[name])
            yield from table.combine_chunks().to_batches()


Lines = list[tuple[int, bytes]]
"""With their numbers, from 1."""


def _pieces(location: SourcePath) -> Iterator[Lines]:
    """All lines that are not blank."""
    first = 1
    with readable(location.name), opened(location) as file:
        rest = file.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
        while piece := file.read(PIECE_BYTES):
            whole, _, rest = (rest + piece).rpartition(b"\n")
            if len(rest) > LINE_BYTES:
                raise InputError(
                    f"{location.name}: some line after line {first - 1 + whole.count(10)} has more "
                    f"than {LINE_BYTES:,} bytes; give an object a line"
                )
            lines = list(enumerate(whole.split(b"\n") if whole else [], first))
            first += len(lines)
            there = [one for one in lines if one[1].strip()]
            step = 1 + isqrt(CELLS * len(lines) // (len(whole) + 1))
            yield from (there[at : at + step] for at in range(0, len(there), step))
        if rest.strip():
            yield [(first, rest)]


def _parsed(where: str, lines: Lines, schema: pa.Schema | None = None) -> pa.Table:
    """The rows of some lines, of the columns and types of a schema, or as they are found."""
    for number, line in lines:
        whole = line.strip()
        if (whole[:1], whole[-1:]) != (b"{", b"}"):
            raise InputError(f"{where}: line {number} is no JSON object; give one a line, whole")
        if line.count(b"[") + line.count(b"{") > DEEPEST and _depth(line) > DEEPEST:
            raise InputError(f"{where}: line {number} is nested too deeply; give plain values")
    content = b"\n".join(line for _, line in lines)
    at, problem = 0, "is not UTF-8; save it as UTF-8"
    try:
        content.decode()
        table = _read(content, schema)
        if table.num_rows == len(lines):
            return table
        at = next(at for at, (_, line) in enumerate(lines) if _read(line).num_rows != 1)
        problem = "holds several objects; give one a line"
    except UnicodeDecodeError as error:
        at = content.count(b"\n", 0, error.start)
    except pa.ArrowInvalid as error:
        match = _AT.match(str(error))
        if match is None:
            raise
        problem, at = f"cannot be read ({match[1]}); correct it", int(match[2])
    raise InputError(f"{where}: line {lines[at][0]} {problem}")


def _read(content: bytes, schema: pa.Schema | None = None) -> pa.Table:
    others = "infer" if schema is None else "ignore"
    return pyarrow.json.read_json(
        pa.BufferReader(content),
        pyarrow.json.ReadOptions(use_threads=False, block_size=len(content) + 1),
        pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others),
    )


def _check_exact(where: str, column: pa.ChunkedArray) -> None:
    """`InputError` for labels or groups that the parser may have rounded."""
    values = pc.list_flatten(column) if is_list(column.type) else column
    if pa.types.is_floating(values.type) and (pc.max(pc.abs(values)).as_py() or 0.0) >= _WHOLE:
        raise InputError(
            f"{where} has numbers of 2**53 or more, beyond 64 bits or beside fractions, which are "
            "rounded when they are read; write its values as text"
        )


def _depth(line: bytes) -> int:
    """How many brackets are open at once, those in strings left out."""
    marks = np.frombuffer(_STRING.sub(b"", line), np.uint8)
    opens = np.isin(marks, [ord("["), ord("{")]).astype(np.int64)
    return int((opens - np.isin(marks, [ord("]"), ord("}")])).cumsum().max())


def _as_written(kind: pa.DataType) -> pa.DataType:
    """Text is text, though it looks like a time."""
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_as_written(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_written(field.type)) for field in kind])
    return kind


def look(location: SourcePath, _: Request) -> Look:
    """What a file holds; all of it is parsed: any line may have a key of its own, and fractions may
    follow whole numbers."""
    schema, n_rows = pa.schema([]), 0
    for lines in _pieces(location):
        table = _parsed(location.name, lines)
        n_rows += table.num_rows
        fields = [field.with_type(_as_written(field.type)) for field in table.schema]
        try:
            schema = pa.unify_schemas([schema, pa.schema(fields)], promote_options="permissive")
        except pa.ArrowTypeError:
            _parsed(location.name, lines, pa.schema([f for f in schema if f.type != pa.null()]))
            raise
        check_width(location.name, len(schema))
    if not schema.names:
        raise InputError(f"{location.name}: no keys in its lines; give an object a line")
    return Look.of(JsonTable(location, n_rows, schema), schema)
