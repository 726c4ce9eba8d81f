"""Label codes, finite features and fingerprints."""

import json
import os
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from flows.steps.ingest.columns import FiniteCheck
from storage.errors import InputError
from storage.sources import files as source_files
from storage.sources.base import same
from storage.sources.blocks import Chunk
from storage.sources.opening import open_source
from storage.sources.values.labels import LabelCodes


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


def test_label_errors() -> None:
    codes = LabelCodes("t.csv, column 'y'", ("a", "b"))
    codes.encode(np.array(["a", "b", "a"]))
    with pytest.raises(InputError) as caught:
        codes.encode(np.array(["b", "c", "a", "d", "e", "f", "g"]), 3)
    assert str(caught.value) == (
        "t.csv, column 'y': label 'c' (row 4 from 0) is none of the training's classes 'a', 'b'"
    )
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
        check.raise_if_any()
    assert str(caught.value) == (
        "b.parquet: 3 NaN or infinite feature values; first at row 17 (from 0), column 'age': nan; "
        "fill or drop them, or give --impute median or drop (empty cells are NaN, beyond 3.4e38 is "
        "infinite)"
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
