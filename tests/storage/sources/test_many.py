"""Sources of several files, of folders that are columns, of Arrow files and of lists of numbers."""

import json
import os
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from storage.errors import InputError
from storage.sources.base import Source
from storage.sources.opening import open_source

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.normal(size=(60, 2)).round(3), columns=["a", "b"]).assign(
    y=RNG.integers(0, 2, 60)
)


def write(table: pd.DataFrame, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False, row_group_size=7)
    elif path.suffix in (".feather", ".arrow"):
        pyarrow.feather.write_feather(pa.Table.from_pandas(table), path, chunksize=7)
    elif "jsonl" in path.name:
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_csv(path, index=False)
    return path


def read(source: Source, rows: int = 11, first: int = 0) -> tuple[np.ndarray, list[Any], list[int]]:
    chunks = list(source.chunks(rows, first))
    labels = [v for c in chunks if c.label is not None for v in c.label.tolist()]
    ids = [int(i) for c in chunks for i in c.source_id]
    return np.concatenate([c.x for c in chunks]), labels, ids


EXTENSIONS = ["csv", "csv.gz", "parquet", "feather", "arrow", "jsonl", "jsonl.gz"]
CUTS = [0, 5, 5, 30, 60]
"""The second of the four files has no rows."""


@pytest.mark.parametrize("extension", EXTENSIONS)
@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("rows", [1, 11, 1000])
def test_folders_and_patterns_are_their_files_in_order(
    tmp_path: Path, extension: str, first: int, rows: int
) -> None:
    cuts = CUTS if extension in ("parquet", "feather", "arrow") else [0, 5, 29, 30, 60]
    for number, (a, b) in enumerate(pairwise(cuts)):
        part = TABLE.iloc[a:b]
        part = part[["b", "y", "a"]] if number == 2 else part
        write(part, tmp_path / f"d/part-{number}.{extension}")
    for name in ("_SUCCESS", ".part-0.crc", f"._part-1.{extension}", "read.me"):
        (tmp_path / "d" / name).write_text("no table")
    expected = TABLE[["a", "b"]].to_numpy(np.float32)[first * rows :]
    for where in (tmp_path / "d", tmp_path / f"d/part-*.{extension}", tmp_path / "d/p*[0-3].*"):
        source = open_source(where, label_column="y")
        if first * rows < 60:
            x, label, ids = read(source, rows, first)
            np.testing.assert_array_equal(x, expected)
            assert label == TABLE["y"].tolist()[first * rows :]
            numbers = np.repeat(range(4), np.diff(cuts))[first * rows :]
            assert ids == numbers.tolist()
        assert [Path(file).name for file in source.files] == [
            f"part-{i}.{extension}" for i in range(4)
        ]
        assert len({part.name for part in source.parts}) == 4


def test_files_of_one_name_in_several_folders(tmp_path: Path) -> None:
    for day in ("1", "2"):
        write(TABLE, tmp_path / f"day{day}/t.csv")
    source = open_source(tmp_path / "day*/t.csv", label_column="y")
    assert [part.name for part in source.parts] == ["day1/t.csv", "day2/t.csv"]
    x, _, _ = read(source)
    assert len(x) == 120


def test_patterns_in_a_remote_store() -> None:
    fs = fsspec.filesystem("memory")
    for i in range(3):
        fs.pipe(f"/many/t{i}.csv", TABLE.iloc[i * 20 : i * 20 + 20].to_csv(index=False).encode())
    x, _, ids = read(open_source("memory://many/t*.csv", label_column="y"))
    np.testing.assert_array_equal(x, TABLE[["a", "b"]].to_numpy(np.float32))
    assert ids == [0] * 20 + [1] * 20 + [2] * 20


def test_a_name_that_looks_like_a_pattern(tmp_path: Path) -> None:
    write(TABLE, tmp_path / "t[1].csv")
    assert open_source(tmp_path / "t[1].csv", label_column="y").files[0].endswith("t[1].csv")


@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_a_pattern_leaves_out_no_folder_that_may_not_be_read(mode: int) -> None:
    with TemporaryDirectory() as name:
        for child in ("open", "shut"):
            write(TABLE, Path(name, child, "a.csv"))
        Path(name).chmod(0o755)
        shut, user = Path(name, "shut"), os.geteuid()
        shut.chmod(mode)
        try:
            if user == 0:
                os.seteuid(65534)
            for pattern in ("shut/*.csv", "*/a.csv", "*/*.csv"):
                with pytest.raises(InputError, match="shut: permission denied; make it readable"):
                    open_source(Path(name, pattern), label_column="y")
            assert len(open_source(Path(name, "o*/*.csv"), label_column="y").files) == 1
        finally:
            os.seteuid(user)
            shut.chmod(0o700)
        with pytest.raises(InputError, match="gone: no such file or folder"):
            open_source(Path(name, "gone/*.csv"), label_column="y")


def test_what_no_table_can_be_made_of(tmp_path: Path) -> None:
    write(TABLE, tmp_path / "d/a.csv")
    write(TABLE, tmp_path / "d/b.parquet")
    for where, words in (
        ("d", r"files of several kinds in it \(csv, parquet\); give one kind by a pattern"),
        ("d/*", "matches 'a.csv', 'b.parquet'; give tables of one kind"),
        ("d/*.npy", "no file matches; check the pattern"),
    ):
        with pytest.raises(InputError, match=words):
            open_source(tmp_path / where, label_column="y")
    write(TABLE.rename(columns={"a": "c"}), tmp_path / "e/b.csv")
    write(TABLE, tmp_path / "e/a.csv")
    with pytest.raises(InputError, match=r"b\.csv: columns 'c', 'b', 'y' are not those"):
        open_source(tmp_path / "e", label_column="y")
    (tmp_path / "e/b.csv").write_text("a,b,y\n")
    with pytest.raises(InputError, match=r"b\.csv: no rows below the header"):
        open_source(tmp_path / "e", label_column="y")
    (tmp_path / "e/b.csv").write_text("a,b,y\n1,2,0\n3,x,0\n")
    with pytest.raises(InputError, match=r"b\.csv: feature column 'b' is not numeric: 'x'"):
        read(open_source(tmp_path / "e", label_column="y"))


@pytest.mark.parametrize("extension", ["csv", "parquet", "feather", "jsonl"])
def test_folders_that_are_columns(tmp_path: Path, extension: str) -> None:
    parts = []
    for year in (2019, 2020):
        for site in ("A b", "__HIVE_DEFAULT_PARTITION__"):
            rows = TABLE.iloc[len(parts) * 15 : len(parts) * 15 + 15]
            name = site.replace(" ", "%20")
            write(rows, tmp_path / f"d/year={year}/site={name}/x.{extension}")
            parts.append(rows.assign(year=year, site=None if "_" in site else site))
    source = open_source(tmp_path / "d", label_column="site")
    assert source.feature_names == ("a", "b", "y", "year")
    x, label, _ = read(source)
    order = [1, 0, 3, 2] if label[0] is None else [0, 1, 2, 3]
    whole = pd.concat([parts[i] for i in order])
    np.testing.assert_array_equal(x, whole[["a", "b", "y", "year"]].to_numpy(np.float32))
    assert label == [None if v is None else v for v in whole["site"].tolist()]
    with pytest.raises(InputError, match="feature column 'site' is string, not numeric"):
        open_source(tmp_path / "d", label_column="y")
    write(TABLE, tmp_path / f"d/year=2019/other.{extension}")
    with pytest.raises(InputError, match="lies in folders"):
        open_source(tmp_path / "d", label_column="site")


LISTS = {
    "list": pa.list_(pa.float64()),
    "large": pa.large_list(pa.float32()),
    "fixed": pa.list_(pa.float32(), 3),
    "half": pa.list_(pa.float16(), 3),
    "int": pa.list_(pa.int8()),
}


@pytest.mark.parametrize("kind", sorted(LISTS))
@pytest.mark.parametrize("extension", ["parquet", "feather", "jsonl"])
def test_embeddings(tmp_path: Path, kind: str, extension: str) -> None:
    values = np.random.default_rng(1).integers(-9, 9, (50, 3)).astype(np.float32)
    more = np.random.default_rng(2).normal(size=(50, 2)).astype(np.float32)
    rows: list[Any] = [row.tolist() for row in values]
    if kind != "half":
        rows[7] = None
        rows[8] = [None, *rows[8][1:]]
        values[7], values[8, 0] = np.nan, np.nan
    else:
        rows = [[np.float16(v) for v in row] for row in rows]
    table = pa.table(
        {
            "first": pa.array(rows, LISTS[kind]),
            "n": np.arange(50.0),
            "second": pa.array(more.tolist(), pa.list_(pa.float32())),
            "y": np.arange(50) % 2,
        }
    )
    path = tmp_path / f"t.{extension}"
    if extension == "parquet":
        pq.write_table(table, path, row_group_size=8)
    elif extension == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        pyarrow.feather.write_feather(table, path, chunksize=8)
    source = open_source(path, label_column="y")
    names = ("first[0]", "first[1]", "first[2]", "n", "second[0]", "second[1]")
    assert source.feature_names == names
    x, label, _ = read(source)
    expected = np.column_stack([values, np.arange(50.0), more]).astype(np.float32)
    np.testing.assert_array_equal(x, expected)
    assert label == (np.arange(50) % 2).tolist()
    again, _, _ = read(source, 7, 3)
    np.testing.assert_array_equal(again, expected[21:])
    wanted = tuple(names[i] for i in (5, 0, 3, 1, 2, 4))
    scored = open_source(path, with_labels=False, features=wanted, ignore="y")
    np.testing.assert_array_equal(read(scored)[0], expected[:, [5, 0, 3, 1, 2, 4]])


def test_lists_that_are_no_embedding(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for lists, words in (
        (
            [[1.0, 2.0], [3.0]],
            r"t\.parquet: column 'e' has a list of 1 values, its first one of 2",
        ),
        ([None, ["a"]], r"feature column 'e' is list<.*>, not numeric: \['a'\] at row 1"),
        ([[], []], "feature column 'e' is list<.*>, not numeric"),
        ([["a"], ["b"]], r"not numeric: \['a'\] at row 0; leave it out with --exclude e"),
    ):
        pq.write_table(pa.table({"a": [1.0, 2.0], "e": lists, "y": [0, 1]}), path)
        with pytest.raises(InputError, match=words):
            read(open_source(path, label_column="y"))
    pq.write_table(pa.table({"e": [None, [3.0, 4.0]], "y": [0, 1]}), path)
    np.testing.assert_array_equal(read(open_source(path, label_column="y"))[0][1], [3.0, 4.0])


def test_files_without_rows_say_nothing_of_embeddings(tmp_path: Path) -> None:
    table = pa.table({"e": [[1.0, 2.0], [3.0, 4.0]], "y": [0, 1]})
    pq.write_table(table.slice(0, 0), tmp_path / "0.parquet")
    with pytest.raises(InputError, match=r"0\.parquet: no rows; give at least one"):
        open_source(tmp_path / "0.parquet", with_labels=False, features=("e[0]", "e[1]"))
    pq.write_table(table, tmp_path / "1.parquet")
    source = open_source(tmp_path, label_column="y")
    assert source.feature_names == ("e[0]", "e[1]")
    np.testing.assert_array_equal(read(source)[0], [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize("extension", ["parquet", "feather"])
def test_halves(tmp_path: Path, extension: str) -> None:
    halves = pa.array([np.float16(v) for v in (0.5, -2.0, 65504.0)] + [None], pa.float16())
    table = pa.table({"a": halves, "y": [0, 1, 0, 1]})
    path = tmp_path / f"t.{extension}"
    (pq.write_table if extension == "parquet" else pyarrow.feather.write_feather)(table, path)
    x, _, _ = read(open_source(path, label_column="y"))
    np.testing.assert_array_equal(x[:, 0], [0.5, -2.0, 65504.0, np.nan])


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
@pytest.mark.parametrize("cut", [0.3, 0.9])
def test_arrow_files_damaged(tmp_path: Path, compression: str, cut: float) -> None:
    path = tmp_path / "t.feather"
    pyarrow.feather.write_feather(pa.Table.from_pandas(TABLE), path, compression=compression)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * cut)])
    with pytest.raises(InputError, match=r"t\.feather: cannot be read"):
        open_source(path, label_column="y")


def test_arrow_files_in_batches_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from storage.sources.formats import arrow

    monkeypatch.setattr(arrow, "BATCH_BYTES", 1000)
    write(TABLE, tmp_path / "small.feather")
    open_source(tmp_path / "small.feather", label_column="y")
    pyarrow.feather.write_feather(pa.Table.from_pandas(TABLE), tmp_path / "t.feather")
    with pytest.raises(InputError, match=r"t\.feather: batches of 60 rows, .* chunksize"):
        open_source(tmp_path / "t.feather", label_column="y")
