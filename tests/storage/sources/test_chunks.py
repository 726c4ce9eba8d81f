"""A chunk that a Zarr source does not have is lost rows, not rows of zeros."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import zarr

from storage.errors import InputError
from storage.sources.opening import open_source

X = np.arange(40.0, dtype=np.float32).reshape(20, 2) + 1
Y = np.arange(20) % 2


def group(path: Path, zarr_format: Any, shards: bool = False) -> Path:
    root = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    root.create_array("x", data=X, chunks=(5, 2), shards=(10, 2) if shards else None)
    root.create_array("y", data=Y, chunks=(10,))
    return path


def read(path: Path) -> list[Any]:
    return list(open_source(str(path)).chunks(7))


@pytest.mark.parametrize(
    ("zarr_format", "shards", "chunk"),
    [
        (3, False, "x/c/2/0"),
        (3, False, "y/c/0"),
        (3, True, "x/c/1/0"),
        (2, False, "x/3.0"),
        (2, False, "y/1"),
    ],
)
def test_missing_chunk_is_refused_by_name(
    tmp_path: Path, zarr_format: int, shards: bool, chunk: str
) -> None:
    path = group(tmp_path / "pool.zarr", zarr_format, shards)
    assert sum(len(piece.x) for piece in read(path)) == 20
    (path / chunk).unlink()
    with pytest.raises(InputError, match=f"pool.zarr: chunk {chunk} is missing; .*restore it"):
        read(path)


def test_missing_chunk_in_a_store_is_refused_by_name() -> None:
    url = "memory://chunks/pool.zarr"
    root = zarr.open_group(url, mode="w")
    root.create_array("x", data=X, chunks=(5, 2))
    root.create_array("y", data=Y)
    fsspec.filesystem("memory").rm_file("/chunks/pool.zarr/x/c/1/0")
    with pytest.raises(InputError, match="chunk x/c/1/0 is missing"):
        list(open_source(url).chunks(7))
