"""Run folders: begun once, told from others, opened as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from storage import open_run
from storage.arrays.groups import write_group
from storage.errors import ClusterError, InputError, StorageError
from storage.files.durable import seal
from storage.runs.run import Run, runs_above
from storage.version import FORMAT_VERSION


@pytest.fixture(params=["disk", "memory"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Run]:
    on_disk = request.param == "disk"
    begun = Run.of(tmp_path / "run" if on_disk else "memory://run-test/run")
    begun.begin({"parameters": {"k": 3}})
    yield begun
    begun.location.remove()


def with_results(run: Run) -> Run:
    write_group(run.store, "bounds", "bounds", {"bound": np.arange(9.0)}, {"about": "bounds"})
    centroid = {"centroid": np.ones((4, 2)), "region": np.zeros(4, np.int32)}
    write_group(run.store, "partition", "partition", centroid)
    return run


def test_config_is_what_the_run_was_begun_with(run: Run) -> None:
    assert run.config() == {"format_version": FORMAT_VERSION, "parameters": {"k": 3}}


@pytest.mark.parametrize("k", [3, 99])
def test_run_that_another_has_begun_is_refused_and_keeps_its_config(run: Run, k: int) -> None:
    with pytest.raises(ClusterError, match="another process has just begun"):
        run.begin({"parameters": {"k": k}})
    assert run.config()["parameters"] == {"k": 3}


def test_begun_run_is_not_new(run: Run) -> None:
    assert not run.is_new()


@pytest.mark.parametrize("folder", ["absent", "empty"])
def test_absent_and_empty_folders_are_new(tmp_path: Path, folder: str) -> None:
    (tmp_path / "empty").mkdir()
    assert Run.of(tmp_path / folder).is_new()


def test_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(InputError, match="not empty and not a knnoise run"):
        Run.of(tmp_path).is_new()


def test_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="not empty and not a knnoise run"):
        Run.of(tmp_path / "file").is_new()


def test_run_below_a_file_is_an_error_for_people(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    run = Run.of(tmp_path / "file" / "run")
    with pytest.raises((InputError, StorageError)):
        _ = run.is_new() and run.begin({})


def test_folder_without_a_config_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a knnoise run"):
        Run.of(tmp_path).config()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[]", b"3", b"null", b'"format_version"', b"{}"]
)
def test_config_that_is_not_ours_is_refused(run: Run, content: bytes) -> None:
    run.location.remove("run.copy.json")
    run.location.replace("run.json", content)
    with pytest.raises(InputError, match="is not of a knnoise run"):
        run.config()


def test_other_format_versions_are_refused(run: Run) -> None:
    run.location.remove("run.copy.json")
    run.location.replace("run.json", b'{"format_version": 99}')
    with pytest.raises(InputError, match="format version 99"):
        run.config()


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff", b"[1]", b"null"])
def test_json_that_is_absent_or_unreadable_is_none(run: Run, content: bytes | None) -> None:
    if content is not None:
        run.location.replace("report.json", content)
    assert run.read_json("report.json") is None


def test_json_comes_back(run: Run) -> None:
    run.location.replace("report.json", b'{"a": [1]}')
    assert run.read_json("report.json") == {"a": [1]}


def test_run_opens_as_a_tree_of_lazy_arrays(run: Run) -> None:
    tree = open_run(with_results(run).location.url)
    assert isinstance(tree, xr.DataTree)
    assert tree["bounds"]["bound"].chunks is not None
    assert tree["bounds"]["bound"].values.tolist() == list(range(9))
    assert tree["partition"]["centroid"].dims == ("block", "feature")


def test_description_of_the_run_shows_in_the_tree(run: Run) -> None:
    with_results(run).describe({"title": "all"})
    tree = open_run(run.location.url)
    assert tree.attrs["title"] == "all"
    assert tree["bounds"].attrs == {"about": "bounds"}


def test_groups_above_those_of_parts_are_described(run: Run) -> None:
    write_group(run.store, "blocks/00000", "bounds", {"bound": np.arange(9.0)})
    run.ledger.commit("blocks", "block-00000", ["results.zarr/blocks/00000"], {}, {})
    run.location.replace("results.zarr/blocks/zarr.json", b"{")
    keys = run.describe({})
    assert keys == ["results.zarr/zarr.json", "results.zarr/blocks/zarr.json"]
    assert list(open_run(run.location.url)["blocks"].children) == ["00000"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"parameters": {"k": 4}}', seal({"step": "rates"}), None]
)
@pytest.mark.parametrize("key", ["run.json", "run.copy.json"])
def test_config_is_repaired_from_its_copy(run: Run, key: str, content: bytes | None) -> None:
    before = run.location.read(key)
    run.location.remove(key) if content is None else run.location.replace(key, content)
    assert not run.is_new()
    if key == "run.json":
        with pytest.raises(StorageError, match=r"run\.json is .*; run train again to repair"):
            run.config()
    run.repair()
    assert run.location.read(key) == before
    assert run.config()["parameters"] == {"k": 3}


def test_lost_chunk_is_an_error_in_the_tree(run: Run) -> None:
    with_results(run).location.remove("results.zarr/bounds/bound/c/0")
    tree = open_run(run.location.url)
    with pytest.raises(StorageError, match="is missing"):
        tree["bounds"]["bound"].load()


def test_absent_group_is_an_error(run: Run) -> None:
    with pytest.raises(StorageError, match="damaged"):
        run.group("nothing")


def test_what_is_no_run_does_not_open(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a knnoise run"):
        open_run(str(tmp_path))


def test_run_without_its_results_does_not_open(run: Run) -> None:
    run.location.remove("results.zarr")
    with pytest.raises((InputError, StorageError)):
        open_run(run.location.url)


def test_a_folder_that_is_called_ledger_makes_no_run(tmp_path: Path) -> None:
    (tmp_path / "books" / "ledger").mkdir(parents=True)
    assert runs_above(tmp_path / "books" / "report.json") == []
    Run.of(tmp_path / "run").begin({"parameters": {"k": 3}})
    assert runs_above(tmp_path / "run" / "scores" / "a.csv") == [tmp_path / "run"]
