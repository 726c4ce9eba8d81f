"""Run folders: begun once, told from others, opened as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from storage import open_run
from storage.errors import InputError, StorageError
from storage.groups import write_group
from storage.location import Location
from storage.run import FORMAT_VERSION, Run


@pytest.fixture(params=["disk", "memory"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Run]:
    on_disk = request.param == "disk"
    begun = Run(Location.of(tmp_path / "run" if on_disk else "memory://run-test/run"))
    begun.begin({"parameters": {"k": 3}})
    yield begun
    begun.location.remove()


def with_results(run: Run) -> Run:
    write_group(run.store, "bounds", "bounds", {"bound": np.arange(9.0)}, {"about": "bounds"})
    centroid = {"centroid": np.ones((4, 2))}
    write_group(run.store, "partition", "partition", centroid)
    return run


def test_config_is_what_the_run_was_begun_with(run: Run) -> None:
    assert run.config() == {"format_version": FORMAT_VERSION, "parameters": {"k": 3}}


def test_run_that_is_begun_again_keeps_its_config(run: Run) -> None:
    run.begin({"parameters": {"k": 99}})
    assert run.config()["parameters"] == {"k": 3}


def test_begun_run_is_not_new(run: Run) -> None:
    assert not run.is_new()


@pytest.mark.parametrize("folder", ["absent", "empty"])
def test_absent_and_empty_folders_are_new(tmp_path: Path, folder: str) -> None:
    (tmp_path / "empty").mkdir()
    assert Run(Location.of(tmp_path / folder)).is_new()


def test_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(InputError, match="not empty and not a knnoise run"):
        Run(Location.of(tmp_path)).is_new()


def test_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="not empty and not a knnoise run"):
        Run(Location.of(tmp_path / "file")).is_new()


def test_run_below_a_file_is_an_error_for_people(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    run = Run(Location.of(tmp_path / "file" / "run"))
    with pytest.raises((InputError, StorageError)):
        _ = run.is_new() and run.begin({})


def test_folder_without_a_config_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a knnoise run"):
        Run(Location.of(tmp_path)).config()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[]", b"3", b"null", b'"format_version"', b"{}"]
)
def test_config_that_is_not_ours_is_refused(run: Run, content: bytes) -> None:
    run.location.replace("run.json", content)
    with pytest.raises(InputError, match="is not of a knnoise run"):
        run.config()


def test_other_format_versions_are_refused(run: Run) -> None:
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


def test_description_of_a_group_shows_in_the_tree(run: Run) -> None:
    with_results(run).describe("bounds", {"meaning": "reach"})
    assert open_run(run.location.url)["bounds"].attrs == {"about": "bounds", "meaning": "reach"}


def test_description_of_the_run_shows_in_the_tree(run: Run) -> None:
    with_results(run).describe("", {"title": "all"})
    assert open_run(run.location.url).attrs["title"] == "all"


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
