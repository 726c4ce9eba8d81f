"""Collections in memory, and not in memory, as sources."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import dask
import dask.array as da
import dask.dataframe as dd
import ml_dtypes
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from distributed import Client, LocalCluster

import knnoise
from flows.cli import main
from flows.review.source import SourceTable
from flows.scorings.scored import Trained
from flows.steps.ingest.columns import IMPUTE
from knnoise.inputs import as_files, in_python, write_array
from knnoise.result import Training
from storage.errors import InputError, StorageError
from storage.sources.opening import open_source
from storage.sources.request import Columns

QUIET = {"workers": 0, "quiet": True}


def frame(n: int = 240) -> pd.DataFrame:
    """Ids, numbers with gaps, an embedding, a flag, text labels."""
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 4)) + 3 * clean[:, None]
    table = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "flag": clean == 1})
    table["vector"] = [row.tolist() for row in x[:, 2:]]
    table["sick"] = np.where(clean ^ (rng.random(n) < 0.15), "yes", "no")
    table.loc[[3, 70], "b"] = np.nan
    return table.set_index(pd.Index([f"P{i:03d}" for i in range(n)], name="patient"))


OPTIONS = {"label_column": "sick", "impute": "median", "k": 10, **QUIET}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A training on the pandas frame."""
    return knnoise.train(frame(), tmp_path_factory.mktemp("inputs") / "run", **OPTIONS)


@pytest.fixture(scope="module")
def expected(trained: Training) -> pd.DataFrame:
    """What it finds, of rows that nothing names."""
    assert trained.label_issues.index.equals(frame().index)
    return trained.label_issues.reset_index(drop=True)


def test_a_review_says_that_the_table_was_in_memory(trained: Training) -> None:
    """The file that it was for the time of the training will not be back."""
    table = SourceTable.of(Trained.of(trained.run), np.arange(3))
    assert table is not None
    assert table.trouble == (
        "The table that was trained on was in memory. Features are shown; --show FILE takes a "
        "table with the same rows."
    )


def polars_frame() -> pl.DataFrame:
    table = frame().reset_index()
    columns = {name: pl.Series(table[name].tolist()) for name in table.columns}
    columns["sick"] = columns["sick"].cast(pl.Categorical)
    return pl.DataFrame(columns)


@pytest.mark.parametrize("lazy", [False, True])
def test_polars_frames_are_trained_on_and_scored(
    lazy: bool, tmp_path: Path, expected: pd.DataFrame
) -> None:
    source = polars_frame().lazy() if lazy else polars_frame()
    trained = knnoise.train(source, tmp_path / "run", id_column="patient", **OPTIONS)
    assert trained.label_issues.equals(expected)
    scores = knnoise.score(source.drop("sick"), trained, **QUIET).frame
    assert scores["patient"].tolist() == expected["patient"].tolist()


def test_text_of_polars_is_looked_at_as_text(tmp_path: Path) -> None:
    price, y = ["1,200", "7", "35"] * 20, ["u", "v"] * 30
    table = pl.DataFrame({"price": price, "y": pl.Series(y, dtype=pl.Categorical)})
    table.write_ipc(tmp_path / "t.arrow")
    for source in (table, str(tmp_path / "t.arrow")):
        assert "give parse='price=thousands'" in str(knnoise.check(source, label_column="y"))
        found = knnoise.check(source, label_column="y", parse="price=thousands")
        assert not [finding for finding in found.findings if finding.kind in ("parse", "text")]


def test_a_dask_frame_is_trained_on_as_that_of_pandas(
    tmp_path: Path, expected: pd.DataFrame
) -> None:
    with dask.config.set({"dataframe.convert-string": False}):
        source = dd.from_pandas(frame(), npartitions=5)
        trained = knnoise.train(source, tmp_path / "run", **OPTIONS)
        assert trained.label_issues.equals(expected)
        few = source[source["a"] > 2].reset_index(drop=True)  # an index that begins anew
        scores = knnoise.score(few, trained, **QUIET).frame
    assert "patient" not in scores
    assert scores["row"].tolist() == list(range(int((frame()["a"] > 2).sum())))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.Table.from_pandas])
def test_annotations_may_be_a_frame(
    kind: Callable[[pd.DataFrame], Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a file, and to go on with; one that is the source, too, is one table."""
    table = frame().reset_index()[["patient", "a", "flag", "sick"]]
    said = table[["patient", "sick"]].rename(columns={"sick": "label"})
    long = pd.concat([said.assign(annotator=who) for who in ("ann", "bob")], ignore_index=True)
    source, options = table.drop(columns="sick"), {"id_column": "patient", "k": 10, **QUIET}
    trained = knnoise.train(source, tmp_path / "run", annotations=kind(long), **options)
    assert trained.annotators.index.tolist() == ["ann", "bob"]
    assert main(["settings", "--run", trained.run]) == 0
    assert "annotations" not in capsys.readouterr().out.replace(str(tmp_path), "")
    assert "knnoise-" not in trained.report()
    again = knnoise.train(source, tmp_path / "run", annotations=kind(long), **options)
    assert again.consensus.equals(trained.consensus)
    with pytest.raises(InputError, match=r"begun otherwise: annotations has [\d,]+ bytes"):
        knnoise.train(source, tmp_path / "run", annotations=kind(long[100:]), **options)
    with pytest.raises(InputError, match=r"begun otherwise: the DataFrame has [\d,]+ bytes"):
        knnoise.train(source[["patient", "a"]], tmp_path / "run", annotations=long, **options)
    whole = kind(long.merge(source, on="patient"))
    found = knnoise.check(whole, id_column="patient", annotations=whole)
    assert "480 labels of 240 rows by 2 annotators" in str(found)
    assert found.remedies is not None
    assert found.remedies["annotations"] is whole
    with pytest.raises(InputError, match=r"^annotations: no column 'patient'"):
        knnoise.check(source, id_column="patient", annotations=long[["annotator", "label"]])


def test_partitions_without_rows_and_text_of_dask(tmp_path: Path) -> None:
    table = frame().drop(columns="vector").assign(n=range(240))
    source = dd.from_pandas(table, npartitions=6)
    source = source[source["n"] >= 100]
    with as_files(source) as files:
        assert files.ids == {"id_column": "patient"}
        columns = Columns(files.ids["id_column"])
        (chunk,) = open_source(files.path, None, "sick", columns=columns).chunks(10_000)
        assert chunk.id.tolist() == table.index[100:].tolist()
        expected = table[["a", "b", "flag", "n"]].iloc[100:].astype("f4")
        assert np.allclose(chunk.x, expected, equal_nan=True)
    with pytest.raises(InputError, match="the Dask data frame has no rows"):
        knnoise.check(source[source["n"] < 0])


def test_dask_arrays_are_written_chunk_by_chunk() -> None:
    x = np.random.default_rng(0).normal(size=(1000, 7)).astype(np.float32)
    array = da.from_array(x, chunks=((300, 1, 699), (4, 3)))
    y = da.from_array(np.arange(1000) % 2, chunks=100)
    labels = dd.from_dask_array(y)
    for given in (y, labels):
        with as_files(array, given) as files:
            (chunk,) = open_source(files.path, files.labels).chunks(10_000)
            assert np.array_equal(chunk.x, x)
            assert np.array_equal(chunk.label, np.arange(1000) % 2)
    short = array.astype(ml_dtypes.bfloat16)
    with as_files(short) as files:
        (chunk,) = open_source(files.path, with_labels=False).chunks(10_000)
        assert np.array_equal(chunk.x, x.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_all_of_an_array_has_its_room_before_any_chunk_is_written(tmp_path: Path) -> None:
    """Who writes to a page of a mapped file that the disk has no room for is killed."""
    array = tmp_path / "array.npy"

    def look(block: np.ndarray) -> np.ndarray:
        found = array.stat()
        return block * 0 + (found.st_blocks * 512 >= found.st_size)

    values = da.ones((1000, 100), chunks=(100, 100)).map_blocks(look, meta=np.empty((0, 2)))
    write_array(values, array)
    assert np.load(array).all()


def test_no_more_than_a_few_chunks_are_held() -> None:
    array = da.random.default_rng(0).normal(size=(200_000, 50), chunks=(5_000, 50))
    wide = array.to_dask_dataframe(columns=[f"c{i}" for i in range(50)])
    with dask.config.set(scheduler="synchronous"):
        for source in (array, wide):
            tracemalloc.start()
            with as_files(source):
                peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 16e6 < array.nbytes / 4


def test_workers_of_a_cluster_write_their_parts(expected: pd.DataFrame, tmp_path: Path) -> None:
    table = frame().drop(columns="vector")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
        as_files(dd.from_pandas(table, npartitions=4)) as files,
    ):
        source = open_source(files.path, None, "sick", columns=Columns(files.ids.get("id_column")))
        assert sum(len(chunk.x) for chunk in source.chunks(100)) == len(table)


def test_a_label_that_is_none_is_missing() -> None:
    labels = ["cat", None, "None", float("nan"), pd.NA]
    with as_files(np.zeros((5, 2)), labels) as files:
        (chunk,) = open_source(files.path, files.labels).chunks(5)
    assert list(chunk.label) == ["cat", "", "None", "", ""]  # as a table has no label


def test_labels_in_memory_are_not_called_after_a_file() -> None:
    x, one = np.random.default_rng(0).normal(size=(20, 2)), "labels: all labels are 1"
    with pytest.raises(InputError, match=f"^{one}"):
        knnoise.train(x, labels=np.ones(20), **QUIET)
    mixed = pd.DataFrame(x, columns=["a", "b"]).assign(sick=[True, "False"] * 10)
    with pytest.raises(
        InputError, match=r"column sick .*; give its values one type, .*or astype\(str\)"
    ):
        knnoise.train(mixed, label_column="sick", **QUIET)
    typed = mixed.assign(b=[1.5, "2"] * 10, sick=mixed["sick"].astype(str))
    with pytest.raises(InputError, match=r"column b .*; give its values one type, by astype\(fl"):
        knnoise.train(typed, label_column="sick", **QUIET)
    with as_files(typed.astype({"b": float})) as files:  # text would be no feature
        assert len(open_source(files.path, None, "sick").feature_names) == 2
    complex_column = pd.DataFrame({"a": x[:, 0], "b": x[:, 1] * 1j, "sick": [0, 1] * 10})
    with pytest.raises(InputError, match=r"column 'b' holds complex numbers; give their real"):
        knnoise.train(complex_column, label_column="sick", **QUIET)


def test_labels_without_an_index_are_in_the_order_of_the_rows() -> None:
    table, labels = pd.DataFrame(np.zeros((3, 2))), ["b", "a", "b"]
    strings = np.array(labels, np.dtypes.StringDType())
    for given in (labels, strings, pd.Categorical(labels), pd.Index(labels), pd.array(labels)):
        with as_files(table, given) as files:
            assert np.load(str(files.labels)).tolist() == labels


def test_whole_numbers_beside_a_missing_one_keep_their_digits() -> None:
    numbers = [2**60, 2**60 + 1, None]
    for labels in (pd.Series(numbers, dtype="Int64"), pl.Series(numbers), pa.array(numbers)):
        with as_files(np.zeros((3, 2)), labels) as files:
            (chunk,) = open_source(files.path, files.labels).chunks(3)
        assert list(chunk.label) == [f"{2**60}", f"{2**60 + 1}", ""]


def test_labels_in_memory_have_no_columns() -> None:
    table = frame().drop(columns="vector")
    for function in (knnoise.check, knnoise.train):
        with pytest.raises(InputError, match="labels and label_column: give one of them"):
            function(table, labels=table["sick"], label_column="sick")


def test_an_index_that_does_not_count_from_0_names_the_rows(tmp_path: Path) -> None:
    table = frame().drop(columns=["vector", "b"]).reset_index(drop=True)
    for part in (table[40:], table[::-1]):
        clean = knnoise.train(part, label_column="sick", **QUIET).clean(part).frame
        pd.testing.assert_frame_equal(
            clean, part.loc[clean.index], check_dtype=False, check_names=False
        )
    for same in (table, table.set_axis(np.arange(240))):
        with as_files(same) as files:
            assert files.ids == {}
    levels = pd.MultiIndex.from_product([["a", "b"], range(120)])
    for index, what in ((np.arange(240) / 2, "float64"), (levels, "of 2 levels")):
        with (
            pytest.raises(InputError, match=rf"index of the rows is {what}.*give reset_index\("),
            as_files(table.set_axis(index)),
        ):
            pass
    with as_files(table.set_axis(levels), id_column="a") as files:
        assert files.ids == {}


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_cleaned_rows_have_the_types_of_their_frame(tmp_path: Path, ending: str) -> None:
    """Files know no categories, no NA, and dates of fewer kinds."""
    gap = [None if at == 7 else at % 3 for at in range(240)]
    day = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(240), "D"))
    levels = pd.CategoricalDtype(["c", "b", "a", "unused"], ordered=True)
    columns: dict[str, Any] = {
        "level": pd.Series([*"abc"] * 80, dtype=levels),
        "number": pd.Categorical(gap),
        "date": day.astype("datetime64[s]"),
        "zone": day.dt.tz_localize("Europe/Zurich"),
        "decimal": [Decimal(at).scaleb(-2) for at in range(240)],
        "sparse": pd.arrays.SparseArray(np.arange(240) % 9 // 8 * 1.0),
        "arrow": pd.array(gap, pd.ArrowDtype(pa.int8())),
        "truth": pd.array([None if at is None else at > 1 for at in gap], "boolean"),
        "flag": pd.array([True, False] * 120, "boolean"),
    }
    texts = [None if at is None else str(at) for at in gap]
    columns |= {kind: pd.array(gap, kind) for kind in ("UInt8", "Int16", "Float32")}
    columns |= {f"whole {kind}": pd.array([*range(240)], kind) for kind in ("UInt8", "Int64")}
    columns |= {kind: pd.array(texts, kind) for kind in ("string[python]", "string[pyarrow]")}
    plain = frame()[["a", "sick"]].reset_index(drop=True)
    table = plain.astype({"sick": pd.CategoricalDtype(["yes", "no"])}).assign(**columns)
    trained = knnoise.train(table, label_column="sick", exclude=[*columns], k=10, **QUIET)
    kept = table[~trained.label_issues["is_label_issue"]].reset_index(drop=True)
    dropped = trained.clean(table, tmp_path / f"dropped.{ending}").frame
    pd.testing.assert_frame_equal(dropped, kept)
    relabeled = trained.clean(table, tmp_path / f"relabeled.{ending}", "relabel").frame
    pd.testing.assert_frame_equal(relabeled.drop(columns="sick"), table.drop(columns="sick"))
    assert relabeled["sick"].dtype == table["sick"].dtype


@pytest.mark.parametrize("how", ["drop", "weight"])
def test_cleaned_rows_have_the_index_of_their_frame(how: Any) -> None:
    table = frame()[["a", "sick"]].reset_index(drop=True)
    table.loc[7, "a"] = np.nan
    options: dict[str, Any] = {"label_column": "sick", "impute": "drop", "k": 10, **QUIET}
    for index in (
        pd.Index([UUID(int=row) for row in range(240)]),
        pd.period_range("2020-01", periods=240, freq="M"),
        pd.CategoricalIndex([f"r{row % 80}" for row in range(240)]),
    ):
        named = table.set_axis(index)
        trained = knnoise.train(named, **options)
        wrong = trained.label_issues["is_label_issue"].to_numpy()
        judged = np.delete(np.arange(240), 7)
        found = trained.clean(named, how=how).frame
        kept = judged[~wrong] if how == "drop" else judged
        pd.testing.assert_index_equal(found.index, index[kept].rename("index"))
        assert found["a"].tolist() == table["a"][kept].tolist()


def test_columns_of_several_levels_go_by_their_text() -> None:
    table = frame()[["a", "sick"]].reset_index(drop=True)
    table.columns = pd.MultiIndex.from_product([["x"], table.columns])
    trained = knnoise.train(table, label_column="('x', 'sick')", k=10, **QUIET)
    clean = trained.clean(table, how="relabel").frame
    assert [*clean] == ["('x', 'a')", "('x', 'sick')"]
    assert clean["('x', 'a')"].tolist() == table["x", "a"].tolist()
    wide = pd.DataFrame(np.zeros((9, 200))).assign(**{"7": 1.0})
    with pytest.raises(InputError, match=r"column names occur twice: '7'; rename"), as_files(wide):
        pass


def test_cleaned_whole_numbers_beside_gaps_have_their_bits() -> None:
    table = pl.from_pandas(frame()[["a", "sick"]]).with_columns(n=pl.Series([None, 7] * 120))
    table = table.with_columns(pl.col("n").cast(pl.UInt8))
    options = {"label_column": "sick", "exclude": ["n"], "k": 10, **QUIET}
    assert knnoise.train(table, **options).clean(table).frame["n"].dtype == "UInt8"


def test_whole_numbers_of_128_bits_are_read_where_64_hold_them() -> None:
    numbers = pl.Series("n", range(20)).cast(pl.Int128)
    table = pl.DataFrame({"a": np.arange(20.0), "n": numbers, "sick": [0, 1] * 10})
    for given in (table, table.lazy()):
        with as_files(given) as files:
            (chunk,) = open_source(files.path, None, "sick").chunks(20)
        assert chunk.x[:, 1].tolist() == [*range(20)]
    large = table.with_columns(pl.lit(2**70, dtype=pl.Int128).alias("n"))
    with pytest.raises(InputError, match="'n'"), as_files(large):
        pass
    with pytest.raises(InputError, match=r"labels cannot be read.*128"), as_files(table, numbers):
        pass


def test_ranges_and_periods_of_pandas_are_text() -> None:
    ages = pd.cut([10.0, 40.0, np.nan], [0, 18, 65])
    table = pd.DataFrame({"a": ages, "b": pd.arrays.IntervalArray(ages), "n": [1, 2, 3]})
    table = table.set_index(pd.period_range("2024-01", periods=3, freq="M", name="month"))
    table["p"] = table.index
    with as_files(table) as files:
        read = pd.read_feather(files.path)
    for name in ("a", "b"):
        assert read[name].fillna("").tolist() == ["(0.0, 18.0]", "(18.0, 65.0]", ""]
    for name in ("month", "p"):
        assert read[name].tolist() == ["2024-01", "2024-02", "2024-03"]


def test_sparse_columns_of_pandas_are_as_others() -> None:
    dense = pd.DataFrame({"a": [0.0, 1.5, 0.0], "flag": [True, False, False]})
    sparse = pd.get_dummies(["x", "y", "x"], sparse=True)
    with as_files(pd.concat([sparse, dense], axis=1)) as files:
        read = pd.read_feather(files.path)
    assert read["x"].tolist() == [True, False, True]
    assert read[["a", "flag"]].equals(dense)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("values", [frame(), pl.LazyFrame({"a": [1.0, 2.0]})])
def test_a_full_temporary_folder_is_no_fault_of_the_table(
    values: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = type(Path("/dev/full"))

    class Full(full):
        def __truediv__(self, name: str) -> Path:
            return full("/dev/full")

    monkeypatch.setattr("knnoise.inputs.Path", Full)
    message = r"has no room for what is in memory \(.* left .*\); make some, or set TMPDIR to a fol"
    with pytest.raises(StorageError, match=message), as_files(values):
        pass


def test_what_a_mask_hides_is_missing() -> None:
    hidden = np.array([[False, True], [False, False]])
    values, labels = (
        np.ma.masked_array([[1, 2], [3, 4]], hidden),
        np.ma.masked_array([7, 8], [1, 0]),
    )
    with as_files(values, labels) as files:
        (chunk,) = open_source(files.path, files.labels).chunks(5)
    assert np.array_equal(chunk.x, [[1, np.nan], [3, 4]], equal_nan=True)
    assert list(chunk.label) == ["", "8"]


def test_an_array_of_xarray_is_one() -> None:
    x = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    for array in (x, da.from_array(x, chunks=2)):
        with as_files(xr.DataArray(array, name="x")) as files:
            (chunk,) = open_source(files.path, with_labels=False).chunks(5)
        assert np.array_equal(chunk.x, x)


def test_of_a_dataset_of_xarray_one_array_is_wanted() -> None:
    x, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    arrays = xr.Dataset({"x": (("r", "c"), x), "y": ("r", y), "data": ("r", x[:, 0])})
    for source, labels in ((arrays, y), (x, arrays)):
        with pytest.raises(InputError, match=r"several arrays of xarray; give one of them, such"):
            knnoise.check(source, labels=labels)
    assert knnoise.check(arrays["x"], labels=arrays["y"]).n_features == 2
    found = knnoise.check(arrays.drop_vars("x").to_dataframe(), label_column="y")
    assert found.label_counts == [(0, 30), (1, 30)]


def test_labels_by_another_index_are_refused() -> None:
    table = frame().drop(columns=["vector", "b"])
    labels = table.pop("sick")
    shuffled = labels.sample(frac=1.0, random_state=0)
    for function in (knnoise.check, knnoise.train):
        with pytest.raises(InputError, match=r"index is not that of the rows; give labels.reindex"):
            function(table, labels=shuffled)
    for given in (labels, labels.to_numpy(), dd.from_pandas(labels == "yes", npartitions=2)):
        assert knnoise.check(table, labels=given).label_name == "labels"


def test_an_index_names_the_rows_whose_labels_are_wanted(tmp_path: Path) -> None:
    table = frame()[["a", "flag"]]
    wanted = pd.read_csv(knnoise.acquire(table, tmp_path / "run", budget=5, **QUIET)["wanted"])
    assert wanted["patient"].tolist() == table.index[wanted["row"]].tolist()


def test_scores_can_be_a_column_of_the_frame_whatever_its_index(tmp_path: Path) -> None:
    table = frame()[["a", "flag", "sick"]].reset_index()
    options = {"label_column": "sick", "id_column": "patient", "k": 10, **QUIET}
    trained = knnoise.train(table, tmp_path / "run", impute="drop", **options)
    new = table.sample(frac=1.0, random_state=0)
    new.iloc[3, new.columns.get_loc("a")] = np.nan
    levels = new.set_index([new.index, new.index])
    for rows in (new, new.reset_index(drop=True), new.set_index("patient"), levels):
        found = knnoise.score(rows, trained, **QUIET).frame
        beside = rows.assign(at=found["row"])["at"].dropna()
        assert beside.tolist() == [0, 1, 2, *range(4, len(rows))]
        assert len(found.merge(table, on="patient")) == len(found)  # no level is called so
    again = knnoise.train(new, tmp_path / "new", impute="drop", **options)
    for found in (again.label_issues, again.data_issues):
        assert (
            new.assign(at=found["patient"])["at"].dropna() == new["patient"].drop(new.index[3])
        ).all()
    assert knnoise.open_run(again.run).label_issues.index[:2].tolist() == [0, 1]


def test_an_index_is_no_feature_where_a_column_names_the_rows(tmp_path: Path) -> None:
    table = frame()[["a", "flag", "sick"]].reset_index()
    mixed = table.sample(frac=1.0, random_state=0)  # whose index are numbers in disorder
    options = {"label_column": "sick", "id_column": "patient", "k": 10, **QUIET}
    trained = knnoise.train(mixed, tmp_path / "run", **options)
    assert trained.summary["n_features"] == 2
    assert trained.label_issues["patient"].tolist() == mixed["patient"].tolist()
    scores = knnoise.score(mixed.drop(columns="sick")[:9], trained, **QUIET).frame
    assert scores["patient"].tolist() == mixed["patient"][:9].tolist()
    assert trained.clean(mixed).frame.columns.tolist() == mixed.columns.tolist()
    plain = mixed.drop(columns="patient")
    trained = knnoise.train(plain, tmp_path / "plain", label_column="sick", k=10, **QUIET)
    clean = trained.clean(plain).frame
    assert clean.equals(plain.loc[clean.index].rename_axis("index"))
    with as_files(dd.from_pandas(frame().assign(id=range(240))), id_column="id") as files:
        assert "patient" not in open_source(files.path, with_labels=False, raw=True).feature_names
    with pytest.raises(InputError, match="the index of the rows is called 'a', as a column is"):
        knnoise.check(mixed.rename_axis("a"), label_column="sick")


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    array = da.from_array(np.arange(10.0).reshape(5, 2), chunks=2)
    with pytest.raises(InputError, match="call its compute_chunk_sizes"):
        knnoise.check(array[array[:, 0] > 3])
    with pytest.raises(InputError, match="a Dask array of objects"):
        knnoise.check(array.astype(object))
    with pytest.raises(InputError, match="an array of objects cannot be read"):
        knnoise.check(np.array([[1, None]]))
    with pytest.raises(InputError, match="the LazyFrame cannot be read as a table: unable to find"):
        knnoise.check(polars_frame().lazy().select("nothing"))

    def gone(block: np.ndarray) -> np.ndarray:
        for file in tmp_path.glob("knnoise-*/*"):
            file.unlink(missing_ok=True)  # another block was first
        return block

    lost = array.map_blocks(gone, dtype=float, meta=np.empty((0, 2)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path))
        with pytest.raises(InputError, match=r"cannot write .* set TMPDIR to a folder that all"):
            knnoise.check(lost)


class Tensor:
    """What torch and others have for arrays."""

    def __init__(self, values: object) -> None:
        self.values = np.asarray(values)

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.values


def test_a_tensor_is_an_array(tmp_path: Path) -> None:
    table = frame()
    x, y = table[["a", "flag"]].to_numpy(float), (table["sick"] == "yes").to_numpy(int)
    found = [
        knnoise.train(source, tmp_path / name, labels=labels, **QUIET).rates
        for name, source, labels in (("array", x, y), ("tensor", Tensor(x), Tensor(y)))
    ]
    assert found[0].equals(found[1])
    with pytest.raises(InputError, match=r"the Series: features have shape \(240,\); reshape them"):
        knnoise.check(table["a"])
    with pytest.raises(InputError, match="label_column=2: must be text, such as '2'"):
        knnoise.check(table, label_column=2)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_hold_candidate_sets(kind: str) -> None:
    sets = [["cat", "dog"], ["dog"], ["emu", "cat"]] * 20
    table = pd.DataFrame({"a": np.arange(60.0), "kind": sets})
    source = table if kind == "pandas" else pl.DataFrame({"a": table["a"].to_numpy(), "kind": sets})
    with as_files(source) as files:
        opened = open_source(files.path, None, "kind")
        (chunk,) = opened.chunks(60)
        assert opened.feature_names == ("a",)
        assert chunk.label is not None
        assert chunk.label.tolist() == [tuple(one) for one in sets]


@pytest.mark.parametrize("sets", [[{"cat"}, {"dog", "cat"}], [["cat"], ["cat", "dog"]]])
def test_arrays_of_sets_are_refused(sets: list[set[str] | list[str]]) -> None:
    with (
        pytest.raises(InputError, match="labels that are sets: give a mask of bool"),
        as_files(np.ones((2, 3)), sets),
    ):
        pass


@pytest.mark.parametrize("labels", [{0: 1, 1: 0}, iter([0, 1])])
def test_labels_that_are_no_array_are_refused_by_their_type(labels: Any) -> None:
    with (
        pytest.raises(InputError, match=f"type {type(labels).__name__}: give a list or an array"),
        as_files(np.ones((2, 3)), labels),
    ):
        pass


def test_a_mask_in_memory_is_one(tmp_path: Path) -> None:
    mask = np.array([[True, True, False], [False, False, True]])
    with as_files(np.ones((2, 3)), mask) as files:
        opened = open_source(files.path, files.labels)
        (chunk,) = opened.chunks(2)
        assert chunk.label is not None
        assert chunk.label.tolist() == [(0, 1), (2,)]


def test_a_dataset_of_hugging_face_is_read_as_it_is_selected() -> None:
    datasets = pytest.importorskip("datasets", reason="an extra of the benchmarks brings it")
    table = frame(200).drop(columns="vector").reset_index()
    source = datasets.Dataset.from_pandas(table).select(range(50, 200)).with_format("numpy")
    with as_files(source) as files:
        read = pd.read_feather(files.path)
    pd.testing.assert_frame_equal(read, table[50:].reset_index(drop=True))


def test_a_query_of_duckdb_is_streamed(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(tmp_path / "pool.db")) as base:
        base.sql(
            "create table rows as select range as id, range * 0.5 as a, sum(range) over () as b,"
            " case when range % 3 = 0 then 'no' else 'yes' end as y from range(200000)"
        )
        query = base.sql("select * from rows where id % 2 = 0 order by id desc")
        with as_files(query) as files:
            opened = open_source(files.path, label_column="y", columns=Columns(id="id"))
            chunks = list(opened.chunks(1 << 16))
            assert sum(len(chunk.x) for chunk in chunks) == 100_000
            assert chunks[0].x[0].tolist() == [99_999.0, np.float32(19_999_900_000)]
            assert chunks[0].id is not None
            assert chunks[0].label is not None
            assert (str(chunks[0].id[0]), chunks[0].label[0]) == ("199998", "no")
        wrong = base.sql("select a, cast(y as integer) as y from rows")
        with pytest.raises(
            InputError, match=r"the DuckDBPyRelation cannot be read as a table: .*'no'"
        ):
            knnoise.check(wrong, label_column="y")


def test_errors_are_in_words_of_python() -> None:
    said = {
        "t: give --impute median or --impute drop": "t: give impute='median' or impute='drop'",
        "give --sep ';' or --decimal ,": "give sep=';' or decimal=','",
        "--k 3: must be 5 or more": "k=3: must be 5 or more",
        "give another --label-column, or --preflight warn": (
            "give another label_column, or preflight='warn'"
        ),
        "--p0 and --p1 belong together": "p0 and p1 belong together",
        "give --exclude 'a b'; see": "give exclude='a b'; see",
        "a--b and x -- y stay": "a--b and x -- y stay",
        "named as --id-column (without one `row`)": "named as id_column (without one `row`)",
        "--run s3://a/b: give --parse t=%H:%M": "run='s3://a/b': give parse='t=%H:%M'",
        "too few; use --noise minmax": "too few; use noise='minmax'",
        "or leave it out with --exclude when": "or leave it out with exclude='when'",
    }
    for typed, plain in said.items():
        assert in_python(typed) == plain
    with pytest.raises(InputError, match=r"^the ndarray: an array of features has no labels; give"):
        knnoise.train(np.zeros((5, 2)))
    assert in_python(IMPUTE) == ", or give impute='median' or impute='drop'"
    frame = pd.DataFrame({"a": [1.0, 2.0], "label": [0, 1]})
    with pytest.raises(InputError) as caught:
        knnoise.train(frame, label_colum="label")
    assert (
        str(caught.value) == "label_colum: there is no such parameter, did you mean label_column?"
    )
    with pytest.raises(InputError) as caught:
        knnoise.check(frame, label_column="labell")
    assert str(caught.value).startswith(
        "the DataFrame: no column 'labell'; columns are 'a', 'label'"
    )
    assert caught.value.__suppress_context__


def test_what_check_finds_is_what_train_takes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 2, 120)
    table = pd.DataFrame({"x": rng.normal(size=120) + 3 * clean, "y": clean})
    table["color"] = np.where(rng.random(120) < 0.5, "red", "green")
    found = knnoise.check(table, label_column="y")
    assert "give encode='one-hot' or exclude='color'" in str(found)
    assert found.remedies == {"label_column": "y", "encode": "one-hot"}
    assert (
        knnoise.train(table, tmp_path / "run", **found.remedies, **QUIET).summary["n_features"] == 3
    )
