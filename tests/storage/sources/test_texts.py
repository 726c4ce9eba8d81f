"""Numbers, times and truth values written as text, beside Python's own reading of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import InputError
from storage.sources.base import Source
from storage.sources.opening import open_source
from storage.sources.request import Coding, Dialect
from storage.sources.values.texts import Spelling, plain_texts, spellings_of


def read(kind: str, *values: object, decimal: str = ".") -> list[float]:
    numbers, bad = Spelling(kind, decimal).read(plain_texts(pa.array(values)))
    assert bad is None, values[bad]
    return numbers.tolist()


@given(st.decimals(-(10**12), 10**12, places=2))
def test_thousands_are_what_python_writes(value: float) -> None:
    english = f"{value:,}"
    german = english.translate(str.maketrans(",.", ".,"))
    swiss, french = english.replace(",", "\u2019"), english.replace(",", "\u202f")
    assert read("thousands", english, f" {swiss} ", french) == [float(value)] * 3
    assert read("thousands", german, decimal=",") == [float(value)]
    assert read("percent", f"{english} %", f"{english}%") == [float(value) / 100.0] * 2


@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)), st.integers(-720, 720))
def test_times_are_those_of_python(moment: datetime, minutes: int) -> None:
    days = (moment - datetime(1970, 1, 1)) / timedelta(days=1)
    assert read("datetime", moment.isoformat(), str(moment)) == pytest.approx([days] * 2)
    there = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    expected = (there - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=1)
    assert read("datetime", there.isoformat()) == pytest.approx([expected])
    whole = (moment.date() - datetime(1970, 1, 1).date()).days
    assert read("datetime", moment.date()) == [whole]
    assert read("%d.%m.%Y", f"{moment:%d.%m.%Y}", f"{moment.day}.{moment.month}.{moment.year}") == [
        whole,
        whole,
    ]


def test_stored_times_and_truth_values_are_read_too() -> None:
    times = pa.array([0, 3_600_000_000_000 * 36 + 1], pa.timestamp("ns"))
    assert Spelling("datetime").read(plain_texts(times))[0] == pytest.approx([0, 1.5])
    assert read("boolean", True, False) == [1, 0]
    words = ("Yes", "no", "T", "f", "1", "0", "ON", "n")
    assert read("boolean", *words) == [1, 0, 1, 0, 1, 0, 1, 0]
    assert np.isnan(read("thousands", None, "  ")).all()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *[("thousands", value) for value in ("1,23", "1,2345", "12 apples", "1.234,5", "$5")],
        ("thousands", "0,052"),
        *[("percent", value) for value in ("12.5", "%", "5 %%", "five %")],
        *[("boolean", value) for value in ("maybe", "2", "yess")],
        *[("datetime", value) for value in ("2023-02-29", "2024-13-01", "2024-01-01 24:30")],
        *[("datetime", value) for value in ("05.03.2024", "2024-01-01T10:00:00+99:00", "today")],
        *[("%d.%m.%Y", value) for value in ("31.02.2024", "5.3.2024 10:00", "2024-03-05", "5.3.")],
        ("%Q", "1"),
    ],
)
def test_other_text_is_refused(kind: str, value: str) -> None:
    assert Spelling(kind).read(plain_texts(pa.array(["", value])))[1] == 1


def test_what_text_looks_like() -> None:
    def found(*values: str | None) -> list[str]:
        return spellings_of(plain_texts(pa.array(values, pa.string())))

    assert found("1,234.5", None, "12") == ["thousands"]
    assert found("5 %", "1%") == ["percent"]
    assert found("no", "Yes") == ["boolean"]
    assert found("2024-01-31") == ["datetime"]
    assert found("31.01.2024") == ["%d.%m.%Y"]
    assert found("1/2/2024") == ["%m/%d/%Y", "%d/%m/%Y"]
    assert found("1/31/2024") == ["%m/%d/%Y"]
    assert found("red", "1") == found(None) == []


LINES = ["price;when;y", *["1.234,5;2024-03-05;a", "7;;b"] * 3]


def written(folder: Path, kind: str, lines: list[str]) -> Source:
    path = folder / f"t.{kind}"
    if kind == "csv":
        path.write_text("\n".join(lines))
    else:
        columns = zip(*(line.split(";") for line in lines[1:]), strict=True)
        table = pa.table(dict(zip(lines[0].split(";"), map(list, columns), strict=True)))
        pq.write_table(table, path, row_group_size=2)
    coding = Coding(parse={"pri*": "thousands", "when": "datetime"})
    return open_source(path, label_column="y", dialect=Dialect(";", ","), coding=coding)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_first_bad_value_is_named_by_row_and_column(tmp_path: Path, kind: str) -> None:
    first = next(written(tmp_path, kind, LINES).chunks(2))
    assert np.array_equal(first.x, np.float32([[1234.5, 19787], [7, np.nan]]), equal_nan=True)
    source = written(tmp_path, kind, [*LINES, "oops;2024-03-06;a"])
    with pytest.raises(InputError, match=r"row 6 \(from 0\), column 'price': 'oops' is not to be"):
        list(source.chunks(100))


def test_what_nothing_matches_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n1,2\n")
    np.savez(tmp_path / "t.npz", X=np.ones((2, 2)), y=[0, 1])
    coding = Coding(parse={"b": "percent"})
    with pytest.raises(InputError, match="--parse b=percent matches no column; columns are 'a'"):
        open_source(tmp_path / "t.csv", label_column="y", coding=coding)
    with pytest.raises(InputError, match="an array has none"):
        open_source(tmp_path / "t.npz", coding=coding)


def test_values_are_written_as_the_column_has_them() -> None:
    coding = Coding(parse={"b*": "percent", "when": "datetime", "day": "%d.%m.%Y"})
    assert coding.written("bonus", np.float32(0.125)) == "12.5 %"
    assert coding.written("when", np.float32(19701.75)) == coding.written("day", 19701.0)
    assert coding.written("day", 19701.0) == "2023-12-10"
    assert coding.written("other", 1234567.0) == "1234567"
    assert coding.written("other", 54321.7) == "54322"
    assert coding.written("other", 0.123456) == "0.1235"
    assert coding.written("other", 48.13724, 6) == "48.1372"  # bounds near each other differ
    assert coding.written("other", 54321.7, 6) == "54321.7"
