"""Sources made by hand, each to hit one bound or one trap."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import zarr

from fuzz.law import N_HANDMADE
from fuzz.mutate import Canary
from fuzz.seeds import Seed

GIANT = 1_500_000_000
X = np.arange(72.0).reshape(24, 3)
Y = np.arange(24) % 2
Make = Callable[[Path], Seed]


def sparse(path: Path, start: bytes, end: bytes = b"", size: int = GIANT) -> None:
    """A file of so many bytes, zero between its start and its end, that takes no space."""
    with path.open("wb") as file:
        file.write(start)
        file.seek(size - len(end))
        file.write(end)
        file.truncate(size)


def file(kind: str, name: str, start: bytes, end: bytes = b"", size: int | None = None) -> Make:
    """A file of a few bytes, or a sparse one of `size`."""

    def make(folder: Path) -> Seed:
        path = folder / name
        if size is None:
            path.write_bytes(start + end)
        else:
            sparse(path, start, end, size)
        column = "y" if kind in ("csv", "parquet") else None
        labels = "y.npy" if kind == "npy" else None
        if labels:
            np.save(folder / labels, Y)
        return Seed(kind, {}, name, labels, column)

    return make


def header(shape: str, descr: str = "<f4") -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def labels(name: str, start: bytes, size: int | None = GIANT) -> Make:
    """Sound features with a file of labels."""

    def make(folder: Path) -> Seed:
        np.save(folder / "x.npy", X)
        sparse(folder / name, start, size=size or len(start))
        return Seed("labels", {}, "x.npy", name)

    return make


def zarr_says(node: str, name: str = "zarr.json", **changes: Any) -> Make:
    """A group whose metadata have other values, or are a giant."""

    def make(folder: Path) -> Seed:
        group = zarr.open_group(folder / "g", mode="w", zarr_format=2 if name[0] == "." else 3)
        group.create_array("x", data=X, chunks=(24, 3))
        group.create_array("y", data=Y)
        path = folder / "g" / node / name
        if "giant" in changes:
            sparse(path, b'{"a": "')
        elif "text" in changes:
            path.write_text(changes["text"])
        else:
            path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        return Seed("zarr", {}, "g")

    return make


def grid(*chunk: int) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": list(chunk)}}


def archive(zeros: int = 0, **members: bytes) -> Make:
    """A zip file of any members, each with so many zeros at its end."""

    def make(folder: Path) -> Seed:
        with zipfile.ZipFile(folder / "t.npz", "w", zipfile.ZIP_DEFLATED) as packed:
            for name, content in members.items():
                packed.writestr(f"{name}.npy", content + bytes(zeros))
        return Seed("npz", {}, "t.npz")

    return make


def packed(start: bytes) -> Make:
    """A text of 400 MB that is packed to 400 KB."""

    def make(folder: Path) -> Seed:
        with gzip.open(folder / "t.csv.gz", "wb", compresslevel=1) as sink:
            sink.write(start)
            for _ in range(25):
                sink.write(b"a" * (1 << 24))
        return Seed("csv", {}, "t.csv.gz", column="y")

    return make


def pandas(metadata: bytes) -> Make:
    """A Parquet file with such metadata."""

    def make(folder: Path) -> Seed:
        table = pa.table({"a": X[:, 0], "y": Y})
        pq.write_table(table.replace_schema_metadata({b"pandas": metadata}), folder / "t.parquet")
        return Seed("parquet", {}, "t.parquet", column="y")

    return make


def page_bomb(folder: Path) -> Seed:
    """100 MB of equal values in one row group, which pack to a few bytes."""
    table = pa.table({"a": np.zeros(12_000_000), "y": np.zeros(12_000_000, "i1")})
    where = folder / "t.parquet"
    pq.write_table(table, where, compression="zstd", use_dictionary=False, data_page_size=1 << 30)
    return Seed("parquet", {}, "t.parquet", column="y")


def objects(array: Any) -> bytes:
    sink = io.BytesIO()
    np.save(sink, array, allow_pickle=True)
    return sink.getvalue()


def pickles(folder: Path) -> Seed:
    """An array of objects, one of which makes a file when it is loaded."""
    loaded = np.array([[Canary(str(folder.parent / "canary"))] * 2] * 24, object)
    np.savez(folder / "t.npz", X=X, y=loaded[:, 0], allow_pickle=True)
    (folder / "x.npy").write_bytes(objects(loaded))
    np.save(folder / "y.npy", Y)
    return Seed("npy", {}, "x.npy", "y.npy")


def pickle_as_array(folder: Path) -> Seed:
    (folder / "x.npy").write_bytes(pickle.dumps(Canary(str(folder.parent / "canary"))))
    np.save(folder / "y.npy", Y)
    return Seed("npy", {}, "x.npy", "y.npy")


def endless_link(folder: Path) -> Seed:
    (folder / "t.csv").symlink_to("t.csv")
    return Seed("csv", {}, "t.csv", column="y")


def wide(columns: int) -> Make:
    """A CSV of one row."""
    names = ",".join(f"c{i}" for i in range(columns - 1))
    return file("csv", "t.csv", f"{names},y\n{'0,' * (columns - 1)}1\n".encode())


def votes(lines: list[str], names: str = "row,annotator,label") -> Make:
    """Annotations of the 24 rows of a source."""

    def make(folder: Path) -> Seed:
        (folder / "t.csv").write_text("\n".join(["a", *map(str, range(24))]) + "\n")
        (folder / "v.csv").write_text("\n".join([names, *lines]) + "\n")
        return Seed("annotations", {}, "t.csv", annotations="v.csv")

    return make


def beside(kind: str, name: str, make: Callable[[Path], object], **more: Any) -> Make:
    """A sound source of 24 rows and a file beside it."""

    def made(folder: Path) -> Seed:
        rows = [f"{row},{row % 2}" for row in range(24)]
        (folder / "t.csv").write_text("\n".join(["a,y", *rows]) + "\n")
        make(folder / name)
        options = ["--config", "{folder}/c.toml"] if kind == "config" else []
        corrections = name if kind == "corrections" else None
        return Seed(kind, {}, "t.csv", None, "y", options, corrections=corrections, **more)

    return made


def many_lines(path: Path) -> None:
    """Nine million lines that pack to a few bytes."""
    with gzip.open(path, "wb", compresslevel=1) as sink:
        sink.write(b"row,label\n")
        for _ in range(9):
            sink.write(b"3,1\n" * 1_000_000)


def long_text(path: Path, rows: int = 1_000_000) -> None:
    """A text of a megabyte in a million rows."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), ["a" * 1_000_000])
    table = pa.table({"row": np.zeros(rows, np.int64), "label": text})
    pq.write_table(table, path, store_schema=False)


def sheet(rows: str) -> Make:
    """A workbook with further rows."""

    def make(folder: Path) -> Seed:
        book, sound = openpyxl.Workbook(), io.BytesIO()
        for row in (["a", "y"], [1, 0], [2, 1]):
            book.active.append(row)
        book.save(sound)
        with zipfile.ZipFile(sound) as old, zipfile.ZipFile(folder / "t.xlsx", "w", 8) as new:
            for name in old.namelist():
                content = old.read(name).replace(b"</sheetData>", rows.encode() + b"</sheetData>")
                new.writestr(name, content)
        return Seed("xlsx", {}, "t.xlsx", None, "y")

    return make


def shows(folder: Path) -> Seed:
    """More rows than the model has, each of them long."""
    long_text(folder / "s.parquet")
    table = pq.read_table(folder / "s.parquet", read_dictionary=["label"]).select(["label"])
    pq.write_table(table, folder / "s.parquet", store_schema=False)
    return Seed("show", {}, "s.parquet", command="show")


ALL_ROWS = [f"{row},{who},{row % 2}" for row in range(24) for who in "ab"]
_DIRECTORY = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, GIANT - 22, 0, 0)
HANDMADE: tuple[Make, ...] = (
    *(
        file("csv", "t.csv", start, size=GIANT)
        for start in (b'a,y\n1,"', b"a,y\n1,", b"a,", b'a,"')
    ),
    *(packed(start) for start in (b"a,y\n1,", b'a,y\n1,"', b"a,")),
    *(wide(columns) for columns in (300_000, 32_769, 16_384)),
    file("csv", "t.csv", b"\n" * (32 << 20)),
    file("csv", "t.csv", b"," * (8 << 20)),
    file("csv", "t.jsonl", b'{"a": "', size=GIANT),
    file("csv", "t.jsonl", b'{"y": ' + b"[" * (1 << 20), b"]" * (1 << 20) + b"}"),
    file("csv", "t.jsonl", b"\n".join(b'{"%d": 1}' % i for i in range(200_000))),
    file("csv", "t.csv", b"a,y\n" + b"\xff" * 4096),
    file("csv", "t.csv", b"a,y\r" * 5000),
    file("csv", "t.csv", b"\xff\xfe" + "a,y\n1,0\n".encode("utf-16-le")),
    *(labels("y.txt", start) for start in (b'0\n"', b"0\n1\n1", b"0,")),
    labels("y.npy", header("(4,)", "<U90000000")),
    labels("y.npy", header(f"({10**15},)"), size=4096),
    file("npy", "x.npy", header("(2, 100000000)"), size=GIANT),
    file("npy", "x.npy", header(f"({10**15}, 3)"), size=4096),
    file("npy", "x.npy", header("(24, -3)"), size=4096),
    file("npy", "x.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", GIANT), size=GIANT),
    file("npy", "x.npy", b"\x93NUMPY\x01\x00\x09\x00" + b"(" * 9),
    file("npz", "t.npz", b"", _DIRECTORY, size=GIANT),
    archive(X=header(f"({10**15}, 3)"), y=objects(Y)),
    archive(X=objects(X) * 2, y=objects(Y)),
    archive(36_000_000, X=header("(3000000, 3)"), y=header("(3,)")),
    file("parquet", "t.parquet", b"PAR1", struct.pack("<I", GIANT - 12) + b"PAR1", size=GIANT),
    file("parquet", "t.parquet", b"PAR1", struct.pack("<I", 31 << 20) + b"PAR1", size=GIANT),
    file("parquet", "t.parquet", b"PAR1\x15\x00\x15\x00" * 9 + b"\x10\x00\x00\x00PAR1"),
    *(pandas(said) for said in (b"{", b"[]", b"[" * 100_000, b'{"index_columns": 3}', b"\xff")),
    page_bomb,
    pickles,
    pickle_as_array,
    endless_link,
    *(zarr_says(node, giant=True) for node in ("", "x", "y")),
    *(zarr_says(node, text="[" * 100_000) for node in ("", "x", "y")),
    zarr_says("x", chunk_grid=grid(0, 3)),
    zarr_says("x", chunk_grid=grid(10**9, 3)),
    zarr_says("x", chunk_grid=grid(10**15, 3), shape=[10**15, 3]),
    zarr_says("x", shape=[10**15, 3]),
    zarr_says("x", shape=[24, 10**9], chunk_grid=grid(24, 1)),
    zarr_says("x", codecs=[{"name": "bytes"}] * 5000),
    zarr_says("x", ".zarray", chunks=[0, 3]),
    zarr_says("x", ".zarray", filters=[{"id": "pickle"}], dtype="|O"),
    zarr_says("x", ".zarray", dimension_separator="../"),
    votes(ALL_ROWS),
    votes([*ALL_ROWS, "24,a,1"]),
    votes([*ALL_ROWS, "3,a,1"]),
    votes([f"{row},a," for row in range(24)]),
    votes([f"{at % 24},{at},{at % 2}" for at in range(1_000_000)]),
    votes(ALL_ROWS, "row,who,label"),
    beside("corrections", "c.csv.gz", many_lines),
    beside("corrections", "c.parquet", long_text),
    beside("corrections", "c.jsonl", lambda path: sparse(path, b'\n{"origin": "')),
    beside("corrections", "c.csv", lambda path: path.write_text(f"row,label\n{2**63},1\n")),
    beside("config", "c.toml", lambda path: sparse(path, b"k = 3\n")),
    beside("config", "c.toml", lambda path: path.write_text("k = " + "[" * 100_000)),
    sheet("<row r='2000000000'><c r='A1'><v>7</v></c><c r='B1'><v>1</v></c></row>"),
    sheet("<row>" + "<c/>" * 30_000_000 + "</row>"),
    sheet("<row><c r='ZZZ1' t='n'/></row>" * 100_000),
    shows,
)

assert len(HANDMADE) == N_HANDMADE
