"""Every fault of arrays and of labels files is one clear line."""

import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from refusals import refused, saved, text
from scipy import sparse

from storage.sources.opening import open_source

X = np.arange(12.0).reshape(4, 3)


def test_arrays(tmp_path: Path) -> None:
    bare: dict[str, Any] = {"with_labels": False}
    objects = np.array([[1, "a"]], object)
    refused("Python objects (pickled), which are never", source=saved(tmp_path, objects), **bare)
    refused("dtype complex128; give real", source=saved(tmp_path, X * 1j), **bare)
    refused("dtype <U3", source=saved(tmp_path, X.astype("U3")), **bare)
    refused("dtype datetime64", source=saved(tmp_path, X.astype("M8[s]")), **bare)
    refused("shape (12,); reshape", source=saved(tmp_path, X.ravel()), **bare)
    refused("shape (2, 2, 3); reshape", source=saved(tmp_path, X.reshape(2, 2, 3)), **bare)
    refused("no rows; shape is (0, 3)", source=saved(tmp_path, X[:0]), **bare)
    refused("no feature columns; shape is (4, 0)", source=saved(tmp_path, X[:, :0]), **bare)
    refused("not a NumPy array", source=text(tmp_path, b"\x80\x04pickle", "x.npy"), **bare)
    refused("not a NumPy array", source=text(tmp_path, b"x", "x.npy"), **bare)
    refused("has no labels; give --labels", source=saved(tmp_path, X))
    np.savez(tmp_path / "t.npz", X=X, z=X[:, 0])
    refused("no array 'y'; arrays are 'X', 'z'", source=tmp_path / "t.npz")
    refused("no array 'q'", source=tmp_path / "t.npz", label_column="q")
    sparse.save_npz(tmp_path / "t.npz", sparse.csr_array(X))
    refused("sparse", "np.save(FILE, matrix.toarray())", source=tmp_path / "t.npz", **bare)
    np.save(tmp_path / "dense.npy", sparse.load_npz(tmp_path / "t.npz").toarray())
    dense = open_source(tmp_path / "dense.npy", with_labels=False)
    assert np.array_equal(next(dense.chunks(9))[0], X)
    np.savez(tmp_path / "t.npz", X=X, y=np.array([1, None, 2, 3], object))
    refused("t.npz[y]", "objects (pickled)", source=tmp_path / "t.npz")
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("X.npy", b"not an array")
    refused("t.npz[X]: not a NumPy array", source=tmp_path / "t.npz")


def test_labels_file(tmp_path: Path) -> None:
    x = saved(tmp_path, X)

    def with_labels(array: np.ndarray | str, *parts: str, name: str = "y.npy") -> None:
        is_text = isinstance(array, str)
        path = text(tmp_path, array, name) if is_text else saved(tmp_path, array, name)
        refused(*parts, source=x, labels=path)

    with_labels(np.zeros(3), "y.npy: 3 labels for 4 rows of features; give one label per row")
    with_labels(X, "labels have shape (4, 3)")
    with_labels(np.zeros(4, "M8[s]"), "labels have dtype datetime64", "float or bool) or text")
    with_labels("0\n1\n", "y.csv: 2 labels for 4 rows", name="y.csv")
    with_labels("a,b\n0,1\n", "2 columns; give --label-column, one of 'a', 'b'", name="y.csv")
    with_labels("", "the labels file is empty", name="y.csv")
    with_labels("0", "labels must be a .npy, .csv", name="y.json")
    path = text(tmp_path, "a,b\n0,1\n")
    refused("no column 'c'; columns are 'a'", source=x, labels=path, label_column="c")
    refused("give --label-column NAME instead of --labels", source=path, labels=path)
    missing = "none: no such file; check the path, or give --label-column "
    refused(missing, source=path, labels=tmp_path / "none")
    refused("no such file", source=x, labels=tmp_path / "none.npy")


def test_zarr(tmp_path: Path) -> None:
    zarr.open_array(tmp_path / "a", mode="w", shape=(4, 3), dtype="f4", chunks=(4, 3))
    refused("a: not a readable Zarr group", source=tmp_path / "a", with_labels=False)
    group = zarr.open_group(tmp_path / "g", mode="w")
    refused("no array 'x'; arrays are ", source=tmp_path / "g")
    group.create_array("x", data=X)
    refused("no array 'y'; arrays are 'x'", source=tmp_path / "g")
    group.create_array("y", data=X[:3, 0])
    refused("g[y]: 3 labels for 4 rows", source=tmp_path / "g")
    group.create_group("z")
    refused("g[z]: a group, not an array", source=tmp_path / "g", label_column="z")
    (tmp_path / "g/x/zarr.json").write_text("{")
    refused("g[x]: not a readable array", source=tmp_path / "g")


class Payload:
    """Makes a folder when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("change", [{"dtype": "|O"}, {}])
def test_pickles_in_zarr_2_are_not_loaded(tmp_path: Path, change: dict[str, str]) -> None:
    group = zarr.open_group(tmp_path / "g", mode="w", zarr_format=2)
    group.create_array("x", data=X, compressors=None)
    meta = json.loads((tmp_path / "g/x/.zarray").read_text())
    meta |= {"filters": [{"id": "pickle", "protocol": 5}], "fill_value": 0, **change}
    (tmp_path / "g/x/.zarray").write_text(json.dumps(meta))
    (tmp_path / "g/x/0.0").write_bytes(pickle.dumps(Payload(tmp_path / "loaded")))
    refused("g[x]: not a readable array", source=tmp_path / "g", with_labels=False)
    assert not (tmp_path / "loaded").exists()
