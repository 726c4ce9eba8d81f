"""The shuffle against dictionaries of lists."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import StorageError
from storage.exchange import Exchange, Slice
from storage.location import Location


def rows(rng: np.random.Generator, n: int, first: int) -> dict[str, npt.NDArray[Any]]:
    return {
        "x": rng.normal(size=(n, 3)).astype(np.float32),
        "row": np.arange(first, first + n),
        "label": rng.integers(0, 2, n).astype(np.int8),
        "core": rng.random(n) < 0.5,
    }


@given(
    seed=st.integers(0, 9999),
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=5),
    n_destinations=st.integers(1, 7),
)
@settings(max_examples=25, deadline=None)
def test_every_row_arrives_where_it_was_sent(
    seed: int, sizes: list[int], n_destinations: int
) -> None:
    rng = np.random.default_rng(seed)
    expected: dict[int, list[int]] = {d: [] for d in range(n_destinations)}
    with tempfile.TemporaryDirectory() as folder:
        exchange = Exchange(Location.of(folder), "test")
        sent, slices = {}, {d: [] for d in range(n_destinations)}
        for i, n in enumerate(sizes):
            columns = rows(rng, n, first=1000 * i)
            to = rng.integers(0, n_destinations, n)
            offsets = exchange.send(f"p{i}", to, n_destinations, columns)
            for d in range(n_destinations):
                expected[d] += columns["row"][to == d].tolist()
                if offsets[d] < offsets[d + 1]:
                    slices[d].append(Slice(f"p{i}", offsets[d], offsets[d + 1]))
            sent |= {row: (i, j) for j, row in enumerate(columns["row"].tolist())}
            for name, values in columns.items():
                for row, value in zip(columns["row"].tolist(), values, strict=True):
                    sent[row, name] = value
        for d, parts in slices.items():
            if not parts:
                assert expected[d] == []
                continue
            got = exchange.receive(parts)
            assert got["row"].tolist() == expected[d]
            for name, values in got.items():
                assert values.flags["C_CONTIGUOUS"]
                for row, value in zip(expected[d], values, strict=True):
                    assert np.array_equal(value, sent[row, name])


def test_unknown_destination_is_refused(tmp_path: Path) -> None:
    exchange = Exchange(Location.of(tmp_path), "test")
    with pytest.raises(ValueError, match="destinations outside"):
        exchange.send("p", np.array([0, 3]), 3, {"row": np.arange(2)})


def test_nothing_to_receive_is_said(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nothing to receive"):
        Exchange(Location.of(tmp_path), "test").receive([])


def test_run_is_the_same_bytes_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns, to = rows(rng, 500, 0), rng.integers(0, 4, 500)
    exchange = Exchange(Location.of(tmp_path), "test")
    for producer in ("p", "q"):
        exchange.send(producer, to, 4, columns)
    p, q = (
        {f.relative_to(tmp_path / exchange.key(name)): f.read_bytes() for f in files}
        for name in ("p", "q")
        if (files := [f for f in (tmp_path / exchange.key(name)).rglob("*") if f.is_file()])
    )
    assert p == q
