"""Every format gives the same rows, whatever the chunk size and wherever it lies."""

import io
import pickle
from collections.abc import Callable
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zarr.storage import FsspecStore, LocalStore

from storage.sources.base import FORMATS, Source
from storage.sources.opening import ARRAYS, TABLES, open_source

RNG = np.random.default_rng(7)
X = RNG.normal(size=(23, 3)).astype(np.float32)
Y = np.array(["no", "yes"])[RNG.integers(0, 2, 23)]
NAMES = ("age", "height, cm", 'the "b"')


def save(url: str, content: bytes, **options: Any) -> str:
    with fsspec.open(url, "wb", **options) as file:
        file.write(content)
    return url


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npz(packed: bool, **arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(buffer, **arrays)
    return buffer.getvalue()


def table(x: np.ndarray, y: np.ndarray) -> pa.Table:
    columns: list[Any] = [x[:, 0], list(map(str, y)), x[:, 1], x[:, 2]]
    return pa.table(dict(zip([NAMES[0], "sick", *NAMES[1:]], columns, strict=True)))


def csv(x: np.ndarray, y: np.ndarray, delimiter: str = ",") -> bytes:
    out = io.BytesIO()
    options = pyarrow.csv.WriteOptions(delimiter=delimiter)
    pyarrow.csv.write_csv(table(x, y), out, options)
    return out.getvalue()


def parquet(x: np.ndarray, y: np.ndarray, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table(x, y), out, **options)
    return out.getvalue()


def write_folder(base: str, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    save(f"{base}/t/part-2.parquet", parquet(x[15:], y[15:]))
    save(f"{base}/t/part-0.parquet", parquet(x[:4], y[:4]))
    save(f"{base}/t/part-1.parquet", parquet(x[4:15], y[4:15], row_group_size=5))
    save(f"{base}/t/_SUCCESS", b"")
    return {"source": f"{base}/t", "label_column": "sick"}


def write_zarr(base: str, x: np.ndarray, y: np.ndarray, version: int) -> dict[str, Any]:
    url = f"{base}/g.zarr"
    store = FsspecStore.from_url(url) if "://" in url else LocalStore(url)
    group = zarr.open_group(store, mode="w", zarr_format=version)  # type: ignore[arg-type]
    group.create_array("x" if version == 3 else "X", data=x, chunks=(5, 2))
    group.create_array("y", data=np.asarray(y, dtype=np.dtypes.StringDType()), chunks=(7,))
    return {"source": url}


Writer = Callable[[str, np.ndarray, np.ndarray], dict[str, Any]]
SICK = {"label_column": "sick"}
WRITERS: dict[str, Writer] = {
    "csv": lambda b, x, y: {"source": save(f"{b}/t.CSV", b"\n\n" + csv(x, y)), **SICK},
    "bom": lambda b, x, y: {"source": save(f"{b}/t.csv", b"\xef\xbb\xbf" + csv(x, y)), **SICK},
    "gz": lambda b, x, y: {
        "source": save(f"{b}/t.csv.gz", csv(x, y), compression="gzip"),
        **SICK,
    },
    "tsv": lambda b, x, y: {"source": save(f"{b}/t.tsv", csv(x, y, "\t")), **SICK},
    "parquet": lambda b, x, y: {
        "source": save(f"{b}/t.parquet", parquet(x, y, row_group_size=6)),
        **SICK,
    },
    "folder": write_folder,
    "npy": lambda b, x, y: {
        "source": save(f"{b}/x.npy", npy(x)),
        "labels": save(f"{b}/y.npy", npy(y)),
    },
    "fortran": lambda b, x, y: {
        "source": save(f"{b}/x.npy", npy(np.asfortranarray(x))),
        "labels": save(f"{b}/y.csv", "\n".join(["sick", *y]).encode()),
    },
    "npz": lambda b, x, y: {"source": save(f"{b}/t.npz", npz(False, X=x, y=y[:, None]))},
    "packed": lambda b, x, y: {
        "source": save(f"{b}/t.npz", npz(True, x=np.asfortranarray(x), sick=y.astype("S"))),
        **SICK,
    },
    "zarr3": lambda b, x, y: write_zarr(b, x, y, 3),
    "zarr2": lambda b, x, y: write_zarr(b, x, y, 2),
}


@pytest.fixture(scope="module", params=list(WRITERS))
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Source:
    base = str(tmp_path_factory.mktemp(request.param))
    return open_source(**WRITERS[request.param](base, X, Y))


def check(source: Source, rows: int, first: int = 0) -> None:
    chunks = list(source.chunks(rows, first))
    starts = list(range(rows * first, len(X), rows))
    assert [chunk.start for chunk in chunks] == starts
    for chunk in chunks:
        stop = min(chunk.start + rows, len(X))
        assert chunk.x.dtype == np.float32
        assert chunk.x.flags.c_contiguous
        assert chunk.source_id.dtype == np.int32
        np.testing.assert_array_equal(chunk.x, X[chunk.start : stop])
        assert chunk.label is not None
        assert [value if isinstance(value, str) else value.decode() for value in chunk.label] == Y[
            chunk.start : stop
        ].tolist()
        assert chunk.source_id.shape == (stop - chunk.start,)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(rows=st.integers(1, 30), first=st.integers(0, 4))
def test_chunks_are_the_rows_in_order(opened: Source, rows: int, first: int) -> None:
    check(opened, rows, first)


def test_description(opened: Source, request: pytest.FixtureRequest) -> None:
    assert opened.n_rows == (None if opened.kind == "csv" else len(X))
    tabular = opened.kind in ("csv", "parquet")
    assert opened.feature_names == (NAMES if tabular else ("x0", "x1", "x2"))
    own = {"npy": "y.npy", "fortran": "y.csv", "npz": "y", "zarr2": "y", "zarr3": "y"}
    assert opened.label_name == own.get(request.node.callspec.params["opened"], "sick")
    assert opened.n_bytes > 0
    check(pickle.loads(pickle.dumps(opened)), 9)
    assert sum(1 for _ in opened.chunks(10**9)) == 1
    with pytest.raises(ValueError, match="rows=0"):
        next(opened.chunks(0))


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_from_a_url(name: str) -> None:
    wanted = WRITERS[name](f"memory://sources/{name}", X, Y)
    source = open_source(**wanted)
    check(source, 7, 1)
    assert source.files[0].startswith("memory://")
    unlabeled = open_source(wanted["source"], with_labels=False, ignore="sick")
    assert unlabeled.label_name is None
    assert all(chunk.label is None for chunk in unlabeled.chunks(7))
    if source.kind in ("csv", "parquet"):
        turned = open_source(
            wanted["source"], with_labels=False, features=NAMES[::-1], ignore="sick"
        )
        assert turned.feature_names == NAMES[::-1]
        np.testing.assert_array_equal(next(turned.chunks(30)).x, X[:, ::-1])


def test_of_each_format_it_is_said_what_follows() -> None:
    assert {*FORMATS} == {*TABLES, *(end.removeprefix(".") for end in ARRAYS), "zarr"}


def test_rows_of_a_folder_know_their_file(tmp_path: Any) -> None:
    source = open_source(**write_folder(str(tmp_path), X, Y))
    assert source.files == tuple(f"{tmp_path}/t/part-{i}.parquet" for i in range(3))
    ids = np.concatenate([chunk.source_id for chunk in source.chunks(6)])
    np.testing.assert_array_equal(ids, np.repeat([0, 1, 2], [4, 11, 8]))


@pytest.mark.parametrize("dtype", ["u1", ">i2", "i8", "f2", ">f8", "?"])
@pytest.mark.parametrize("name", ["npy", "fortran", "npz", "packed", "parquet", "zarr3"])
def test_any_real_dtype(name: str, dtype: str, tmp_path: Any) -> None:
    x = RNG.integers(0, 2, X.shape).astype(dtype)
    native = x if name != "parquet" else x.astype(x.dtype.newbyteorder("="))
    source = open_source(**WRITERS[name](str(tmp_path), native, Y))
    got = np.concatenate([chunk.x for chunk in source.chunks(10)])
    np.testing.assert_array_equal(got, x.astype(np.float32))
