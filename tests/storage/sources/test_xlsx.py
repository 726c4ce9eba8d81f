"""Excel workbooks, as people and their tools write them."""

from __future__ import annotations

import sys
import zipfile
from datetime import date, datetime
from pathlib import Path

import numpy as np
import openpyxl
import pytest

from flows.cli import main
from storage.errors import InputError
from storage.sources.base import Source
from storage.sources.opening import open_source
from storage.sources.request import Coding, Columns, Dialect

HEADER = ["id", " a ", "b", "when", "ok", "y"]
ROWS = [
    ["P1", 1, 0.5, datetime(2024, 3, 5), "yes", "no"],
    ["P2", 2.25, " 7 ", datetime(2024, 3, 5, 12), "no", 1],
    [],
    [3, "NA", "#DIV/0!", date(1970, 1, 2), True, "no"],
    ["P4", True, -1e3, None, None, 1.0, None, ""],
]
CODING = Coding(parse={"when": "datetime", "ok": "boolean"})


def workbook(path: Path, *sheets: list[list[object]]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets):
        sheet = book.create_sheet(f"S{number}")
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def opened(path: Path, **more: object) -> Source:
    options = {"label_column": "y", "columns": Columns("id"), "coding": CODING, **more}
    return open_source(path, **options)  # type: ignore[arg-type]


def test_a_wild_sheet(tmp_path: Path) -> None:
    source = opened(workbook(tmp_path / "t.xlsx", [[], [None], HEADER, *ROWS]))
    assert source.kind == "xlsx"
    assert source.feature_names == ("a", "b", "when", "ok")
    expected = [
        [1, 0.5, 19787, 1],
        [2.25, 7, 19787.5, 0],
        [np.nan, np.nan, 1, 1],
        [1, -1000, np.nan, np.nan],
    ]
    for rows in (1, 3, 100):
        chunks = list(source.chunks(rows))
        x = np.concatenate([chunk.x for chunk in chunks])
        assert np.array_equal(x, np.float32(expected), equal_nan=True)
        assert [name for chunk in chunks for name in chunk.id] == ["P1", "P2", "3", "P4"]
        assert [label for chunk in chunks for label in chunk.label] == ["no", 1, "no", 1]
    last = list(source.chunks(3, first=1))
    assert np.array_equal(last[0].x, x[3:], equal_nan=True)


def test_another_sheet_and_several_files(tmp_path: Path) -> None:
    table = [["a", "y"], [1, 0], [2, 1]]
    workbook(tmp_path / "1.xlsx", [["notes"], ["none"]], table)
    workbook(tmp_path / "2.xlsx", [["notes"], ["none"]], [["a", "y"], [3, 0]])
    dialect = Dialect(sheet="S1")
    source = open_source(f"{tmp_path}/*.xlsx", label_column="y", dialect=dialect)
    assert np.concatenate([chunk.x for chunk in source.chunks(2)]).tolist() == [[1], [2], [3]]
    with pytest.raises(InputError, match="no sheet 'S7'; sheets are 'S0', 'S1'"):
        open_source(tmp_path / "1.xlsx", label_column="y", dialect=Dialect(sheet="S7"))


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([["a", "y"], [1, 0], ["x1", 1]], "column 'a' is not numeric: 'x1' at row 1 .from 0."),
        ([["a", "y"], [1, 0], ["1_0", 1]], "not numeric: '1_0' at row 1"),
        ([["a", "y"], ["1,5", 0]], "give --decimal ,"),
        ([["a", "y"], [datetime(2024, 1, 1), 0]], "'2024-01-01' at row 0 .* --parse a=datetime"),
        ([["a", "y"], [1, 0, "note"]], "row 0 .from 0. has 3 cells, the header has 2"),
        ([["a", None, "y"], [1, 2, 0]], "column 2 has no name"),
        ([["a", "a", "y"], [1, 2, 0]], "column names occur twice"),
        ([["a", "y"]], "no rows below a header"),
        ([], "no rows below a header"),
    ],
)
def test_what_is_no_table_is_refused_by_name(
    tmp_path: Path, rows: list[list[object]], told: str
) -> None:
    path = workbook(tmp_path / "t.xlsx", rows)
    with pytest.raises(InputError, match=told):
        list(open_source(path, label_column="y").chunks(10))


def test_damage_and_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = workbook(tmp_path / "t.xlsx", [["a", "y"], ["x", 0]])
    (tmp_path / "cut.xlsx").write_bytes(path.read_bytes()[:900])
    (tmp_path / "old.xlsx").write_bytes(b"\xd0\xcf\x11\xe0" + bytes(2000))
    with zipfile.ZipFile(path) as good, zipfile.ZipFile(tmp_path / "laugh.xlsx", "w") as bad:
        lol = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 9))
        for name in good.namelist():
            content = good.read(name)
            if name.endswith("sheet1.xml"):
                head = f'<?xml version="1.0"?><!DOCTYPE w [<!ENTITY l0 "lol">{lol}]>'
                content = head.encode() + content.replace(b"<v>0</v>", b"<v>&l8;</v>")
            bad.writestr(name, content)
    for name in ("cut", "old", "laugh"):
        with pytest.raises(InputError, match="cannot be read as an Excel workbook"):
            list(open_source(tmp_path / f"{name}.xlsx", label_column="y").chunks(10))
    monkeypatch.setattr("storage.sources.formats.xlsx.ROW_BYTES", 100)
    with pytest.raises(InputError, match=r"too long \(a row has up to 100 bytes\); save it as CSV"):
        open_source(path, label_column="y")


def test_without_the_extra_a_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = workbook(tmp_path / "t.xlsx", [["a", "y"], [1, 0]])
    monkeypatch.setitem(sys.modules, "openpyxl.reader.excel", None)
    assert main(["check", str(path), "--label-column", "y"]) == 2
    assert "needs openpyxl; pip install 'knnoise[xlsx]'" in capsys.readouterr().err


def test_a_workbook_is_trained_on_and_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    x = rng.normal(size=(200, 2)) + 3 * y[:, None]
    given = np.where(rng.random(200) < 0.1, 1 - y, y).tolist()
    rows = [
        [*values, ["no", "yes"][label]] for values, label in zip(x.tolist(), given, strict=True)
    ]
    path = workbook(tmp_path / "t.xlsx", [["about"], ["us"]], [["a", "b", "sick"], *rows])
    run, quiet = ("--run", str(tmp_path / "run")), ("--workers", "0", "-q")
    train = ["train", str(path), "--label-column", "sick", "--sheet", "S1", *run, *quiet]
    assert main([*train, "--k", "10"]) == 0
    assert "200 rows, 2 features" in capsys.readouterr().out
    assert main(["score", str(path), *run, "--out", str(tmp_path / "s.csv"), *quiet]) == 0
    assert "200 rows scored" in capsys.readouterr().out
