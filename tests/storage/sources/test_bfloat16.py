"""bfloat16 in arrays, as embeddings are often kept."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import zarr

from storage.errors import InputError
from storage.sources.opening import open_source

X = np.array([[1, -2.5, 3e38], [np.nan, np.inf, 1e-40], [0, -0.0, 0.1]], ml_dtypes.bfloat16)
EVERY = np.arange(2**16, dtype=np.uint16).reshape(-1, 4).view(ml_dtypes.bfloat16)


def write(folder: Path, kind: str, x: np.ndarray) -> Path:
    path = folder / f"x.{kind}"
    if kind == "npy":
        np.save(path, x)
    elif kind == "npz":
        np.savez(path, X=x, y=np.arange(len(x)) % 2)
    else:
        group = zarr.create_group(path)
        group.create_array("x", data=x.view("V2"), chunks=(-(-len(x) // 2), x.shape[1]))
        group.create_array("y", data=np.arange(len(x)) % 2)
    return path


@pytest.mark.parametrize("kind", ["npy", "npz", "zarr"])
@pytest.mark.parametrize("x", [X, EVERY, np.asfortranarray(X)])
def test_every_value_is_read_as_it_is(tmp_path: Path, kind: str, x: np.ndarray) -> None:
    source = open_source(write(tmp_path, kind, x), with_labels=kind != "npy")
    found = np.concatenate([chunk.x for chunk in source.chunks(5000)])
    assert np.array_equal(found, x.astype(np.float32), equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(x))


def test_other_types_without_a_name_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 2), "V4"))
    with pytest.raises(InputError, match=r"features have dtype \|V4; give real numbers"):
        open_source(tmp_path / "x.npy", with_labels=False)
