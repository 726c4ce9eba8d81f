"""Candidate sets, however they are written: one kind of label, and masks as a dictionary says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.intake.glance import look_at
from flows.steps.ingest.columns import WORDS, CandidateCodes
from storage.errors import InputError
from storage.sources.base import Source
from storage.sources.formats.tables import TablesReader
from storage.sources.opening import open_source
from storage.sources.values.labels import as_sets, label_value, sets_of_mask

VALUES = st.sampled_from(["cat", "dog", " dog ", "7", "7.0", "", "nan", "a b"])
SETS = st.lists(st.lists(VALUES, max_size=4), min_size=1, max_size=30)
WRITTEN = [["cat", "dog"], ["dog"], ["emu", "cat", "emu"], [], ["cat", "dog"], ["emu"]]
"""Candidates of the rows of each source here."""
SOURCE = Source("csv", (), (), "here", None, (), TablesReader(()))
"""One that has no file."""


def labels(values: list[Any]) -> npt.NDArray[np.object_]:
    return np.fromiter(values, object, len(values))


def members(raw: list[str]) -> tuple[Any, ...] | None:
    """The different values of a list, in order."""
    values = [value for one in raw if (value := label_value(one)) is not None]
    return tuple(dict.fromkeys(values)) or None


@given(SETS)
def test_text_and_tuples_are_the_same_sets(raw: list[list[str]]) -> None:
    want = [members(one) for one in raw]
    assert as_sets(labels(["|".join(one) for one in raw]), "|").tolist() == want
    assert as_sets(labels([tuple(one) for one in raw]), "").tolist() == want
    single = [one[0] if one else None for one in raw]
    assert as_sets(labels(single), "|").tolist() == [
        None if one is None else members([one]) for one in single
    ]


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(2, 70))
def test_masks_are_the_places_that_are_true(seed: int, n: int, n_classes: int) -> None:
    mask = np.random.default_rng(seed).random((n, n_classes)) < 0.2
    want = [tuple(np.flatnonzero(row).tolist()) for row in mask]
    assert sets_of_mask(mask).tolist() == want


@given(SETS, st.integers(1, 7))
@settings(deadline=None)
def test_bits_tell_the_sets_again(raw: list[list[str]], size: int) -> None:
    sets = [found for one in raw if (found := members(one)) is not None]
    known = dict.fromkeys(value for one in sets for value in one)
    codes = CandidateCodes(SOURCE)
    parts = [
        codes.encode(labels(sets[at : at + size]), np.arange(at, at + size))
        for at in range(0, len(sets), size)
    ]
    if len(known) < 2:
        with pytest.raises(InputError, match="two classes are needed"):
            codes.in_all()
        return
    names, counts, _, about = codes.in_all()
    assert names is not None
    place = about["candidate_codes"]
    assert [names[code] for code in place] == list(known)
    assert counts == [sum(name in one for one in sets) for name in names]
    mask = np.concatenate(parts)
    assert mask.shape == (len(sets), WORDS)
    for row, one in zip(mask.tolist(), sets, strict=True):
        bits = sum(word << (64 * at) for at, word in enumerate(row))
        assert {names[code] for bit, code in enumerate(place) if bits >> bit & 1} == set(one)


@pytest.mark.parametrize("kind", ["csv", "parquet", "large", "coded", "feather", "jsonl", "xlsx"])
def test_tables_of_sets(tmp_path: Path, kind: str) -> None:
    x = np.arange(6.0)
    if kind in ("csv", "xlsx"):
        table = pd.DataFrame({"a": x, "y": ["|".join(one) for one in WRITTEN]})
        getattr(table, "to_csv" if kind == "csv" else "to_excel")(
            tmp_path / f"t.{kind}", index=False
        )
    else:
        inner = pa.dictionary(pa.int8(), pa.string()) if kind == "coded" else pa.string()
        lists = (pa.large_list if kind == "large" else pa.list_)(pa.string())
        column = pa.array([one or None for one in WRITTEN], lists)
        if kind == "coded":
            column = column.cast(pa.list_(inner))
        stored = pa.table({"a": x, "y": column})
        if kind == "jsonl":
            stored.to_pandas().to_json(tmp_path / "t.jsonl", orient="records", lines=True)
        elif kind == "feather":
            feather.write_feather(stored, tmp_path / "t.feather")
        else:
            pq.write_table(stored, tmp_path / "t.parquet")
    (file,) = tmp_path.iterdir()
    opened = open_source(file, None, "y", candidates="|")
    assert opened.feature_names == ("a",)
    want = [tuple(dict.fromkeys(one)) or None for one in WRITTEN]
    assert [found for chunk in opened.chunks(4) for found in chunk.label.tolist()] == want
    raw = look_at(open_source(file, None, "y", candidates="|", raw=True))
    assert raw.label is not None
    assert raw.label.tolist() == want
    if kind != "csv" and kind != "xlsx":
        assert open_source(file, None, "y").candidates == ""
        scored = open_source(file, with_labels=False, features=("a",), ignore="y")
        assert scored.feature_names == ("a",)


@pytest.mark.parametrize("kind", ["npz", "npy", "zarr"])
def test_arrays_of_masks(tmp_path: Path, kind: str) -> None:
    x, mask = np.ones((6, 3)), np.random.default_rng(0).random((6, 4)) < 0.5
    given_labels = None
    if kind == "npz":
        np.savez(tmp_path / "t.npz", X=x, y=mask)
    elif kind == "npy":
        np.save(tmp_path / "t.npy", x)
        given_labels = tmp_path / "y.npy"
        np.save(given_labels, np.asfortranarray(mask))
    else:
        group = zarr.create_group(tmp_path / "t.zarr")
        group.create_array("x", data=x)
        group.create_array("y", data=mask)
    opened = open_source(tmp_path / f"t.{kind}", given_labels)
    assert opened.candidates == ""
    want = [tuple(np.flatnonzero(row).tolist()) or None for row in mask]
    for rows in (2, 6):
        assert [found for chunk in opened.chunks(rows) for found in chunk.label.tolist()] == want


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (np.ones((5, 3), bool), "5 labels for 6 rows"),
        (np.ones((6, 3), int), "labels have shape .* or give a mask of candidates as bool"),
        (np.ones((6, 1001), bool), "a mask of 1,001 candidates, at most 1,000"),
    ],
)
def test_other_masks_are_refused(tmp_path: Path, y: npt.NDArray[Any], said: str) -> None:
    np.savez(tmp_path / "t.npz", X=np.ones((6, 2)), y=y)
    with pytest.raises(InputError, match=said):
        open_source(tmp_path / "t.npz")


def test_too_many_candidates_are_refused_with_the_row() -> None:
    codes = CandidateCodes(SOURCE)
    codes.encode(labels([(value,) for value in range(1000)]), np.arange(1000))
    with pytest.raises(InputError, match=r"more than 1,000 values.*at row 1001 \(from 0\)"):
        codes.encode(labels([(3,), (4, 1000)]), np.arange(1000, 1002))
