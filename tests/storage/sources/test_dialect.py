"""Text as it is written elsewhere: separators, decimal commas, encodings, packings."""

import bz2
import gzip
import lzma
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage.errors import InputError
from storage.sources.base import same
from storage.sources.opening import open_source
from storage.sources.request import Dialect

X = np.array([[1.5, -2.25], [3.0, 1e3], [0.5, 4.0]])
Y = ["no", "yes", "no"]
ROWS = [["größe", "b", "y"], *([*map(str, x), y] for x, y in zip(X, Y, strict=True))]


def text(sep: str = ",", decimal: str = ".") -> str:
    quote = '"' if sep == decimal else ""
    cells = [[f"{quote}{c.replace('.', decimal)}{quote}" for c in row] for row in ROWS]
    return "".join(sep.join(row) + "\n" for row in cells)


def read(path: Path, **more: Any) -> tuple[np.ndarray, list[Any], tuple[str, ...]]:
    source = open_source(path, label_column="y", **more)
    (chunk,) = source.chunks(9)
    assert chunk.label is not None
    return chunk.x, chunk.label.tolist(), source.feature_names


def check(path: Path, **more: Any) -> None:
    x, label, names = read(path, **more)
    np.testing.assert_array_equal(x, X.astype(np.float32))
    assert label == Y
    assert names == ("größe", "b")


@pytest.mark.parametrize("sep", [",", ";", "tab", "\t", "\\t", "|", "space", "^"])
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "latin1", "utf-16", "utf-32"])
def test_every_dialect(tmp_path: Path, sep: str, decimal: str, encoding: str) -> None:
    mark = {"tab": "\t", "\\t": "\t", "space": " "}.get(sep, sep)
    path = tmp_path / "t.csv"
    path.write_bytes(text(mark, decimal).encode(encoding))
    check(path, dialect=Dialect(sep, decimal, encoding))


def _zip(content: bytes) -> bytes:
    sink = BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/", "")
        archive.writestr("folder/any.csv", content)
        archive.writestr("__MACOSX/any", "")
    return sink.getvalue()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda content: pa.compress(content, "zstd", asbytes=True),
    ".zip": _zip,
}


@pytest.mark.parametrize("packing", sorted(PACKERS))
@pytest.mark.parametrize("kind", [".csv", ".tsv", ".CSV"])
def test_every_packing(tmp_path: Path, packing: str, kind: str) -> None:
    path = tmp_path / f"t{kind}{packing}"
    content = text("\t" if kind == ".tsv" else ",").encode()
    path.write_bytes(PACKERS[packing](content))
    check(path)


@pytest.mark.parametrize("packing", sorted(PACKERS))
def test_packed_text_of_many_blocks(tmp_path: Path, packing: str) -> None:
    values = np.random.default_rng(0).normal(size=200_000).round(6)
    content = ("a,y\n" + "".join(f"{v},{int(v > 0)}\n" for v in values)).encode()
    path = tmp_path / f"t.csv{packing}"
    path.write_bytes(PACKERS[packing](content))
    chunks = list(open_source(path, label_column="y").chunks(1 << 16))
    np.testing.assert_array_equal(
        np.concatenate([c.x[:, 0] for c in chunks]), values.astype(np.float32)
    )
    if packing in (".gz", ".bz2", ".xz"):  # several streams, one after the other
        path.write_bytes(PACKERS[packing](content) + PACKERS[packing](b"9,1\n"))
        assert sum(len(c.x) for c in open_source(path, label_column="y").chunks(99_999)) == 200_001


@pytest.mark.parametrize("packing", sorted(PACKERS))
def test_packed_labels(tmp_path: Path, packing: str) -> None:
    np.save(tmp_path / "x.npy", X)
    path = tmp_path / f"y.txt{packing}"
    path.write_bytes(PACKERS[packing]("\n".join(Y).encode()))
    (chunk,) = open_source(tmp_path / "x.npy", labels=path).chunks(9)
    assert chunk.label is not None
    assert chunk.label.tolist() == Y


@pytest.mark.parametrize("packing", sorted(PACKERS))
@pytest.mark.parametrize("share", [0.3, 0.95])
def test_packed_text_cut_short(tmp_path: Path, packing: str, share: float) -> None:
    values = np.random.default_rng(0).normal(size=20_000)
    whole = PACKERS[packing](("a,y\n" + "".join(f"{v},1\n" for v in values)).encode())
    path = tmp_path / f"t.csv{packing}"
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(InputError, match=r"t\.csv"):
        list(open_source(path, label_column="y").chunks(999))


def test_archives_of_many_files_or_none(tmp_path: Path) -> None:
    for members in ([], ["a.csv", "b.csv"]):
        with zipfile.ZipFile(tmp_path / "t.csv.zip", "w") as archive:
            for name in members:
                archive.writestr(name, text())
        with pytest.raises(InputError, match=f"{len(members)} files in the archive"):
            open_source(tmp_path / "t.csv.zip", label_column="y")


def test_xz_that_claims_memory(tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}]
    path = tmp_path / "t.csv.xz"
    path.write_bytes(lzma.compress(text().encode(), filters=filters))
    with pytest.raises(InputError, match=r"t\.csv\.xz: cannot be read \(Memory usage limit"):
        open_source(path, label_column="y")


@pytest.mark.parametrize(
    ("content", "dialect", "words"),
    [
        (
            text(";"),
            {},
            "no column 'y'; columns are 'größe;b;y'; its columns look separated by ';'",
        ),
        (text("|"), {}, "give --sep '|'"),
        (text("\t"), {}, "give --sep 'tab'"),
        (text(","), {"sep": ";"}, "give --sep ','"),
        (text(";", ","), {"sep": ";"}, "'1,5' at row 0 (from 0); if that is a decimal comma, give"),
        (text(), {"decimal": ","}, "as the decimal mark is; give --sep ','"),
    ],
)
def test_hints(tmp_path: Path, content: str, dialect: dict[str, str], words: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        list(open_source(path, label_column="y", dialect=Dialect(**dialect)).chunks(9))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("encoding", "words"),
    [("cp1252", "give --encoding cp1252 or another"), ("utf-16", "give --encoding utf-16")],
)
def test_hints_of_encodings(tmp_path: Path, encoding: str, words: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text().encode(encoding))
    with pytest.raises(InputError, match=words):
        open_source(path, label_column="y")
    path.write_bytes("a,y\n1,für\n2,no\n".encode(encoding))
    with pytest.raises(InputError, match=words):
        list(open_source(path, label_column="y").chunks(9))


@pytest.mark.parametrize(
    "given",
    [
        *({"sep": sep} for sep in ("", ";;", "\n", '"', "é", "\0")),
        *({"decimal": decimal} for decimal in ("", ";", ".,")),
        *(
            {"encoding": encoding}
            for encoding in ("", "nonsense", "rot13", "hex", "a\0b", "x" * 999)
        ),
    ],
)
def test_what_no_dialect_can_be(given: dict[str, str]) -> None:
    (name,) = given
    with pytest.raises(InputError, match=f"--{name}"):
        Dialect(**given)


def test_text_read_otherwise_is_another_source(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;b,y\n1;2,3\n4;5,6\n")
    plain = open_source(path, label_column="y")
    other = open_source(path, label_column="b,y", dialect=Dialect(";"))
    assert "dialect" not in plain.fingerprint()
    assert other.fingerprint()["dialect"] == {"sep": ";"}
    assert same(plain.fingerprint(), plain) is None
    assert same(other.fingerprint(), other) is None
    assert "text is read as" in str(same(plain.fingerprint(), other))
    assert "text is read as" in str(same(other.fingerprint(), plain))
