"""Every fault of a source is one clear line: what, where and the remedy."""

import gzip
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from fsspec.implementations.local import LocalFileSystem
from refusals import refused, saved, text

from storage.errors import ClusterError, InputError, KnnoiseError, StorageError
from storage.sources.base import Source
from storage.sources.opening import open_source
from storage.sources.request import Dialect

X = np.arange(12.0).reshape(4, 3)


def test_exit_codes() -> None:
    codes = [kind.exit_code for kind in (InputError, StorageError, ClusterError)]
    assert codes == [2, 3, 4]
    assert str(KnnoiseError("a\nb\r\nc")) == "a b c"


LONG = "0" * 54  # of 40,000 such lines several blocks are read


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", ["t.csv: the file is empty"]),
        ("\n\n", ["t.csv: the file is empty"]),
        ("a,y\n", ["no rows below the header"]),
        ("a,b\n1,2\n", ["no column 'y'; columns are 'a', 'b'"]),
        ("y\n1\n", ["no feature columns, only 'y'; add numeric ones"]),
        ("a;y\n1;2\n", ["no column 'y'", "'a;y'"]),
        ("a,a,y\n1,2,3\n", ["names occur twice: 'a'; rename"]),
        ("a,y\n1,0\n\n\n2,1\nx,1", ["'x' at row 2 (from 0)"]),
        ('"a\nb",y\n1,0\nx,1', ["'x' at row 1 (from 0)"]),
        (",a,y\n0,1,2\n", ["column 1 has no name", "saved row index"]),
        ("a,y\n1,0\n,1\nParis,1\n", ["column 'a' is not numeric: 'Paris' at row 2 (from 0)"]),
        ("\n\na,y\n1,0\nTrue,1\n", ["column 'a' is not numeric: 'True' at row 1 (from 0)"]),
        ("b,a,y\n" + f"1.{LONG},2,0\n" * 40_000 + "1,?,0\n", ["'a'", "'?' at row 40000 (from"]),
        ("a,b,y\n1,2,0\n1,2\n", ["row 1 (from 0) has 2 cells, the header has 3"]),
        ("\na,b,y\n1,2,0\n1,2,0,9\n", ["row 1 (from 0) has 4 cells, the header has 3"]),
        ("a,y\n1,0\n2,1\n3," + '"' + "0\n1," * 800_000, ["does not end within", "quote"]),
        ("a,y\n1,0\n2,1\n3," + '"' + "0\n1," * 9, ["'y' holds a line break at row 2", "quote"]),
        (b"a,y\n1,no\n2,\xe9t\xe9\n", ["row 1 (from 0), column 'y': not UTF-8"]),
        (b"\xe9,y\n1,no\n", ["t.csv: the header cannot be read", "utf-8"]),
        ("a,y\n1,0\n" + "9" * 200_000 + "z,1\n", ["'999", "..."]),
        ("a,y\nred,0\n1,1\n", ["'red' at row 0", "give --encode one-hot, else leave it out"]),
    ],
)
def test_csv(tmp_path: Path, content: str | bytes, parts: list[str]) -> None:
    message = refused(*parts, source=text(tmp_path, content), label_column="y")
    assert len(message) < 400


ROW = '{"a": 1, "y": "no"}\n'


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("\n \n", ["no keys in its lines"]),
        (ROW * 3 + "\n" + ROW[:-4], ["line 5 is no JSON object"]),
        (ROW + '{"a": tru, "y": 1}', ["line 2 cannot be read (Invalid value); correct it"]),
        (f"[\n{ROW}]", ["line 1 is no JSON object; give one a line"]),
        (ROW + ROW.strip() * 2, ["line 2 holds several objects"]),
        (ROW + '{"a": 1, "a": 2}', ["line 2", "was specified twice"]),
        (ROW * 70_000 + ROW.replace("1", '"x"'), ["line 70001", "from number to string"]),
        (b'{"a": 1, "y": "no"}\n{"y": "n\xe9"}', ["line 2 is not UTF-8"]),
        (ROW + '{"y": ' + "[" * 20_000 + "]" * 20_000 + "}", ["line 2 is nested too deeply"]),
        (ROW + " " * (6 << 20), ["line after line 1 has more than 4,194,304 bytes"]),
        ('{"a": {"b": 1}, "y": 1}', ["column 'a' is struct", "{'b': 1} at row 0", "--exclude a"]),
    ],
)
def test_json_lines(tmp_path: Path, content: str | bytes, parts: list[str]) -> None:
    refused("t.jsonl", *parts, source=text(tmp_path, content, "t.jsonl"), label_column="y")


def test_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused("/no/such.csv: no such file or folder", source="/no/such.csv", label_column="y")
    refused("nothing.npz: no such file", source="memory://nothing.npz")
    refused("nosuch://a.csv: the protocol nosuch is not allowed", source="nosuch://a.csv")
    refused("the folder is empty", source=tmp_path)
    refused("unknown kind of file; give .csv", source=text(tmp_path, "a", "t.xls"))
    refused("neither a Zarr group nor tables in it", source=tmp_path)
    refused("the file is empty", source=text(tmp_path, "", "t.npy"))
    path = text(tmp_path, "a,y\n1,2\n")
    refused("no label column given; give --label-column, one of 'a', 'y'", source=path)
    with pytest.raises(InputError, match="cannot be read"):
        open_source(path.rename(tmp_path / "t.parquet"), label_column="y")

    def deny(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(LocalFileSystem, "_open", deny)
    refused("t.csv: permission denied", source=text(tmp_path, "a,y\n1,2\n"), label_column="y")


@pytest.mark.parametrize("cut", [0.5, 0.9])
@pytest.mark.parametrize(
    "name", ["t.npz", "packed.npz", "t.parquet", "t.npy", "t.csv.gz", "t.jsonl"]
)
def test_cut_short(tmp_path: Path, name: str, cut: float) -> None:
    x = np.random.default_rng(0).normal(size=(4000, 3))
    path = tmp_path / name
    labels = {}
    if name.endswith(".npz"):
        (np.savez if name == "t.npz" else np.savez_compressed)(path, X=x, y=x[:, 0])
    elif name == "t.parquet":
        pq.write_table(pa.table({"a": x[:, 0], "y": x[:, 1]}), path)
        labels = {"label_column": "y"}
    elif name == "t.npy":
        np.save(path, x)
        labels = {"with_labels": False}
    elif name == "t.jsonl":
        path.write_text("".join(f'{{"a": {v}, "y": 1}}\n' for v in x[:, 0]) * 3)
        labels = {"label_column": "y"}
    else:
        path.write_bytes(gzip.compress(b"a,y\n" + b"\n".join(b"%r,1" % v for v in x[:, 0])))
        labels = {"label_column": "y"}
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * cut)])
    refused(name, source=path, **labels)


def test_flipped_bytes(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(4000, 3))
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "t.npz", X=x, y=x[:, 0] > 0)
        content = bytearray((tmp_path / "t.npz").read_bytes())
        content[5000] ^= 0xFF
        refused("t.npz[X]: cannot be read", source=text(tmp_path, bytes(content), "t.npz"))
    group = zarr.open_group(tmp_path / "g", mode="w")
    group.create_array("x", data=x, chunks=(1000, 3))
    group.create_array("y", data=x[:, 0] > 0)
    (tmp_path / "g/x/c/2/0").write_bytes(b"nonsense")
    refused("g[x]: rows 2000 to", "cannot be decoded", source=tmp_path / "g")


def test_sums_of_members_are_checked_by_reading_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Python 3.13 on none is checked of a member that was sought in."""

    def seek(*_: object) -> int:
        raise AssertionError("the sum is not checked now")

    x = np.random.default_rng(0).normal(size=(4000, 3))
    np.savez(tmp_path / "t.npz", X=x, y=x[:, 0] > 0)
    monkeypatch.setattr(zipfile.ZipExtFile, "seek", seek)
    read = [chunk.x for chunk in open_source(source=tmp_path / "t.npz").chunks(1000)]
    np.testing.assert_array_equal(np.concatenate(read), x.astype(np.float32))


def test_parquet(tmp_path: Path) -> None:
    def with_table(columns: dict[str, Any], *parts: str) -> None:
        pq.write_table(pa.table(columns), tmp_path / "t.parquet")
        refused("t.parquet", *parts, source=tmp_path / "t.parquet", label_column="y")

    with_table({"a": ["Paris"], "y": [1]}, "column 'a' is string, not numeric: 'Paris' at row 0")
    with_table({"a": [["b"]], "y": [1]}, "column 'a' is list", "['b'] at row 0")
    with_table({"a": [1], "y": [b"x"]}, "label column 'y' is binary; labels must be")
    with_table({"a": [1]}, "no column 'y'; columns are 'a'")
    with_table({"a": pa.array([], pa.int8()), "y": pa.array([], pa.int8())}, "no rows")
    pq.write_table(pa.table([[1], [1], [1]], names=["a", "a", "y"]), tmp_path / "t.parquet")
    refused("names occur twice: 'a'", source=tmp_path / "t.parquet", label_column="y")
    pq.write_table(pa.table({"a": [1], "y": [1]}), tmp_path / "t.parquet")
    pq.write_table(pa.table({"b": [1], "y": [1]}), tmp_path / "u.parquet")
    refused("u.parquet: columns 'b', 'y' are not those of", source=tmp_path, label_column="y")


def test_features_of_training(tmp_path: Path) -> None:
    path = text(tmp_path, "b,a,y\n1,2,0\n")

    def scored(features: tuple[str, ...], source: Path = path) -> Source:
        return open_source(source, with_labels=False, features=features, ignore="y")

    assert next(scored(("a", "b")).chunks(5)).x.tolist() == [[2, 1]]
    swallowing = text(tmp_path, 'b,a,y\n1,2,"0\n1,2,1\n', "quote.csv")
    with pytest.raises(InputError, match="'y' holds a line break at row 0"):
        next(scored(("a", "b"), swallowing).chunks(5))
    with pytest.raises(InputError, match=r"\(2, trained with 2\): missing 'c'; extra 'b'"):
        scored(("a", "c"))
    with pytest.raises(InputError, match=r"\(2, trained with 1\): extra 'b'; give the columns"):
        scored(("a",))
    with pytest.raises(InputError, match="3 features, but training had 2; give the same"):
        scored(("a", "b"), saved(tmp_path, X))
    assert scored(("a", "b", "c"), saved(tmp_path, X)).feature_names == ("a", "b", "c")


def test_two_decimal_marks_in_one_file_are_told(tmp_path: Path) -> None:
    path = text(tmp_path, 'a,b,y\n0.052,"1,5",0\n2.145,"2,5",1\n')
    wanted: dict[str, Any] = {"source": path, "label_column": "y"}
    refused("'1,5' at row 0", "give --decimal ,", **wanted)
    dialect = Dialect(sep=",", decimal=",")
    refused("'0.052' at row 0", "with one decimal mark", **wanted, dialect=dialect)
