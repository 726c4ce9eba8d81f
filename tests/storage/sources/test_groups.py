"""The column that says whose label each is: read from every format, coded, bounded."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from flows.steps.ingest.columns import GroupCodes
from storage.errors import InputError
from storage.sources.base import Source
from storage.sources.opening import open_source
from storage.sources.request import Coding, Columns

WHO = ["ann", "bob", "", "ann", "1.0", "1"]
CODES = [0, 1, -1, 0, 2, 2]
TABLE = pd.DataFrame({"a": range(6), "b": range(6, 12), "who": WHO, "y": [0, 1] * 3})


def codes(source: Source, rows: int = 4) -> tuple[list[int], tuple[Any, ...]]:
    """Codes of all rows, chunk by chunk, and the values."""
    assert source.beside.group is not None
    coder = GroupCodes(source.beside.group)
    found = [coder.encode(c.group, c.start) for c in source.chunks(rows) if c.group is not None]
    return np.concatenate(found).tolist(), coder.values


def write(folder: Path, kind: str) -> Path:
    path = folder / f"t.{kind}"
    if kind == "npz":
        np.savez(path, X=TABLE[["a", "b"]].to_numpy(np.float32), y=TABLE["y"], who=np.array(WHO))
    elif kind == "zarr":
        group = zarr.open_group(path, mode="w")
        who = np.array(WHO).astype(np.dtypes.StringDType())
        with zarr.config.set({"array.write_empty_chunks": True}):
            for name, value in (("x", TABLE[["a", "b"]].to_numpy(np.float32)), ("who", who)):
                group.create_array(name, data=value)
            group.create_array("y", data=TABLE["y"].to_numpy())
    elif kind == "jsonl":
        TABLE.to_json(path, orient="records", lines=True)
    else:
        option = {"index": False} if kind == "csv" else {}
        {"csv": TABLE.to_csv, "parquet": TABLE.to_parquet, "feather": TABLE.to_feather}[kind](
            path, **option
        )
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "jsonl", "npz", "zarr"])
def test_groups_are_read_and_no_feature(tmp_path: Path, kind: str) -> None:
    label = {} if kind in ("npz", "zarr") else {"label_column": "y"}
    source = open_source(write(tmp_path, kind), columns=Columns(group="who"), **label)
    assert source.beside.group == "who"
    assert len(source.feature_names) == 2
    for rows in (1, 4, 9):
        assert codes(source, rows) == (CODES, ("ann", "bob", 1))
    parts = {part.role for part in source.parts}
    assert ("groups" in parts) == (kind == "zarr")


def test_a_folder_s_name_can_be_the_group(tmp_path: Path) -> None:
    for site, rows in (("east", slice(0, 2)), ("west", slice(2, 6))):
        (tmp_path / "d" / f"site={site}").mkdir(parents=True)
        TABLE[["a", "y"]][rows].to_csv(tmp_path / "d" / f"site={site}" / "t.csv", index=False)
    source = open_source(tmp_path / "d", label_column="y", columns=Columns(group="site"))
    assert source.feature_names == ("a",)
    assert codes(source) == ([0, 0, 1, 1, 1, 1], ("east", "west"))


@pytest.mark.parametrize(
    ("values", "known"),
    [
        ([datetime.date(2026, 1, d) for d in (1, 2, 2)], ("2026-01-01", "2026-01-02")),
        ([True, False, False], (True, False)),
        ([7, None, None], (7,)),
        (pa.array(["x", "y", "y"]).dictionary_encode(), ("x", "y")),
    ],
)
def test_dates_booleans_numbers_and_categories(tmp_path: Path, values: Any, known: Any) -> None:
    table = pa.table({"a": [1.0, 2.0, 3.0], "when": values, "y": [0, 1, 0]})
    pq.write_table(table, tmp_path / "t.parquet")
    columns = Columns(group="when")
    source = open_source(tmp_path / "t.parquet", label_column="y", columns=columns)
    assert codes(source)[1] == known


def test_rows_left_out_for_a_gap_take_their_groups_along(tmp_path: Path) -> None:
    TABLE.assign(a=[0, np.nan, 2, 3, np.nan, 5]).to_csv(tmp_path / "t.csv", index=False)
    source = open_source(
        *(tmp_path / "t.csv", None, "y"), columns=Columns(group="who"), coding=Coding(drop=True)
    )
    assert codes(source) == ([0, -1, 0, 1], ("ann", 1))


def test_what_cannot_be_groups_is_refused(tmp_path: Path) -> None:
    table = pa.table({"a": [1.0], "who": [["x"]], "y": [0]})
    pq.write_table(table, tmp_path / "t.parquet")
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    for path, said in (
        ("t.parquet", "groups are text, whole numbers"),
        ("x.npy", "--by 'who' is not there; columns are 'X'; name one of them, or leave it out"),
    ):
        with pytest.raises(InputError, match=said):
            open_source(tmp_path / path, None, "y", path[0] == "t", columns=Columns(group="who"))


def test_a_thousand_groups_are_coded_and_one_more_is_refused() -> None:
    coder = GroupCodes("who")
    found = coder.encode(np.arange(1000) * 7, 0)
    assert found.tolist() == list(range(1000))
    assert coder.encode(np.array([7, 6993]), 1000).tolist() == [1, 999]
    with pytest.raises(InputError, match=r"--by 'who': more than 1,000 values by row 1,003 "):
        coder.encode(np.array([0, 1]), 1002)
