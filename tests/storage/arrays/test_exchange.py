"""The shuffle against dictionaries of lists."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import generators

from storage.arrays.exchange import Exchange, Slice
from storage.errors import StorageError
from storage.files.durable import seal, unseal
from storage.files.location import Location

Columns = dict[str, npt.NDArray[Any]]

DTYPES = ["int8", "uint8", "int32", "int64", "uint64", "float32", "float64", "bool"]
SHAPES: list[tuple[int, ...]] = [(), (1,), (3,), (2, 3)]
KINDS = st.dictionaries(
    st.sampled_from(["a", "row", "x", "label"]),
    st.tuples(st.sampled_from(DTYPES), st.sampled_from(SHAPES)),
    min_size=1,
)


def draw_columns(
    rng: np.random.Generator, n: int, kinds: dict[str, tuple[str, tuple[int, ...]]]
) -> Columns:
    """Any bytes at all, so nan and extremes too."""
    columns = {}
    for name, (dtype, shape) in kinds.items():
        value = rng.integers(0, 256, (n, *shape, np.dtype(dtype).itemsize), np.uint8)
        columns[name] = (
            (value % 2).astype(bool)[..., 0] if dtype == "bool" else (value.view(dtype)[..., 0])
        )
    return columns


def rows_of(columns: Columns) -> list[tuple[bytes, ...]]:
    n = len(next(iter(columns.values())))
    return [tuple(columns[name][i].tobytes() for name in sorted(columns)) for i in range(n)]


@given(
    rng=generators(),
    kinds=KINDS,
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=6),
    n_destinations=st.integers(1, 7),
    n_used=st.integers(1, 7),
)
@settings(max_examples=40, deadline=None)
def test_every_row_arrives_where_it_was_sent(
    rng: np.random.Generator,
    kinds: dict[str, tuple[str, tuple[int, ...]]],
    sizes: list[int],
    n_destinations: int,
    n_used: int,
) -> None:
    """In order of producers and, within one, in the order given; empty runs and slices too."""
    expected: dict[int, list[tuple[bytes, ...]]] = {d: [] for d in range(n_destinations)}
    slices: dict[int, list[Slice]] = {d: [] for d in range(n_destinations)}
    with tempfile.TemporaryDirectory() as folder:
        exchange = Exchange(Location.of(folder), "test")
        for i, n in enumerate(sizes):
            columns = draw_columns(rng, n, kinds)
            to = rng.integers(0, min(n_used, n_destinations), n)
            sent = exchange.send(f"p{i}", to, n_destinations, columns)
            for d, row in zip(to.tolist(), rows_of(columns), strict=True):
                expected[d].append(row)
            counts = dict(sent)
            ends = np.cumsum([counts.get(d, 0) for d in range(n_destinations)]).tolist()
            for d, stop in enumerate(ends):
                slices[d].append(Slice(f"p{i}", stop - counts.get(d, 0), stop))
        received = {d: exchange.receive(parts) for d, parts in slices.items()}
    assert {d: rows_of(columns) for d, columns in received.items()} == expected
    for columns in received.values():
        for name, (dtype, shape) in kinds.items():
            assert columns[name].dtype == dtype
            assert columns[name].shape[1:] == shape
            assert columns[name].flags["C_CONTIGUOUS"]


@given(generators(), st.integers(0, 90), st.integers(1, 12))
@settings(max_examples=30, deadline=None)
def test_rows_of_each_destination_are_counted(
    rng: np.random.Generator, n: int, n_destinations: int
) -> None:
    to = rng.integers(0, n_destinations, n)
    with tempfile.TemporaryDirectory() as folder:
        exchange = Exchange(Location.of(folder), "test")
        sent = exchange.send("p", to, n_destinations, {"row": np.arange(n)})
    assert sent == [(d, to.tolist().count(d)) for d in sorted(set(to.tolist()))]


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "uint64"])
def test_destinations_are_integers_of_any_kind(tmp_path: Path, dtype: str) -> None:
    exchange = Exchange(Location.of(tmp_path), "test")
    to = np.array([1, 0, 1]).astype(dtype)
    assert exchange.send("p", to, 2, {"row": np.arange(3)}) == [(0, 1), (1, 2)]


def test_rows_cross_an_object_store() -> None:
    location = Location.of("memory://exchange-test")
    exchange = Exchange(location, "test")
    exchange.send("p", np.array([1, 0]), 2, {"x": np.eye(2, dtype=np.float32)})
    assert exchange.receive([Slice("p", 1, 2)])["x"].tolist() == [[1, 0]]
    location.remove()


def test_slices_cross_the_chunks_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.arrays.exchange._CHUNK_BYTES", (64, 128))
    exchange = Exchange(Location.of(tmp_path), "test")
    exchange.send("p", np.zeros(1000, np.int64), 1, {"row": np.arange(1000)})
    assert exchange.receive([Slice("p", 13, 977)])["row"].tolist() == list(range(13, 977))
    assert (tmp_path / exchange.key("p")).read_bytes().count(b", ") > 50  # checksums


def test_a_head_may_be_longer_than_what_is_read_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.arrays.exchange._HEAD_BYTES", 20)
    exchange = sent(tmp_path)
    assert len(exchange.receive([Slice("p", 499, 500)])["row"]) == 1


@pytest.mark.parametrize("destination", [-1, 3])
def test_unknown_destination_is_refused(tmp_path: Path, destination: int) -> None:
    exchange = Exchange(Location.of(tmp_path), "test")
    with pytest.raises(ValueError, match="destinations outside"):
        exchange.send("p", np.array([0, destination]), 3, {"row": np.arange(2)})


def test_nothing_to_receive_is_said(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nothing to receive"):
        Exchange(Location.of(tmp_path), "test").receive([])


def sent(folder: Path, producer: str = "p") -> Exchange:
    rng, exchange = np.random.default_rng(0), Exchange(Location.of(folder), "test")
    x = rng.normal(size=(500, 3)).astype(np.float32)
    columns = {"x": x, "row": np.arange(500)}
    exchange.send(producer, rng.integers(0, 4, 500), 4, columns)
    return exchange


def test_run_is_the_same_bytes_again(tmp_path: Path) -> None:
    exchange = sent(tmp_path)
    sent(tmp_path, "q")
    one, other = ((tmp_path / exchange.key(name)).read_bytes() for name in "pq")
    assert one == other


def test_shorter_run_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    exchange = sent(tmp_path)
    exchange.send("p", np.zeros(2, np.int64), 1, {"row": np.arange(2)})
    assert set(exchange.receive([Slice("p", 0, 2)])) == {"row"}


def delete(file: Path) -> None:
    file.unlink()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def garble(file: Path) -> None:
    file.write_bytes(b"{")


def flip_length(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(bytes([content[0] ^ 1]) + content[1:])


def rename(file: Path) -> None:
    """A bit of a column's name."""
    file.write_bytes(file.read_bytes().replace(b'"row"', b'"rov"'))


@pytest.mark.parametrize("harm", [delete, cut, flip, garble, flip_length, rename])
def test_damaged_run_is_an_error(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    exchange = sent(tmp_path)
    harm(tmp_path / exchange.key("p"))
    with pytest.raises(StorageError, match="run train again to repair"):
        exchange.receive([Slice("p", 0, 500)])


def test_run_that_was_never_sent_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is missing"):
        Exchange(Location.of(tmp_path), "test").receive([Slice("p", 0, 1)])


def test_slice_beyond_the_end_of_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        sent(tmp_path).receive([Slice("p", 400, 600)])


@pytest.mark.parametrize(
    "changed",
    [
        *({"rows": value} for value in ("x", None, -1, [])),
        *({"chunk": value} for value in (0, -3, None, "y")),
        *({"record": value} for value in (None, 5, "<q9", [["a"]], [["a", "<q9"]])),
        *({"checksums": value} for value in (None, [], {}, 7)),
    ],
)
def test_a_head_that_somebody_has_made_up_is_an_error(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    exchange = sent(tmp_path)
    file = tmp_path / exchange.key("p")
    content = file.read_bytes()
    end = 4 + int.from_bytes(content[:4], "little")
    about = seal({**(unseal(content[4:end]) or {}), **changed})
    file.write_bytes(len(about).to_bytes(4, "little") + about + content[end:])
    with pytest.raises(StorageError, match="run train again to repair"):
        exchange.receive([Slice("p", 0, 500)])


def test_no_rows_are_none_wherever_they_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.arrays.exchange._CHUNK_BYTES", (64, 128))
    exchange = sent(tmp_path)
    for row in (0, 1, 7, 250, 499, 500):
        assert len(exchange.receive([Slice("p", row, row)])["row"]) == 0
