"""CSV and Parquet as people really write them; memory while reading."""

import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from storage.sources.base import Source
from storage.sources.opening import open_source
from storage.sources.values.labels import LabelCodes


def read(source: Source, rows: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    chunks = list(source.chunks(rows))
    labels = [chunk.label for chunk in chunks if chunk.label is not None]
    return np.concatenate([chunk.x for chunk in chunks]), np.concatenate(labels)


def test_types_that_change_after_the_first_block(tmp_path: Path) -> None:
    n = 300_000
    lines = ["a,b,y"] + [f"{i % 9},{i % 7},{i % 2}" for i in range(n)]
    lines += ["0.5,,1", "1e3,NA,1.0", "-inf,1e39,0", " 2 , 3,0"]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines))
    assert path.stat().st_size > 1 << 20
    x, label = read(open_source(path, label_column="y"), 4096)
    assert len(x) == n + 4
    expected = [[0.5, np.nan], [1000, np.nan], [-np.inf, np.inf], [2, 3]]
    np.testing.assert_array_equal(x[n:], np.array(expected, np.float32))
    assert label.dtype == np.int64
    assert label[n:].tolist() == [1, 1, 0, 0]


def test_json_lines_whose_keys_and_types_change_after_the_first_piece(tmp_path: Path) -> None:
    lines = ['{"a": 1, "y": "2024-03-05", "none": null}', *['{"a": 2, "y": "no"}'] * 70_000]
    lines += ['{"y": "no", "b": -0.5}', "", '{"y": null, "a": 0.25, "extra": 3}\r']
    path = tmp_path / "t.jsonl"
    path.write_text("\ufeff" + "\n".join(lines))
    assert path.stat().st_size > 1 << 20
    source = open_source(path, label_column="y")
    assert source.feature_names == ("a", "none", "b", "extra")
    x, label = read(source, 4096)
    nan = np.nan
    expected = [[1, nan, nan, nan], [2, nan, nan, nan], [nan, nan, -0.5, nan], [0.25, nan, nan, 3]]
    np.testing.assert_array_equal(x[[0, 1, -2, -1]], np.array(expected, np.float32))
    assert label[[0, 1, -2, -1]].tolist() == ["2024-03-05", "no", "no", None]
    tracemalloc.start()
    later = next(source.chunks(1000, 70))
    assert tracemalloc.get_traced_memory()[1] < 16 << 20  # Python's part; Arrow holds one piece
    tracemalloc.stop()
    np.testing.assert_array_equal(later.x, x[70_000:])


def test_labels_that_turn_to_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "1,1\n" * 400_000 + "1,no\n1,1.0\n")
    codes = LabelCodes()
    encoded = [
        codes.encode(chunk.label)
        for chunk in open_source(path, label_column="y").chunks(65_536)
        if chunk.label is not None
    ]
    assert codes.values == (1, "no")
    assert np.concatenate(encoded)[-3:].tolist() == [0, 1, 0]


def test_rows_and_header_with_line_breaks_and_spaces(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('"age\n(years)", b ,y\n1,2,"no, really"\n\n3,4,yes\n')
    source = open_source(path, label_column="y")
    assert source.feature_names == ("age\n(years)", "b")
    x, label = read(source)
    assert x.tolist() == [[1, 2], [3, 4]]
    assert label.tolist() == ["no, really", "yes"]


def test_a_wide_table_has_rows_longer_than_a_block(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    names = [f"c{i}" for i in range(30_000)]
    row = ",".join(["0.12345678901234567890"] * len(names))
    path.write_text(",".join([*names, "y"]) + "\n" + f"{row},0\n{row},1\n")
    x, label = read(open_source(path, label_column="y"))
    assert x.shape == (2, 30_000)
    assert label.tolist() == [0, 1]


def test_parquet_columns(tmp_path: Path) -> None:
    table = pa.table(
        {
            "a.b": pa.array([1, None, 3], pa.int32()),
            "flag": [True, False, None],
            "level": pa.array([1.5, 2.5, 1.5]).dictionary_encode(),
            "void": pa.nulls(3),
            "sick": pa.array(["no", "yes", None]).dictionary_encode(),
            "__index_level_0__": [7, 8, 9],
        }
    ).replace_schema_metadata({"pandas": '{"index_columns": ["__index_level_0__"]}'})
    pq.write_table(table, tmp_path / "t.parquet")
    source = open_source(tmp_path / "t.parquet", label_column="sick")
    assert source.feature_names == ("a.b", "flag", "level", "void")
    x, label = read(source)
    nan = np.nan
    expected = [[1, 1, 1.5, nan], [nan, 0, 2.5, nan], [3, nan, 1.5, nan]]
    np.testing.assert_array_equal(x, np.array(expected, np.float32))
    assert label.tolist() == ["no", "yes", None]


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        (pa.array([0, 1, None]), [0, 1, None]),
        (pa.array([0.0, 1.0, 0.5]), [0.0, 1.0, 0.5]),
        (pa.array([True, False, True]), [True, False, True]),
        (pa.nulls(3), [None, None, None]),
    ],
)
def test_parquet_labels(tmp_path: Path, column: pa.Array, labels: list[object]) -> None:
    pq.write_table(pa.table({"a": [1, 2, 3], "y": column}), tmp_path / "t.parquet")
    assert read(open_source(tmp_path / "t.parquet", label_column="y"))[1].tolist() == labels


def test_labels_file_for_a_table(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2, 3], "y": [7, 7, 7]}), tmp_path / "t.parquet")
    (tmp_path / "labels.csv").write_text("row,sick\n0,no\n1,yes\n2,no\n")
    source = open_source(
        tmp_path / "t.parquet", labels=tmp_path / "labels.csv", label_column="sick", ignore="y"
    )
    assert source.feature_names == ("a",)
    assert source.label_name == "sick"
    assert read(source)[1].tolist() == ["no", "yes", "no"]
    (tmp_path / "one.txt").write_text("0\n1\n0\n")
    assert read(open_source(tmp_path / "t.parquet", tmp_path / "one.txt"))[1].tolist() == [0, 1, 0]


def large(tmp_path: Path, kind: str) -> Source:
    x = np.random.default_rng(0).normal(size=(80_000, 64)).astype(np.float32)
    y = np.arange(len(x)) % 2
    path = tmp_path / f"t.{kind}"
    if kind == "npz":
        np.savez_compressed(path, X=x, y=y)
    elif kind == "npy":
        np.save(path, np.asfortranarray(x))
        np.save(tmp_path / "y.npy", y)
        return open_source(path, tmp_path / "y.npy")
    elif kind == "zarr":
        group = zarr.open_group(path, mode="w")
        group.create_array("x", data=x, chunks=(2000, 64))
        group.create_array("y", data=y, chunks=(2000,))
    elif kind == "parquet":
        table = pa.table({f"c{i}": x[:, i] for i in range(64)} | {"y": y})
        options = {"compression": "none", "use_dictionary": False, "data_page_size": 16 << 10}
        pq.write_table(table, path, row_group_size=len(x), **options)
        return open_source(path, label_column="y")
    else:
        row = ",".join(f"{value:.3f}" for value in x[0])
        path.write_text(",".join(f"c{i}" for i in range(64)) + ",y\n" + f"{row},1\n" * 200_000)
        return open_source(path, label_column="y")
    return open_source(path)


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy", "npz", "zarr"])
def test_memory_is_bounded(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.sources.formats.parquet.BUFFER_BYTES", 4 << 20)
    source = large(tmp_path, kind)
    assert source.n_bytes > (70 << 20 if kind == "csv" else 15 << 20)
    tracemalloc.start()
    arrow = pa.total_allocated_bytes()
    most = 0
    for _ in source.chunks(1000):
        most = max(most, pa.total_allocated_bytes() - arrow)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (48 << 20 if kind == "csv" else 6 << 20)  # CSV reads 32 MiB ahead
    assert most < 12 << 20


def test_a_large_chunk_is_not_read_in_one_piece_of_another_type(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((100_000, 32)))
    source = open_source(tmp_path / "x.npy", with_labels=False)
    tracemalloc.start()
    chunk = next(source.chunks(10**6))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert chunk.x.nbytes == 12_800_000
    assert peak < 2 * chunk.x.nbytes + (12 << 20)


def test_errors_do_not_wait_for_the_consumer(tmp_path: Path) -> None:
    """An error of the code that reads chunks is not taken for one of the source."""
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))

    def fail(_: object) -> None:
        raise OSError("mine")

    chunks = open_source(tmp_path / "x.npy", with_labels=False).chunks(1)
    with pytest.raises(OSError, match=r"^mine$"):
        list(map(fail, chunks))
