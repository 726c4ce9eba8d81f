"""What a source claims or holds in excess is refused by name, early and in little memory.

Each source is opened and read in a process of its own, whose peak memory is measured: forked from
one that has imported what all need.
"""

import gzip
import io
import json
import os
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from storage.errors import InputError
from storage.sources.formats import zarr as zarr_format
from storage.sources.joins import with_corrections
from storage.sources.opening import open_source

MOST_MB, MOST_SECONDS = 512, 10
X = np.arange(12.0).reshape(4, 3)
GIANT = 1_500_000_000
READER = """
import json, os, signal, sys, time
import google_crc32c, pyarrow.compute, pyarrow.csv, pyarrow.parquet, zarr
from storage.errors import InputError
from storage.sources.opening import open_source
from storage.sources.joins import read_annotations
from storage.sources.joins import read_answers
from storage.sources.request import PLAIN

def read(given):
    what = given.pop("what", "source")
    start, said = time.process_time(), ""
    try:
        if what == "corrections":
            read_answers(given["source"]).agreed()
        elif what == "annotations":
            same = open_source(given["source"], with_labels=False, raw=True)
            read_annotations(given["source"], same, None, None, PLAIN)
        else:
            for chunk in open_source(**given).chunks(1000):
                pass
    except InputError as error:
        said = str(error)
    status = open("/proc/self/status").read()  # not getrusage: it counts what pytest held before
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    return said, time.process_time() - start, peak

for line in sys.stdin:
    if os.fork() == 0:
        signal.alarm(120)
        print(json.dumps(read(json.loads(line))), flush=True)
        os._exit(0)
    os.wait()
    print(flush=True)
"""
"""Of each line it is given, prints what was said, seconds and MB; then an empty line."""


@cache
def reader() -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", READER], stdin=pipe, stdout=pipe, text=True)


@pytest.fixture(scope="module", autouse=True)
def _ended_with_these_tests() -> Iterator[None]:
    yield
    reader().communicate()
    reader.cache_clear()


def read(**wanted: Any) -> str:
    """What the reader says to a source, within its bounds of memory and time."""
    given = json.dumps({name: str(v) if isinstance(v, Path) else v for name, v in wanted.items()})
    told, answers = reader().stdin, reader().stdout
    assert told is not None
    assert answers is not None
    print(given, file=told, flush=True)
    said, seconds, peak = json.loads("".join(takewhile(str.strip, answers)))
    assert peak < MOST_MB, (peak, said)
    assert seconds < MOST_SECONDS, (seconds, said)
    assert len(said.splitlines()) <= 1
    return str(said)


def sparse(path: Path, start: bytes, end: bytes = b"", size: int = GIANT) -> Path:
    """A file of so many bytes, all but the first and last of them zero, that takes no space."""
    with path.open("wb") as file:
        file.write(start)
        file.seek(size - len(end))
        file.write(end)
        file.truncate(size)
    return path


def packed(path: Path, start: bytes) -> Path:
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(start)
        for _ in range(GIANT >> 26):
            file.write(b"a" * (1 << 24))
    return path


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b'a,y\n1,"', "some row after row 0 (from 0) does not end within"),
        (b"a,y\n1,", "some row after row 0 (from 0) does not end within"),
        (b"a,", "its first row does not end within"),
        (b'a,"', "its first row does not end within"),
    ],
)
def test_cells_of_a_csv_without_end(tmp_path: Path, start: bytes, words: str) -> None:
    assert words in read(source=sparse(tmp_path / "t.csv", start), label_column="y")


@pytest.mark.parametrize("start", [b"a,y\n1,", b"a,"])
def test_cells_of_a_packed_csv_without_end(tmp_path: Path, start: bytes) -> None:
    assert "does not end within" in read(
        source=packed(tmp_path / "t.csv.gz", start), label_column="y"
    )


def test_lines_before_the_header_without_end(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\n" * (64 << 20) + b"a,y\n1,0\n")
    assert "its first row does not end within" in read(source=path, label_column="y")


def test_cells_of_labels_without_end(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    for start in (b'0\n"', b"0\n1\n1"):
        labels = sparse(tmp_path / "y.txt", start)
        assert "does not end within" in read(source=tmp_path / "x.npy", labels=labels)


def test_columns_of_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    names = ",".join(f"c{i}" for i in range(299_999))
    path.write_text(f"{names},y\n" + "0," * 299_999 + "1\n")
    assert "t.csv: 300,000 columns" in read(source=path, label_column="y")
    np.save(tmp_path / "x.npy", X)
    assert "t.csv: 300,000 columns" in read(source=tmp_path / "x.npy", labels=path)


def test_a_table_as_wide_as_is_read(tmp_path: Path) -> None:
    row = np.arange(1 << 15)
    path = tmp_path / "t.csv"
    path.write_text("".join(",".join(map(str, values)) + "\n" for values in (row, row, row)))
    assert read(source=path, label_column="0") == ""


def test_columns_of_parquet(tmp_path: Path) -> None:
    one = pa.array([1.0])
    table = pa.Table.from_arrays([one] * 40_000, names=[f"c{i}" for i in range(40_000)])
    pq.write_table(table, tmp_path / "t.parquet", write_statistics=False)
    assert "t.parquet: 40,000 columns" in read(source=tmp_path / "t.parquet", label_column="c0")


def test_the_footer_of_parquet(tmp_path: Path) -> None:
    end = struct.pack("<I", GIANT - 12) + b"PAR1"
    path = sparse(tmp_path / "t.parquet", b"PAR1", end)
    assert "t.parquet: its footer has 1,499,999,988 bytes" in read(source=path, label_column="y")


def npy(path: Path, shape: str, descr: str = "<f4", size: int = GIANT) -> Path:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return sparse(path, b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header, size=size)


def test_features_of_arrays(tmp_path: Path) -> None:
    path = npy(tmp_path / "x.npy", "(2, 100000000)")
    assert "x.npy: 100,000,000 features" in read(source=path, with_labels=False)


def test_labels_of_many_characters(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    labels = npy(tmp_path / "y.npy", "(4,)", "<U90000000")
    assert "y.npy: labels of up to 360,000,000 bytes" in read(
        source=tmp_path / "x.npy", labels=labels
    )


def test_the_header_of_npy(tmp_path: Path) -> None:
    start = b"\x93NUMPY\x02\x00" + struct.pack("<I", GIANT)
    said = read(source=sparse(tmp_path / "x.npy", start), with_labels=False)
    assert "a header of 1,500,000,000 bytes" in said


def test_the_directory_of_npz(tmp_path: Path) -> None:
    size = GIANT - 22
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, size, 0, 0)
    said = read(source=sparse(tmp_path / "t.npz", b"", end))
    assert "t.npz: its directory takes 1,499,999,978 bytes" in said


def test_rows_that_npz_claims(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    shape = f"({10**15}, 3)"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        small = npy(tmp_path / "x.npy", shape, size=10_000).read_bytes()
        archive.writestr("X.npy", small)
    assert "bytes where 12,000,000,000,000,0" in read(source=path, with_labels=False)
    content = path.read_bytes().replace(struct.pack("<I", 10_000), struct.pack("<I", 2**32 - 2))
    path.write_bytes(content)
    assert "t.npz[X]" in read(source=path, with_labels=False)


def claimed(path: Path, shape: list[int], chunk: list[int]) -> Path:
    """A group whose array x says so of its shape and chunks; the first chunk is there."""
    group = zarr.open_group(path, mode="w")
    group.create_array("x", data=X.astype("f4"), chunks=X.shape)
    file = path / "x/zarr.json"
    meta = json.loads(file.read_text())
    meta["shape"], meta["chunk_grid"]["configuration"]["chunk_shape"] = shape, chunk
    file.write_text(json.dumps(meta))
    return path


@pytest.mark.parametrize(
    ("shape", "chunk", "words"),
    [
        ([10**15, 3], [10**15, 3], "g[x]: chunks of shape (1000000000000000, 3)"),
        ([4, 3], [10**9, 3], "g[x]: chunks of shape (1000000000, 3)"),
        ([4, 10**9], [4, 1], "g[x]: 1,000,000,000 features"),
    ],
)
def test_shapes_that_zarr_claims(
    tmp_path: Path, shape: list[int], chunk: list[int], words: str
) -> None:
    assert words in read(source=claimed(tmp_path / "g", shape, chunk), with_labels=False)


def test_metadata_of_zarr(tmp_path: Path) -> None:
    for node in ("", "x"):
        path = claimed(tmp_path / f"g{node}", [4, 3], [4, 3])
        sparse(path / node / "zarr.json", b'{"a": "')
        assert "zarr.json has 1,500,000,000 bytes" in read(source=path, with_labels=False)


def test_rows_of_zarr_that_are_stored_together_but_too_wide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zarr_format, "BAND_BYTES", 200)
    x = np.random.default_rng(0).normal(size=(50, 7)).astype("f4")
    group = zarr.open_group(tmp_path / "g", mode="w")
    group.create_array("x", data=x, chunks=(30, 2))
    source = open_source(tmp_path / "g", with_labels=False)
    pieces = list(source.reader.array.read(3, 9))  # type: ignore[attr-defined]
    assert max(piece.nbytes for piece in pieces) <= 200
    np.testing.assert_array_equal(np.concatenate(pieces), x[3:])
    np.testing.assert_array_equal(np.concatenate([c.x for c in source.chunks(8)]), x)


def test_shards_of_zarr_larger_than_what_is_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zarr_format, "BAND_BYTES", 200)
    x = np.random.default_rng(0).normal(size=(48, 3)).astype("f4")
    group = zarr.open_group(tmp_path / "g", mode="w")
    group.create_array("x", data=x, chunks=(6, 3), shards=(24, 3))
    source = open_source(tmp_path / "g", with_labels=False)
    assert source.reader.array.chunk_rows == 6  # type: ignore[attr-defined]
    np.testing.assert_array_equal(np.concatenate([c.x for c in source.chunks(8)]), x)


def test_messages_say_what_to_do(tmp_path: Path) -> None:
    path = claimed(tmp_path / "g", [4, 3], [10**9, 3])
    with pytest.raises(InputError, match="write smaller ones"):
        open_source(path, with_labels=False)


def long_table(path: Path, n: int, label: str = "a", **more: str) -> Path:
    """A packed table or a Parquet file of many lines that are nearly alike."""
    named = {"row": 0, "label": label, **more}
    if path.suffix == ".parquet":
        code = pa.array(np.zeros(n, np.int32))
        columns = {
            name: pa.DictionaryArray.from_arrays(code, [value])
            for name, value in named.items()
            if name != "row"
        }
        pq.write_table(
            pa.table({"row": np.zeros(n, np.int64), **columns}), path, store_schema=False
        )
        return path
    line = ",".join(map(str, named.values())) + "\n"
    with gzip.open(path, "wb", compresslevel=1) as sink:
        sink.write((",".join(named) + "\n").encode())
        block = line.encode() * (1 << 16)
        for _ in range(n >> 16):
            sink.write(block)
    return path


@pytest.mark.parametrize("what", ["corrections", "annotations"])
@pytest.mark.parametrize("kind", ["csv.gz", "parquet"])
def test_a_long_table_of_labels_is_bounded(tmp_path: Path, what: str, kind: str) -> None:
    path = long_table(tmp_path / f"t.{kind}", 9 << 20, annotator="ann")
    said = read(source=path, what=what)
    assert ("8,388,608 lines" if what == "corrections" else "twice") in said


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    """A device has no end, and a pipe none that is known."""
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.csv")
    os.mkfifo(tmp_path / "pipe")
    np.save(tmp_path / "x.npy", X)
    source = open_source(tmp_path / "x.npy", with_labels=False)
    for name in ("zero.csv", "pipe.csv", "pipe"):
        path, plain = str(tmp_path / name), "no plain file; write what it gives to one first"
        with pytest.raises(InputError, match=plain):
            with_corrections(source, path)
        for given in ((path,), (tmp_path / "x.npy", path)):
            with pytest.raises(InputError, match=plain):
                open_source(*given, label_column="y")


def test_a_link_to_itself_is_named(tmp_path: Path) -> None:
    (path := tmp_path / "t.csv").symlink_to("t.csv")
    with pytest.raises(InputError, match="leads back to itself; give the file it should name"):
        open_source(path, label_column="y")


@pytest.mark.parametrize("what", ["corrections", "annotations"])
def test_a_long_text_in_many_rows_is_bounded(tmp_path: Path, what: str) -> None:
    path = long_table(tmp_path / "t.parquet", 1 << 20, "a" * 1_000_000, annotator="b" * 4000)
    assert "a label of 1,000,000 characters" in read(source=path, what=what)


def test_millions_of_labels_are_read(tmp_path: Path) -> None:
    n = 4_000_000
    columns = {"row": np.arange(n), "label": np.arange(n) % 2, "reviewer": ["ann"] * n}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    assert read(source=tmp_path / "t.parquet", what="corrections") == ""


def workbook(path: Path, part: str, more: str) -> Path:
    """A workbook one of whose parts has more content before its end tag."""
    from openpyxl import Workbook
    from openpyxl.worksheet.worksheet import Worksheet

    sound = io.BytesIO()
    book = Workbook()
    assert isinstance(book.active, Worksheet)
    for row in (["row", "label"], [0, "a"], [1, "b"]):
        book.active.append(row)
    book.save(sound)
    with (
        zipfile.ZipFile(sound) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new,
    ):
        parts = {name: old.read(name).decode() for name in old.namelist()}
        if part == "xl/sharedStrings.xml":
            kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
            name = f'<Override PartName="/{part}" ContentType="{kind}"/></Types>'
            parts["[Content_Types].xml"] = parts["[Content_Types].xml"].replace("</Types>", name)
            space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
            parts[part] = f'<sst xmlns="{space}"></sst>'
        content = parts[part]
        end = content.rindex("</sheetData>" if "<sheetData>" in content else "</")
        for name, content in parts.items():
            new.writestr(name, content if name != part else content[:end] + more + content[end:])
    return path


XLSX = {
    "far row": ("<row r='2000000000'><c r='A1'><v>7</v></c><c r='B1'><v>1</v></c></row>", ""),
    "wide row": ("<row>" + "<c/>" * 2_000_000 + "</row>", "a row of its sheet"),
    "many rows": ("<row/>" * 1_200_000, "more than 1,048,576 rows"),
    "wide rows": ("<row><c r='ZZZ1' t='n'/></row>" * 10_000, ""),
    "styled rows": ("<row ht='1'><c r='A1'/></row>" * 30_000, ""),
    "after the rows": ("</sheetData><a>" + "<b/>" * 1_000_000 + "</a><sheetData>", "a row of its"),
    "texts": ("<si><t>ab</t></si>" * 4_000_000, "a part that is held"),
    "one text": ("<si>" + "<r/>" * 4_000_000 + "</si>", "a text of more than 65,536 parts"),
    "styles": ("<a>" + "<b/>" * 5_000_000 + "</a>", "a part that is held"),
}


@pytest.mark.parametrize("case", XLSX)
def test_a_workbook_is_bounded(tmp_path: Path, case: str) -> None:
    more, message = XLSX[case]
    part = "xl/styles.xml" if case == "styles" else "xl/worksheets/sheet1.xml"
    part = "xl/sharedStrings.xml" if "text" in case else part
    said = read(source=workbook(tmp_path / "t.xlsx", part, more), what="corrections")
    assert message in said
    assert said or not message
