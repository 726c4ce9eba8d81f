"""What a power cut leaves: files before the record naming them, the record before the next step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import PoolWriter, fit

from flows.engine.job import Output, execute
from flows.engine.parts import Part
from storage.arrays.groups import write_group
from storage.export import write_bytes
from storage.files.location import Location
from storage.runs.run import Run


class Disk:
    """What would be found after a power cut now: bytes and names that were synced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.root = root
        self.synced: dict[int, bytes] = {}
        """Inode → content on the disk."""
        self.named: dict[Path, int] = {}
        """File → inode that its folder has on the disk."""
        self.folders: set[Path] = set()
        fsync = os.fsync

        def noting(handle: int) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{handle}"))
            fsync(handle)
            if path.is_dir():
                self.see_folder(path)
            else:
                with open(f"/proc/self/fd/{handle}", "rb") as file:  # whatever its name is now
                    self.synced[os.fstat(handle).st_ino] = file.read()

        monkeypatch.setattr(os, "fsync", noting)

    def see_folder(self, folder: Path) -> None:
        for child in folder.iterdir():
            if child.is_dir():
                self.folders.add(child)
            else:
                self.named[child] = child.stat().st_ino

    def find(self, file: Path) -> bytes | None:
        """Content of a file after a power cut; None where there is no such file."""
        above = [up for up in file.parents if self.root in up.parents]
        if file not in self.named or not set(above) <= self.folders:
            return None
        return self.synced.get(self.named[file], b"")

    def lost(self, files: list[Path]) -> list[Path]:
        return [file for file in files if self.find(file) != file.read_bytes()]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Disk:
    return Disk(monkeypatch, tmp_path)


@pytest.mark.parametrize("make", ["create", "replace"])
def test_file_survives_with_its_folders(disk: Disk, tmp_path: Path, make: str) -> None:
    getattr(Location.of(tmp_path), make)("new/a/b/file", b"content")
    assert disk.find(tmp_path / "new" / "a" / "b" / "file") == b"content"
    getattr(Location.of(tmp_path), make)("new/a/other", b"more")
    assert disk.find(tmp_path / "new" / "a" / "other") == b"more"


def test_file_replaced_is_the_old_one_or_the_new_one(disk: Disk, tmp_path: Path) -> None:
    location, file = Location.of(tmp_path), tmp_path / "file"
    location.replace("file", b"old")
    location.replace("file", b"new", synced=False)
    assert disk.find(file) == b"old"
    location.replace("file", b"newest")
    assert disk.find(file) == b"newest"


def test_exported_file_survives(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    disk.see_folder(tmp_path)
    write_bytes(str(tmp_path / "out" / "page.html"), b"page")
    assert disk.find(tmp_path / "out" / "page.html") == b"page"


def test_run_is_begun_for_good(disk: Disk, tmp_path: Path) -> None:
    Run.of(tmp_path / "runs" / "run").begin({"parameters": {}})
    assert not disk.lost([tmp_path / "runs" / "run" / "run.json"])


def test_files_are_synced_before_their_record(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run.of(tmp_path / "run")
    run.begin({"parameters": {}})
    create, lost = Location.create, []

    def look(self: Location, key: str, content: bytes) -> bool:
        written = [
            file for file in (tmp_path / "run" / "results.zarr").rglob("*") if file.is_file()
        ]
        lost.append((len(written), disk.lost(written)))
        return create(self, key, content)

    monkeypatch.setattr(Location, "create", look)

    def part(run: Run, _: Part[None]) -> Output:
        columns = {"x": np.ones((9, 2), np.float32), "row": np.arange(9)}
        write_group(run.store, "samples/anchors", "sample", columns)
        return Output([run.key("samples/anchors")])

    execute(run, "step", part, Part("all", None))
    assert lost == [(7, [])]
    assert not disk.lost([tmp_path / "run" / "ledger" / "step" / "all.json"])


def test_all_that_a_run_needs_survives_its_end(
    disk: Disk, pool: PoolWriter, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    fit(pool(), run)
    unneeded: set[Any] = {"logs", "lease", "plans", "timings.json", "scratch.zarr"}
    files = [f for f in run.rglob("*") if f.is_file() and not unneeded & set(f.parts)]
    assert len(files) > 50
    lost = [str(file.relative_to(run)) for file in disk.lost(files)]
    assert lost == []
