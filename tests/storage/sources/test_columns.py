"""Which columns are features, and which one names the rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from storage.errors import InputError
from storage.sources.base import Source
from storage.sources.joins import read_annotations, with_corrections
from storage.sources.opening import open_source
from storage.sources.request import PLAIN, Columns

TABLE = pd.DataFrame(
    {
        "patient": ["007", "8", "ä,9"],
        "lab_a": [1.0, 2.0, 3.0],
        "lab_b": [4.0, 5.0, 6.0],
        "note": ["one\ntwo", "", "x"],
        "age": [7, 8, 9],
        "sick": [0, 1, 0],
    }
)


def ids(source: Source) -> list[str]:
    return [str(name) for chunk in source.chunks(2) for name in chunk.id]


def write(folder: Path, kind: str) -> Path:
    path = folder / f"t.{kind}"
    if kind == "jsonl":
        TABLE.to_json(path, orient="records", lines=True)
        return path
    {"csv": TABLE.to_csv, "parquet": TABLE.to_parquet, "feather": TABLE.to_feather}[kind](
        path, **({"index": False} if kind == "csv" else {})
    )
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "jsonl"])
def test_columns_are_chosen_by_name_and_pattern(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, kind)
    for columns, names in (
        (Columns("patient", leave=("note",)), ("lab_a", "lab_b", "age")),
        (Columns("patient", keep=("lab_*",)), ("lab_a", "lab_b")),
        (Columns("patient", keep=("lab_?", "age"), leave=("*_b",)), ("lab_a", "age")),
        (Columns("patient", left_out=("note", "age", "gone")), ("lab_a", "lab_b")),
    ):
        source = open_source(path, label_column="sick", columns=columns)
        assert source.feature_names == names
        assert source.beside.id == "patient"
        assert ids(source) == ["007", "8", "ä,9"]
        found = np.concatenate([chunk.x for chunk in source.chunks(2)])
        assert np.array_equal(found, TABLE[list(names)].to_numpy(np.float32))


def test_a_name_that_looks_like_a_pattern_names_its_column_alone(tmp_path: Path) -> None:
    TABLE.rename(columns={"lab_b": "lab_*", "note": "ag?"}).to_csv(tmp_path / "t.csv", index=False)
    columns = Columns(keep=("lab_*", "age"), leave=("ag?",))
    source = open_source(tmp_path / "t.csv", label_column="sick", columns=columns)
    assert source.feature_names == ("lab_*", "age")


def test_what_names_no_column_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "csv")
    for columns, said in (
        (Columns("nobody"), "--id-column 'nobody' is not there"),
        (Columns("sick"), "--id-column 'sick' is the column of the labels"),
        (Columns(keep=("lab_*", "x*")), "--features 'x.' matches no column"),
        (Columns(leave=("nota",)), "--exclude 'nota' matches no column; columns are"),
        (Columns(leave=("age, note",)), "no column; several are given one by one, not with commas"),
        (Columns(leave=("age,nota",)), "--exclude 'age,nota' matches no column; columns are"),
        (Columns(leave=("*",)), "no feature columns are left"),
    ):
        with pytest.raises(InputError, match=said.replace("*", ".")):
            open_source(path, label_column="sick", columns=columns)


def test_a_scored_table_may_have_what_training_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, "csv")
    for columns in (Columns(keep=("lab_*",)), Columns(leave=("age", "note", "pat*", "gone"))):
        source = open_source(
            path, with_labels=False, features=("lab_b", "lab_a"), ignore="sick", columns=columns
        )
        assert next(chunk.x.tolist() for chunk in source.chunks(1)) == [[4.0, 1.0]]
    there = Columns("other", leave=("patient", "note"), id_needed=False)
    names = ("lab_a", "lab_b", "age")
    source = open_source(path, with_labels=False, features=names, ignore="sick", columns=there)
    assert source.beside.id is None


def test_a_pattern_names_a_whole_embedding(tmp_path: Path) -> None:
    table = pa.table(
        {"id": [3, 4], "vector": [[1.0, 2.0], [3.0, 4.0]], "other": [[0.5], [0.6]], "y": [0, 1]}
    )
    pq.write_table(table, tmp_path / "t.parquet")
    for pattern in ("vector", "vec*"):
        columns = Columns("id", leave=(pattern,))
        source = open_source(tmp_path / "t.parquet", label_column="y", columns=columns)
        assert source.feature_names == ("other[0]",)
        assert ids(source) == ["3", "4"]


def test_arrays_have_ids_and_numbered_features(tmp_path: Path) -> None:
    x, y = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([0, 1, 0, 1])
    names = np.array(["a", "b", "c", "d"])
    np.savez(tmp_path / "t.npz", X=x, y=y, name=names)
    group = zarr.open_group(tmp_path / "t.zarr", mode="w")
    with zarr.config.set({"array.write_empty_chunks": True}):
        for key, value in (("x", x), ("y", y), ("name", names.astype(np.dtypes.StringDType()))):
            group.create_array(key, data=value)
    columns = Columns("name", leave=("x1",))
    for path in (tmp_path / "t.npz", tmp_path / "t.zarr"):
        source = open_source(path, columns=columns)
        assert source.feature_names == ("x0", "x2")
        assert ids(source) == ["a", "b", "c", "d"]
        (chunk,) = open_source(
            path, with_labels=False, features=("x0", "x2"), columns=columns
        ).chunks(9)
        assert np.array_equal(chunk.x, x[:, [0, 2]])
    np.save(tmp_path / "t.npy", x)
    with pytest.raises(InputError, match="columns are 'X'; name one of them, or leave it out"):
        open_source(tmp_path / "t.npy", with_labels=False, columns=columns)
    pq.write_table(pa.table({"i": [0.5], "a": [1.0], "y": [1]}), tmp_path / "f.parquet")
    np.savez(tmp_path / "f.npz", X=x, y=y, i=x[:, 0])
    with pytest.raises(InputError, match="ids have dtype float32; give whole numbers or text"):
        open_source(tmp_path / "f.npz", columns=Columns("i"))
    with pytest.raises(InputError, match="is double; ids are text or whole numbers"):
        open_source(tmp_path / "f.parquet", label_column="y", columns=Columns("i"))


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_an_id_is_any_text(tmp_path: Path, kind: str) -> None:
    table = pd.DataFrame(
        {"id": ["NA", "null", "p 1"], "a": ["NA", "2", "3"], "y": ["no", "NA", "yes"]}
    )
    path = tmp_path / f"t.{kind}"
    table.to_csv(path, index=False) if kind == "csv" else table.to_excel(path, index=False)
    source = open_source(path, label_column="y", columns=Columns("id"))
    (chunk,) = source.chunks(9)
    assert chunk.id.tolist() == ["NA", "null", "p 1"]
    assert chunk.label.tolist() == ["no", None, "yes"]
    assert np.isnan(chunk.x[:, 0]).tolist() == [True, False, False]
    checked = tmp_path / "checked.csv"
    pd.DataFrame({"id": ["null", "NA"], "label": ["no", "NA"]}).to_csv(checked, index=False)
    corrections = with_corrections(source, str(checked)).corrections
    assert corrections is not None
    assert corrections.row.tolist() == [1]
    votes = pd.DataFrame({"id": ["null", "NA"], "annotator": ["A", "B"], "label": ["no", "NA"]})
    votes.to_csv(checked, index=False)
    found = read_annotations(str(checked), source, None, None, PLAIN)
    assert (found.row.tolist(), found.values, found.n_empty) == ([1], ("no",), 1)
