"""Sources made to break their reader: each is refused in one line that names it."""

import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import refusals
import zarr

from storage.errors import InputError
from storage.files.location import Location
from storage.sources.opening import open_source

X = np.arange(12.0).reshape(4, 3)
Y = np.array([0, 1, 0, 1])
HEADER = "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 3), }"


def refused(*parts: str, **wanted: Any) -> str:
    """The message of the error that opening and reading raises; it names all `parts`."""
    message = refusals.refused(*parts, **wanted)
    assert len(message.splitlines()) == 1
    assert len(message) < 600
    return message


def npy(path: Path, header: str, version: tuple[int, int] = (1, 0)) -> Path:
    """An array of format 1, 2 or 3 with any header."""
    length = struct.pack("<H" if version == (1, 0) else "<I", len(header.encode()))
    data = X.tobytes()
    path.write_bytes(b"\x93NUMPY" + bytes(version) + length + header.encode() + data)
    return path


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'x' $\x00' : (\n",
        "{'descr': '''<f8",
        "(" * 5000,
        HEADER.replace("3)", "-3)"),
        HEADER.replace("(4", "(-4"),
        HEADER.replace("3)", "True)"),
        HEADER.replace("'<f8'", "[1]"),
        "{'a': 1}",
        "",
    ],
)
def test_npy_headers(tmp_path: Path, header: str) -> None:
    source = npy(tmp_path / "x.npy", header)
    refused("x.npy: not a NumPy array (", "numpy.save", source=source, with_labels=False)


def test_npy_headers_longer_than_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b"{")
    refused("a header of 4,294,967,295 bytes", source=path, with_labels=False)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_npy(tmp_path: Path, version: tuple[int, int]) -> None:
    source = open_source(npy(tmp_path / "x.npy", HEADER, version), with_labels=False)
    (chunk,) = source.chunks(9)
    np.testing.assert_array_equal(chunk.x, X)


def marked(path: Path, local: int, central: int, value: int) -> Path:
    """A whole `.npz` with a 16-bit field of all its entries changed; offsets in both headers."""
    np.savez(path, X=X, y=Y)
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
        at = content.find(signature)
        while at >= 0:
            content[at + offset : at + offset + 2] = struct.pack("<H", value)
            at = content.find(signature, at + 1)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ((6, 8), 0x01, "it is encrypted; save it without a password"),
        ((6, 8), 0x41, "it is encrypted"),
        ((6, 8), 0x20, "cannot be read"),
        ((8, 10), 97, "packed by method 97"),
    ],
)
def test_zip_methods(tmp_path: Path, place: tuple[int, int], value: int, words: str) -> None:
    refused("t.npz[X]", words, source=marked(tmp_path / "t.npz", *place, value))


@pytest.mark.parametrize(
    "metadata",
    [
        *(b"{", b"[]", b"3", b"null", b"\xff", b"[" * 100_000, b"1" * 5000),
        *(b'{"index_columns": 3}', b'{"index_columns": null}'),
    ],
)
def test_pandas_metadata_in_parquet(tmp_path: Path, metadata: bytes) -> None:
    table = pa.table({"a": [1.0, 2.0], "y": [0, 1]})
    path = tmp_path / "t.parquet"
    pq.write_table(table.replace_schema_metadata({b"pandas": metadata}), path)
    refused("t.parquet: its pandas metadata", source=path, label_column="y")


def group(path: Path, zarr_format: Any = 3) -> Path:
    root = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    root.create_array("x", data=X, chunks=(2, 3))
    root.create_array("y", data=Y)
    return path


@pytest.mark.parametrize("node", ["x", "y", "."])
@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000, "[1", "null", "[]"])
def test_zarr_metadata_that_is_none(tmp_path: Path, node: str, content: str) -> None:
    path = group(tmp_path / "g")
    (path / node / "zarr.json").write_text(content)
    refused("g", "not a readable", source=path)


@pytest.mark.parametrize(("zarr_format", "name"), [(2, ".zarray"), (3, "zarr.json")])
def test_zarr_chunks_of_no_rows(tmp_path: Path, zarr_format: int, name: str) -> None:
    path = group(tmp_path / "g", zarr_format)
    file = path / "x" / name
    meta = json.loads(file.read_text())
    grid = {"name": "regular", "configuration": {"chunk_shape": [0, 3]}}
    meta |= {"chunk_grid": grid} if zarr_format == 3 else {"chunks": [0, 3]}
    file.write_text(json.dumps(meta))
    refused("g[x]: not a readable array", source=path)


@pytest.mark.parametrize("content", [b"PK", b"\x93NUMPY", b"PAR1", b"\x1f\x8b", b"\0" * 99])
@pytest.mark.parametrize("name", ["t.npz", "t.npy", "t.parquet", "t.csv.gz", "t.csv"])
def test_a_few_bytes(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with_labels = name not in ("t.npy",)
    refused(name, source=path, label_column="y", with_labels=with_labels)


@pytest.mark.parametrize(
    "url",
    ["data:text/csv,a,y", "data:text/csv;base64,!!!", "data://x.csv", "a\0b.csv", "http://[/a.csv"],
)
def test_addresses(tmp_path: Path, url: str) -> None:
    refused(source=url, label_column="y")
    np.save(tmp_path / "x.npy", X)
    refused(source=tmp_path / "x.npy", labels=url)


def test_a_zero_byte_in_the_path_of_a_run() -> None:
    with pytest.raises(InputError, match="zero byte"):
        Location.of("runs/a\0b")


def test_zip_entries_that_lie_about_their_length(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, shape in (("X", "(1000000, 3)"), ("y", "(1000000,)")):
            header = HEADER.replace("(4, 3)", shape)
            archive.writestr(f"{name}.npy", npy(tmp_path / "x", header).read_bytes())
    refused("t.npz[X]", "bytes where 24,000,", source=path)


def test_npy_headers_of_python_2_are_read_without_a_warning(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    source = npy(tmp_path / "x.npy", HEADER.replace("(4,", "(4L,"))
    (chunk,) = open_source(source, with_labels=False).chunks(9)
    np.testing.assert_array_equal(chunk.x, X)
    refused("not a NumPy array", source=npy(source, HEADER + "4L$"), with_labels=False)
    assert not recwarn.list


def test_text_whose_offsets_lie_is_damaged(tmp_path: Path) -> None:
    """What reads it would leave the process's memory."""
    offsets = np.array([0, 1 << 30, 2, 3], np.int32)
    text = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"abc")]
    )
    table = pa.RecordBatch.from_arrays([pa.array([1.0, 2.0, 3.0]), text], names=["x", "y"])
    with pa.ipc.new_file(tmp_path / "a.feather", table.schema) as file:
        file.write_batch(table)
    refused("a.feather", "damaged", source=tmp_path / "a.feather", label_column="y")
