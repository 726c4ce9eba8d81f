"""Label codes, finite features and fingerprints."""

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import example, given
from hypothesis import strategies as st

from flows.steps.ingest.columns import IMPUTE, FiniteCheck
from storage.errors import InputError
from storage.sources import files as source_files
from storage.sources.base import same
from storage.sources.blocks import Chunk
from storage.sources.opening import open_source
from storage.sources.request import Columns
from storage.sources.values.labels import LabelCodes, label_value


@pytest.mark.parametrize(
    ("raw", "values"),
    [
        ([1, 0], (0, 1)),
        ([1, -1], (-1, 1)),
        ([2.0, 1.0], (1, 2)),
        ([0.5, 10], (0.5, 10)),
        ([True, False], (False, True)),
        (["yes", "no"], ("no", "yes")),
        (["Yes", "no"], ("no", "Yes")),
        (["N", "y"], ("N", "y")),
        (["positive", "Negative"], ("Negative", "positive")),
        (["TRUE", "false"], ("false", "TRUE")),
        (["10", "9.0", 9, "+10"], (9, 10)),
        ([b"b", " a", "a "], ("a", "b")),
        (["b", 7], (7, "b")),
        (["1_0", "inf"], ("1_0", "inf")),
        ([np.str_("t"), np.str_("f")], ("f", "t")),
    ],
)
def test_values_are_sorted(raw: list[Any], values: tuple[Any, ...]) -> None:
    codes = LabelCodes()
    array = np.empty(len(raw), object)
    array[:] = raw
    encoded = codes.encode(array)
    found, remap = codes.finish()
    assert found == values
    assert list(map(type, found)) == list(map(type, values))
    assert encoded.dtype == remap.dtype == np.int8
    assert next(values[code] for code in remap[encoded]) == codes.values[0]
    json.dumps(found)


@pytest.mark.parametrize(
    ("raw", "labels"),
    [
        (["9007199254740993", "9007199254740992.0"], [2**53 + 1, 2**53]),
        (["9007199254740993.0", "9007199254740992"], [2**53 + 1, 2**53]),
        ([-(2**63), str(2**63 - 1)], [-(2**63), 2**63 - 1]),
        ([2**63, "9223372036854775809"], ["9223372036854775808", "9223372036854775809"]),
        ([2**64 - 1, np.uint64(2**64 - 2)], ["18446744073709551615", "18446744073709551614"]),
        (["1" + "0" * 24, "1e24", 1e24], ["1" + "0" * 24, 1e24, 1e24]),
        (["9" * 5000, "0" * 5000 + "1"], ["9" * 5000, "0" * 5000 + "1"]),
        (["0.1", "0.10", "1e-1", Decimal("0.100")], [0.1] * 4),
        (["0.30000000000000004", "0.300000000000000039"], [0.1 + 0.2, "0.300000000000000039"]),
        (["01", "1", "007", "-05", "0.5", "00.5"], ["01", 1, "007", "-05", 0.5, "00.5"]),
        (["1e-999999999999999999999"], ["1e-999999999999999999999"]),
        ([Decimal(10**20 + 1), Decimal(10**20 + 2)], [f"{10**20 + 1}", f"{10**20 + 2}"]),
        ([Decimal(2**53 + 1), Decimal("1.10"), Decimal("nan")], [2**53 + 1, 1.1, None]),
        ([np.longdouble(2**53) + 1, np.longdouble(2**53)], [2**53 + 1, 2**53]),
        ([b"caf\xe9", b"caf\xe8"], [r"caf\xe9", r"caf\xe8"]),
    ],
)
def test_no_label_is_rounded(raw: list[Any], labels: list[Any]) -> None:
    found = [label_value(one) for one in raw]
    assert found == labels
    assert list(map(type, found)) == list(map(type, labels))


def test_half_a_character_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", x=np.zeros((2, 1)), y=np.array(["a", "b\ud800"]))
    (chunk,) = open_source(tmp_path / "s.npz").chunks(2)
    with pytest.raises(InputError, match=r"label 'b\\ud800' \(row 1 from 0\) holds half a char"):
        LabelCodes().encode(chunk.label)


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False), unique=True))
@example([Decimal(2**53), Decimal(2**53 + 1)])
def test_numbers_that_differ_are_labels_that_differ(numbers: list[Decimal]) -> None:
    texts = [f"{one:f}" for one in numbers if abs(one.adjusted()) < 400]
    assert len({label_value(one) for one in texts}) == len(texts)
    assert [label_value(Decimal(one)) for one in texts] == [label_value(one) for one in texts]


LONG = ["9007199254740993", "9007199254740992", "0.5"]


@pytest.mark.parametrize("kind", ["csv", "many", "lists", "parquet", "text", "beside", "folders"])
def test_long_numbers_stay_apart(tmp_path: Path, kind: str) -> None:
    path, beside = tmp_path / "t.csv", None
    if kind in ("csv", "many"):
        fill = "0," + LONG[0] + "\n" if kind == "many" else ""  # whole numbers alone in a piece
        path.write_text("x,y\n" + fill * 100_000 + "".join(f"0,{y}\n" for y in LONG))
    elif kind == "lists":
        path.write_text("x,y\n" + "".join(f"0,{y}|{y}\n" for y in LONG))
    elif kind == "parquet":
        path = tmp_path / "t.parquet"
        labels = pa.array([2**64 - 1, 2**64 - 2, 5], pa.uint64())
        pq.write_table(pa.table({"x": [0.0, 0.0, 0.0], "y": labels}), path)
    elif kind == "text":
        path = tmp_path / "t.jsonl"
        path.write_text("".join(f'{{"x": 0, "y": "{y}"}}\n' for y in LONG))
    elif kind == "beside":
        path, beside = tmp_path / "t.npy", tmp_path / "y.csv"
        np.save(path, np.zeros((100_003, 1)))
        beside.write_text("y\n" + f"{LONG[0]}\n" * 100_000 + "\n".join(LONG))
    else:
        for y in LONG:
            path = tmp_path / f"d/y={y}/t.csv"
            path.parent.mkdir(parents=True)
            path.write_text("x\n0\n")
        path = tmp_path / "d"
    column, separator = "y" if beside is None else None, "|" if kind == "lists" else None
    source = open_source(path, beside, column, candidates=separator)
    codes = LabelCodes()
    for chunk in source.chunks(70_000):
        labels = np.array([one[0] for one in chunk.label], object) if separator else chunk.label
        codes.encode(labels)
    wanted = {2**53 + 1, 2**53, 0.5}
    if kind == "parquet":
        wanted = {"18446744073709551615", "18446744073709551614", 5}
    assert set(codes.values) == wanted


@pytest.mark.parametrize("label", ["{}", "[{}]"])
def test_json_numbers_that_are_rounded_are_no_labels(tmp_path: Path, label: str) -> None:
    lines = (f'{{"x": 0, "y": {label.format(y)}}}\n' for y in LONG)
    (tmp_path / "t.jsonl").write_text("".join(lines))
    source = open_source(tmp_path / "t.jsonl", label_column="y")
    with pytest.raises(InputError, match=r"t.jsonl: column 'y' has .* write its values as text"):
        list(source.chunks(10))
    source = open_source(tmp_path / "t.jsonl", ignore="y", with_labels=False)
    assert len(next(iter(source.chunks(10))).x) == 3


@given(st.lists(st.integers(-2, 2), min_size=1), st.integers(1, 7))
def test_codes_do_not_depend_on_chunks(labels: list[int], rows: int) -> None:
    whole, parts = LabelCodes(), LabelCodes()
    raw = np.array(labels)
    expected = whole.encode(raw)
    assert [whole.values[code] for code in expected] == labels
    encoded = [parts.encode(raw[at : at + rows]) for at in range(0, len(raw), rows)]
    np.testing.assert_array_equal(np.concatenate(encoded), expected)
    if len(set(labels)) > 1:
        values, remap = parts.finish()
        assert values == tuple(sorted(set(labels)))
        assert [values[code] for code in remap[expected]] == labels
    again = LabelCodes(known=whole.values)
    np.testing.assert_array_equal(again.encode(raw), expected)


@pytest.mark.parametrize(("n", "kind"), [(2, "i1"), (3, "u1"), (256, "u1"), (257, "u2")])
def test_codes_take_a_byte_up_to_256_classes(n: int, kind: str) -> None:
    codes = LabelCodes()
    parts = [codes.encode(part) for part in np.array_split(np.arange(n)[::-1], 2)]
    values, remap = codes.finish()
    assert values == tuple(range(n))
    assert remap.dtype == np.dtype(kind)
    assert np.array_equal(remap[np.concatenate(parts)], np.arange(n)[::-1])


def test_known_booleans_may_be_text() -> None:
    """As files of text have them, those of scores too."""
    codes = LabelCodes(known=(False, True))
    given = np.array(["True", "false", "FALSE", True, 0], object)
    assert codes.encode(given).tolist() == [1, 0, 0, 1, 0]
    assert codes.values == (False, True)


def test_label_errors() -> None:
    codes = LabelCodes("t.csv, column 'y'", ("a", "b"))
    codes.encode(np.array(["a", "b", "a"]))
    with pytest.raises(InputError) as caught:
        codes.encode(np.array(["b", "c", "a", "d", "e", "f", "g"]), 3)
    assert str(caught.value) == (
        "t.csv, column 'y': label 'c' (row 4 from 0) is none of the training's classes 'a', 'b'; "
        "leave such rows out of scores and labels"
    )
    with pytest.raises(InputError, match="; if it is a header, give a label for each row below it"):
        codes.encode(np.array(["truth", "b"]))
    with pytest.raises(InputError, match=r"at most 1,000 values, found 0, 1.*at row 1000 "):
        LabelCodes().encode(np.arange(1002))
    one = LabelCodes()
    one.encode(np.array([1.0, 1.0]))
    with pytest.raises(InputError, match="labels: all labels are 1; two classes are needed"):
        one.finish()
    gaps = LabelCodes()
    gaps.encode(np.array([0, 1, -1])[:2])
    assert gaps.encode(np.array([None, "1", "", np.nan, "NaN", "0"], object), 2).tolist() == [
        *(-1, 1, -1, -1, -1, 0)
    ]
    with pytest.raises(InputError, match=r"labels: 4 labels are missing; first at row 2 \(from"):
        gaps.finish()


def chunk(start: int, x: list[list[float]]) -> Chunk:
    array = np.array(x, np.float32)
    return Chunk(array, None, np.array([0, 1][: len(x)], np.int32), start=start)


def test_finite_check() -> None:
    check = FiniteCheck(("age", "height"), ("a.parquet", "b.parquet"))
    check.see(chunk(0, [[1, 2], [3, 4]]))
    check.raise_if_any()
    check.see(chunk(16, [[1, 2], [np.nan, np.inf]]))
    check.see(chunk(18, [[-np.inf, 2]]))
    with pytest.raises(InputError) as caught:
        check.raise_if_any(IMPUTE)
    assert str(caught.value) == (
        "b.parquet: 3 NaN or infinite feature values; first at row 17 (from 0), column 'age': nan; "
        "fill or drop them, or give --impute median or --impute drop (empty cells are NaN, beyond "
        "3.4e38 is infinite)"
    )


def test_numbers_beyond_float32_are_infinite(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[1.0, 1e39], [-1e300, 0]]))
    source = open_source(tmp_path / "x.npy", with_labels=False)
    check = FiniteCheck(source.feature_names, source.files)
    for part in source.chunks(1):
        check.see(part)
    with pytest.raises(InputError, match=r"x.npy: 2 NaN or infinite .* row 0 .* 'x1': inf; fill"):
        check.raise_if_any()


def rewrite(path: Path, content: bytes) -> None:
    """Write with another modification time than before."""
    before = path.stat().st_mtime_ns
    path.write_bytes(content)
    os.utime(path, ns=(before, before + 1_000_000))


def test_fingerprint_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, labels = tmp_path / "x.npy", tmp_path / "y.csv"
    np.save(path, np.zeros((2, 2)))
    labels.write_text("0\n1\n")
    source = open_source(path, labels)
    young = source.fingerprint(with_digest=True)
    assert [sorted(entry) for entry in young["files"]] == [["digest", "name", "role", "size"]] * 2
    assert same(young, source) is None
    monkeypatch.setattr(source_files, "YOUNG_SECONDS", 0)
    old = json.loads(json.dumps(source.fingerprint(with_digest=True)))
    times = ["ctime_ns", "digest", "mtime_ns", "name", "role", "size"]
    assert [sorted(entry) for entry in old["files"]] == [times] * 2
    assert len(old["files"][0]["digest"]) == 32
    quick = source.fingerprint()
    assert "digest" not in quick["files"][0]
    assert same(old, source) is None
    rewrite(labels, b"0\n1\n")
    assert same(old, source) is None
    assert same(quick, source) == "y.csv was written again since, and its content was not recorded"
    renamed = labels.rename(tmp_path / "z.csv")
    assert same(old, open_source(path, renamed)) is None
    renamed.write_bytes(b"1\n0\n")
    other = same(old, open_source(path, renamed))
    assert other == "y.csv (labels) is no longer part of the source"
    renamed.rename(labels)
    rewrite(labels, b"1\n0\n")
    assert same(old, source) == "y.csv has other content than before (same size, other bytes)"
    labels.write_text("0\n1")
    assert same(old, source) == "y.csv has 3 bytes, it had 4"
    bare = open_source(path, with_labels=False)
    assert same(old, bare) == "y.csv (labels) is no longer part of the source"
    assert same(bare.fingerprint(), source) == "y.csv (labels) is new in the source"
    assert same({**old, "kind": "csv"}, source) == "the source is npy, it was csv"


def test_fingerprint_of_a_group_and_of_a_url(tmp_path: Path) -> None:
    for place in ("one", "two"):
        group = zarr.open_group(tmp_path / place, mode="w")
        group.create_array("x", data=np.zeros((4, 2)) + 1, chunks=(2, 2))
        group.create_array("y", data=np.arange(4) % 2)
    one, two = open_source(tmp_path / "one"), open_source(tmp_path / "two")
    assert [part.name for part in one.parts if part.role == "features"] == [
        *("x/c/0/0", "x/c/1/0", "x/zarr.json")
    ]
    assert same(one.fingerprint(with_digest=True), two) is None
    url = "memory://print/t.csv"
    for content in (b"a,y\n1,2\n", b"a,y\n1,3\n"):
        with fsspec.open(url, "wb") as file:
            file.write(content)
        source = open_source(url, label_column="y")
        if content.endswith(b"2\n"):
            old = source.fingerprint(with_digest=True)
            assert set(old["files"][0]) == {"role", "name", "size", "tag", "digest"}
            assert same(old, source) is None
    assert same(old, source) == "t.csv has other content than before (same size, other bytes)"


def test_labels_beside_ids_in_another_order_are_refused(tmp_path: Path) -> None:
    x, y = tmp_path / "x.parquet", tmp_path / "y.csv"
    pq.write_table(pa.table({"id": ["p1", "p2", "p3"], "a": [1.0, 2.0, 3.0]}), x)
    y.write_text("id,y\np1,0\np2,1\np3,1\n")
    (chunk,) = open_source(x, y, "y", columns=Columns("id")).chunks(9)
    assert chunk.label is not None
    y.write_text("id,y\np1,0\np3,1\np2,1\n")
    with pytest.raises(
        InputError, match=r"row 1 \(from 0\) is id 'p3', and that of .* 'p2'; bring"
    ):
        open_source(x, y, "y", columns=Columns("id"))
    open_source(x, y, "y", columns=Columns(leave=("id",)))  # who names no ids has none


@pytest.mark.parametrize("column", [None, "b"])
def test_a_label_too_many_is_no_header(column: str | None, tmp_path: Path) -> None:
    """Else all labels would belong to the row before."""
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    (tmp_path / "y.csv").write_text("b\na\nb\na\nb\n")
    files = tmp_path / "x.npy", tmp_path / "y.csv", column
    if column is None:
        with pytest.raises(InputError, match="5 lines for 4 rows, and the first, 'b'"):
            open_source(*files)
    else:
        (chunk,) = open_source(*files).chunks(9)
        assert chunk.label is not None
        assert chunk.label.tolist() == ["a", "b", "a", "b"]
