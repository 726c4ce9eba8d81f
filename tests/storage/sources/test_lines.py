"""Lines of a text that are counted, so that rows are read from any one on."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.sources.base import Source
from storage.sources.formats.csv import count_lines, counted
from storage.sources.opening import open_source

ENDS = st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\r\n\n"])
CELLS = st.sampled_from([b"1,2", b"3.25,4", b",", b"", b'"",""', b'"7","a""b,"'])
LINES = st.lists(st.tuples(CELLS, ENDS), min_size=1)


def parsed(text: bytes) -> int:
    """Rows that Arrow finds."""
    if not text.strip(b"\r\n"):
        return 0
    names = pyarrow.csv.ReadOptions(column_names=["a", "b"])
    strings = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys("ab", pa.string()))
    quoted = pyarrow.csv.ParseOptions(newlines_in_values=True)
    return int(pyarrow.csv.read_csv(pa.py_buffer(text), names, quoted, strings).num_rows)


@given(LINES, st.booleans(), st.integers(1, 9))
def test_lines_are_those_of_the_parser(
    lines: list[tuple[bytes, bytes]], ended: bool, block: int
) -> None:
    text = b"".join(line + end for line, end in lines) + (b"" if ended else b"5,6")
    found = count_lines(io.BytesIO(text), ",", block)
    assert found is not None
    assert found.n == parsed(text)
    for line, byte in zip(found.line, found.byte, strict=True):
        assert byte == 0 or text[byte - 1 : byte] == b"\n"
        assert sum(bool(one.strip(b"\r")) for one in text[:byte].split(b"\n")) == line


@given(st.lists(st.sampled_from(list('",1\n')), max_size=14).map("".join), st.integers(1, 5))
def test_what_is_counted_is_what_is_parsed(text: str, block: int) -> None:
    found = count_lines(io.BytesIO(text.encode()), ",", block)
    try:
        n = parsed(text.encode())
    except pa.ArrowInvalid:
        return
    if found is None:
        assert '"' in text
    else:
        assert found.n == n


@given(st.text("1,\r\n", max_size=12), st.integers(1, 5))
def test_a_lone_return_is_not_counted(text: str, block: int) -> None:
    lone = "\r" in text.replace("\r\n", "")
    assert (count_lines(io.BytesIO(text.encode()), ",", block) is None) == lone


def table(folder: Path, text: str) -> Source:
    (folder / "t.csv").write_text(text)
    return open_source(str(folder / "t.csv"), label_column="y")


@pytest.mark.parametrize("top", ["", "\n\n"])
def test_rows_from_any_one_on(tmp_path: Path, top: str) -> None:
    n = 400_000
    text = "\n".join(f"{row},{row % 2}" for row in range(n))
    source = counted(table(tmp_path, f"{top}a,y\n{text}"))
    assert source.n_rows == n
    for first in (0, 1, 30, 57):
        chunk = next(source.chunks(7000, first))
        rows = np.arange(7000 * first, min(7000 * (first + 1), n))
        assert np.array_equal(chunk.x[:, 0], rows.astype(np.float32))
        assert np.array_equal(chunk.rows, rows)


def test_text_over_two_lines_has_no_count(tmp_path: Path) -> None:
    assert counted(table(tmp_path, '"a","y"\n1,"no"\n2,yes\n')).n_rows == 2
    assert counted(table(tmp_path, 'a,y\n1,"no\nyes"\n')).n_rows is None
    assert counted(table(tmp_path, 'a,y\n1,no"\n2,"yes\n')).n_rows is None
