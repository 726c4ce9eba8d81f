"""Groups as Parquet: streamed, and complete or not there."""

from __future__ import annotations

import errno
import gc
import gzip
import json
import os
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage import export
from storage.errors import InputError, StorageError
from storage.export import check_target, label_names, write_columns, write_table
from storage.files.location import Location
from storage.runs.pool import ChunkWriter
from storage.runs.run import Run

COLUMNS = ("row", "posterior", "predicted_label")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Ten scores in chunks of four."""
    run = Run.of(tmp_path / "run")
    run.begin({})
    write_scores(run, 10)
    return run


def write_scores(run: Run, n: int) -> None:
    writer = ChunkWriter(run, "scores", 4, n)
    for number in range(-(-n // 4)):
        row = np.arange(n)[4 * number : 4 * number + 4]
        share = (row / 10).astype(np.float32)
        label = (row % 2).astype(np.int8)
        writer.chunk(number, row=row, eta_corr=share, posterior=share, predicted_label=label)
    writer.finish(n, {})


@pytest.fixture(params=["disk", "memory"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Location]:
    """The folder the file is to be in."""
    place = tmp_path / "out" if request.param == "disk" else "memory://convert-test/out"
    folder = Location.of(place)
    yield folder
    folder.remove()


def test_file_is_the_group(run: Run, target: Location) -> None:
    write_table(run, "scores", target.path("s.parquet"), COLUMNS)
    table = pq.read_table(target.path("s.parquet"), filesystem=target._fs()[0])
    assert table.column_names == list(COLUMNS)
    assert table["row"].to_pylist() == list(range(10))
    assert np.array_equal(table["posterior"], (np.arange(10) / 10).astype(np.float32))


def test_packed_text_is_written_anywhere_and_the_same_each_time(run: Run, target: Location) -> None:
    contents = []
    for name in ("a.csv.gz", "b.csv.gz"):
        write_table(run, "scores", target.path(name), COLUMNS)
        contents.append(target.read(name))
    assert contents[0] == contents[1]
    assert gzip.decompress(contents[0] or b"").splitlines()[1] == b"0,0,0"


def test_types_are_those_of_the_group(run: Run, tmp_path: Path) -> None:
    write_table(run, "scores", str(tmp_path / "s.parquet"), COLUMNS)
    types = [str(field.type) for field in pq.read_schema(tmp_path / "s.parquet")]
    assert types == ["int64", "float", "int8"]


def test_chunks_are_row_groups(run: Run, tmp_path: Path) -> None:
    write_table(run, "scores", str(tmp_path / "s.parquet"), COLUMNS)
    metadata = pq.read_metadata(tmp_path / "s.parquet")
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [4, 4, 2]


def test_no_more_than_a_chunk_is_read_at_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, lengths = export.read_rows, []

    def counted(*args: object) -> np.ndarray:
        values = read(*args)
        lengths.append(len(values))
        return values

    monkeypatch.setattr(export, "read_rows", counted)
    write_table(run, "scores", str(tmp_path / "s.parquet"), COLUMNS)
    assert max(lengths) == 4


def test_group_of_no_rows_is_a_file_of_no_rows(run: Run, tmp_path: Path) -> None:
    empty = Run.of(tmp_path / "empty")
    empty.begin({})
    write_scores(empty, 0)
    write_table(empty, "scores", str(tmp_path / "s.parquet"), COLUMNS)
    assert pq.read_table(tmp_path / "s.parquet").num_rows == 0


def test_older_file_is_replaced(run: Run, target: Location) -> None:
    target.replace("s.parquet", b"older")
    write_table(run, "scores", target.path("s.parquet"), COLUMNS)
    assert target.files("") == ["s.parquet"]
    assert target.read("s.parquet") != b"older"


def test_a_link_stays_one_and_leads_to_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "t.jsonl").symlink_to("far/t.jsonl")
    write_columns(str(tmp_path / "t.jsonl"), {"a": pa.array([1])})
    assert (tmp_path / "t.jsonl").is_symlink()
    assert (tmp_path / "far/t.jsonl").read_text() == '{"a": 1}\n'


def test_a_name_may_be_as_long_as_any(tmp_path: Path) -> None:
    for name in ("x" * 249, "ä" * 124):
        write_columns(str(tmp_path / f"{name}.jsonl"), {"a": pa.array([1])})
        assert (tmp_path / f"{name}.jsonl").read_text() == '{"a": 1}\n'


def test_a_pipe_is_not_written_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match=r"pipe.csv: is no plain file; name a file$"):
        check_target(str(tmp_path / "pipe.csv"))


@pytest.mark.parametrize(
    "place",
    [
        "disk",
        "memory",
    ],
)
@pytest.mark.parametrize("older", [None, b"older"])
def test_failure_leaves_the_target_as_it_was(
    run: Run, tmp_path: Path, place: str, older: bytes | None
) -> None:
    folder = Location.of(tmp_path / "out" if place == "disk" else "memory://convert-test/failed")
    folder.remove()
    if older is not None:
        folder.replace("s.parquet", older)
    run.location.remove("results.zarr/scores/posterior/c/1")
    with pytest.raises(StorageError, match="is missing"):
        write_table(run, "scores", folder.path("s.parquet"), COLUMNS)
    assert folder.read("s.parquet") == older


def test_failure_leaves_nothing_beside_the_target(run: Run, tmp_path: Path) -> None:
    run.location.remove("results.zarr/scores/posterior/c/1")
    with pytest.raises(StorageError):
        write_table(run, "scores", str(tmp_path / "out" / "s.parquet"), COLUMNS)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("target", ["file/s.parquet", "folder.csv"])
def test_target_that_cannot_be_written_is_said(run: Run, tmp_path: Path, target: str) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder.csv" / "below").mkdir(parents=True)
    with pytest.raises(StorageError, match="cannot write"):
        write_table(run, "scores", str(tmp_path / target), COLUMNS)


HARD = {
    "far": pa.array([0, 253402300800], pa.timestamp("s")),  # the year 10000
    "day": pa.array([None, 2932897], pa.date32()),
    "long": pa.array([5, 2**62], pa.duration("s")),
    "zone": pa.array([3_600_000_000, None], pa.timestamp("us", "Europe/Berlin")),
    "money": pa.array([Decimal("1.50"), Decimal("99999999999999999999.10")]),
    "share": pa.array([float("inf"), 0.5]),
    "near": pa.array([0.3, float("-inf")], pa.float32()),
}
"""Values that Python, JSON or a sheet has not."""


def test_what_json_has_not_is_text_or_null(tmp_path: Path) -> None:
    deep = pa.array([[{"a": float("nan")}], [{"a": 1.5}]])
    write_columns(str(tmp_path / "o.jsonl"), {**HARD, "deep": deep})
    lines = (tmp_path / "o.jsonl").read_text().splitlines()
    assert not any(word in line for word in ("NaN", "Infinity") for line in lines)
    first, last = map(json.loads, lines)
    assert first["far"] == "1970-01-01 00:00:00"
    assert last["far"] == "10000-01-01 00:00:00"
    assert last["day"] == "10000-01-01"
    assert (first["share"], last["share"], last["near"]) == (None, 0.5, None)
    assert (first["deep"], last["deep"]) == ([{"a": None}], [{"a": 1.5}])


def test_labels_that_no_type_holds_together_are_text() -> None:
    assert label_names([0.5, 2]).to_pylist() == [0.5, 2.0, None]
    assert label_names([0.5, 2**53 + 1]).to_pylist() == ["0.5", "9007199254740993", None]


def test_what_a_sheet_has_not_is_text(tmp_path: Path) -> None:
    write_columns(str(tmp_path / "o.xlsx"), HARD)
    names, *rows = openpyxl.load_workbook(tmp_path / "o.xlsx").worksheets[0].values
    first, last = (dict(zip(names, row, strict=True)) for row in rows)
    assert (last["far"], last["day"]) == ("10000-01-01 00:00:00", "10000-01-01")
    assert first["zone"] == "1970-01-01 02:00:00+01:00"
    assert (first["money"], last["money"]) == (1.5, "99999999999999999999.10")


def test_what_a_format_cannot_hold_is_one_line(tmp_path: Path) -> None:
    apart = pa.array([(1, 2, 3)], pa.month_day_nano_interval())
    for name in ("o.csv", "o.parquet"):
        with pytest.raises(StorageError, match=f"cannot write .*{name}"):
            write_columns(str(tmp_path / name), {"apart": apart})
        assert not (tmp_path / name).exists()
    text = {"note": pa.array(["x" * 32_767, "y" * 32_768])}  # openpyxl would cut off the end
    with pytest.raises(InputError, match=r"'yy*'… has 32,768; name the file \.csv"):
        write_columns(str(tmp_path / "o.xlsx"), text)
    assert not (tmp_path / "o.xlsx").exists()


def test_a_workbook_that_cannot_be_written_says_nothing_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda one: told.append(repr(one.object)))
    table = pa.table({"row": [1]})
    with (
        pytest.raises(OSError, match="No space left"),
        Path("/dev/full").open("wb", buffering=0) as sink,
    ):
        export.FORMATS[".xlsx"](sink, table.schema, [table])
    gc.collect()
    assert not any("_write_rows" in one for one in told)


def test_what_a_source_would_be_read_with_is_refused(tmp_path: Path) -> None:
    """A folder's or a pattern's next reading would have the rows of the new file, too."""
    for folder in ("parts/year=2024", "parts/made"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "parts/a.csv").touch()
    (tmp_path / "parts/made/old.csv").touch()
    parts = str(tmp_path / "parts")
    for read in (parts, f"{parts}/*.csv"):
        check_target(f"{parts}/made/new.csv", inputs=[read])
        check_target(f"{parts}/made/old.csv", inputs=[read])
        check_target(f"{parts}.csv", inputs=[read])
        with pytest.raises(InputError, match=r"would be one of the files of .*; name another$"):
            check_target(f"{parts}/new.csv", inputs=[read])
        with pytest.raises(InputError, match="is what is read, and would be written over"):
            check_target(f"{parts}/a.csv", inputs=[read])
    with pytest.raises(InputError, match="would be one of the files"):
        check_target(f"{parts}/year=2024/new.csv", inputs=[parts])
    check_target(f"{parts}/_new.csv", inputs=[parts])
    check_target(f"{parts}/new.parquet", inputs=[f"{parts}/*.csv"])


def test_a_table_in_a_folder_of_somebody_else_is_refused_before_any_work(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65534)
        for name, page in (("t.csv", False), ("page.html", True)):
            with pytest.raises(InputError, match=r"no folder can be made here \(.*; name another"):
                check_target(str(closed / name), page=page, inputs=[str(closed / "read.csv")])
    finally:
        os.seteuid(user)
        closed.chmod(0o700)


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "make room"), (errno.EFBIG, r"allow larger files \(ulimit -f\)")],
)
def test_a_full_disk_may_be_that_of_temporary_files(
    number: int, remedy: str, tmp_path: Path
) -> None:
    target, full = str(tmp_path / "a.xlsx"), OSError(number, os.strerror(number))
    said = f"cannot write {target}: .*{full.strerror}.*; {remedy} there, and in {gettempdir()} for"
    with pytest.raises(StorageError, match=said), export._whole_file(target):
        raise full
