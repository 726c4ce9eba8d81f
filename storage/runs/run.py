"""A run: one folder that holds everything one training made, and all it needs to be resumed.

run.json              what was asked for: parameters, source, versions (written once)
run.copy.json         the same again, to repair it from
ledger/STEP/PART.json what is done
results.zarr/         pool, blocks, graph, anchors, labels
scratch.zarr/         runs of the exchange
label_issues.parquet  report.json  report.txt
scores/ID/            the same again for each scored source"""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NoReturn

import numpy.typing as npt
import zarr

from storage.arrays.groups import undamaged, write_group
from storage.errors import BusyError, InputError, StorageError
from storage.files.durable import digest_of, parsed, seal, unseal
from storage.files.location import Location, RunStore
from storage.runs.lease import Fence, has_owner
from storage.runs.ledger import Ledger, Record, digest
from storage.version import FORMAT_VERSION, VERSION

if TYPE_CHECKING:
    import xarray as xr

MADE = ("ledger/", "plans/", "results.zarr/", "scratch.zarr/", "lease/")
"""Folders of a run in which nobody else may write."""
_COPY = "run.copy.json"
_REPAIR = "run train again to repair"
ANEW = "train anew in another folder, this one stays as it is"
"""What to do with a run of another version."""


def _of_a_run(content: bytes | None) -> dict[str, Any] | None:
    """The object in run.json; None where it is damaged, or another file of a run lies there."""
    config = unseal(content)
    return config if config is not None and "format_version" in config else None


def lasting(key: str) -> bool:
    """Whether a finished run needs a file: what lies in `scratch.zarr` is read by the next step
    alone."""
    return not key.startswith("scratch.zarr/")


def below(*paths: str) -> Callable[[str], bool]:
    """Whether a file is one of some groups of `results.zarr`, or tells of any of its groups."""
    folders = tuple(f"results.zarr/{path}/" for path in paths)
    return lambda key: lasting(key) and (key.startswith(folders) or key.endswith("/zarr.json"))


def runs_above(path: Path) -> list[Path]:
    """Folders of runs that a local path lies in, the nearest first."""
    return [
        folder
        for folder in path.parents
        if (folder / _COPY).is_file()
        or ((folder / "run.json").is_file() and (folder / "ledger").is_dir())
    ]


@dataclass(frozen=True)
class Run:
    """A run (or, below it, a scoring) by its location."""

    location: Location
    fence: Fence | None = None
    """Where the run is being made: whether it is still this one's to make."""

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> "Run":
        """That in a folder, by local path or URL; raises as `Location.of`."""
        return cls(Location.of(path))

    def below(self, folder: str) -> "Run":
        """One in a folder of this one's, of the same maker."""
        return replace(self, location=replace(self.location, url=self.location.path(folder)))

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.location)

    @property
    def store(self) -> RunStore:
        return self.location.zarr_store("results.zarr")

    @property
    def scratch(self) -> RunStore:
        """Store of what only the next step reads."""
        return self.location.zarr_store("scratch.zarr")

    def recorded_store(self) -> RunStore:
        """The store of the results, to read; each chunk is compared with its record."""
        root = "results.zarr/"
        recorded = {
            key.removeprefix(root): digest
            for record in self.ledger.every()
            for key, digest in record.files.items()
            if key.startswith(root)
        }
        plain = self.location.zarr_store("results.zarr", read_only=True)
        return RunStore(plain, self.location.path("results.zarr"), recorded)

    def group(self, path: str) -> zarr.Group:
        """A group of `results.zarr`, to read."""
        with undamaged(f"{self.location.url}/results.zarr/{path}"):
            return zarr.open_group(self.store, path=path, mode="r", zarr_format=3)

    def has(self, path: str) -> bool:
        """Whether there is such a group; the metadata of those above may be torn."""
        return self.location.exists(self.key(f"{path}/zarr.json"))

    @staticmethod
    def key(path: str) -> str:
        """Key of a group of `results.zarr` within the run, as the ledger wants it."""
        return f"results.zarr/{path}"

    def write(
        self,
        path: str,
        kind: str,
        arrays: Mapping[str, npt.ArrayLike],
        attributes: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """Write a group of `results.zarr` at once; keys of what was written."""
        write_group(self.store, path, kind, arrays, attributes)
        return [self.key(path)]

    def write_scratch(self, path: str, kind: str, arrays: Mapping[str, npt.ArrayLike]) -> list[str]:
        """The same of what only the next step reads."""
        write_group(self.scratch, path, kind, arrays)
        return [f"scratch.zarr/{path}"]

    def config(self, oldest: int = FORMAT_VERSION) -> dict[str, Any]:
        """The content of run.json, of a run of this format; of a format from `oldest` on, where
        only what every format has is wanted of it.

        Raises `InputError` where the folder is none of ours, or of another format version;
        `StorageError` where run.json is damaged.
        """
        content = self.location.read("run.json")
        config = _of_a_run(content)
        if config is None:
            self._refuse(content)
        version = config.get("format_version")
        if not isinstance(version, int) or not oldest <= version <= FORMAT_VERSION:
            raise self.other_version(config)
        return config

    def _refuse(self, content: bytes | None) -> NoReturn:
        """Say why run.json cannot be used."""
        url, what = self.location.url, "is missing" if content is None else "is damaged"
        if _of_a_run(self.location.read(_COPY)) is not None:
            raise StorageError(f"{url}/run.json {what}; {_REPAIR}")
        if content is None:
            raise InputError(f"{url} is not a knnoise run: it has no run.json")
        with contextlib.suppress(ValueError, KeyError, TypeError):
            other = parsed(content)
            if other["format_version"] != FORMAT_VERSION:
                raise self.other_version(other)
        if self.location.exists(_COPY) or self.location.exists("ledger"):
            raise StorageError(
                f"{url}/run.json {what} and has no whole copy; train anew with --run in "
                "another folder"
            )
        raise InputError(f"{url}/run.json is not of a knnoise run; name another folder")

    def other_version(self, config: Mapping[str, Any]) -> InputError:
        """What is said of a run that another version of knnoise made."""
        version, made = config.get("format_version"), config.get("versions") or {}
        newer = isinstance(version, int) and version > FORMAT_VERSION
        by = f" by knnoise {made['knnoise']}" if "knnoise" in made else ""
        return InputError(
            f"{self.location.url} was made{by} in format version {version}, and this is knnoise "
            f"{VERSION}, format version {FORMAT_VERSION}; " + ("update knnoise" if newer else ANEW)
        )

    def repair(self) -> None:
        """Make run.json again from its copy, or the copy from run.json, where one is damaged."""
        both = [self.location.read(key) for key in ("run.json", _COPY)]
        whole = [_of_a_run(content) is not None for content in both]
        if whole == [False, True] and both[1] is not None:
            self.location.replace("run.json", both[1])
        elif whole == [True, False] and both[0] is not None:
            self.location.replace(_COPY, both[0])

    def bought(self) -> str | None:
        """What is said of the folder of labels that were bought, where a training is wanted; None
        for any other."""
        parameters = (_of_a_run(self.location.read("run.json")) or {}).get("parameters", {})
        if "k" in parameters or "training" in parameters:
            return None
        files = "bought.csv, and those of all rows in labels.parquet"
        return f"{self.location.url} is no training: acquire keeps the labels it bought in {files}"

    def was_finished(self) -> bool:
        """Whether its report or what is left of it is there, and nobody is, or was, about to write
        it."""
        there = self.location.exists("report.json") or bool(self.ledger.parts("report"))
        return there and not has_owner(self.location)

    def report(self) -> dict[str, Any]:
        """The content of report.json, as it was committed.

        Raises `InputError` where the run is not finished; `StorageError` where the report or its
        record is damaged.
        """
        record, url = self.ledger.get("report", "all"), self.location.url
        if record is None:
            if self.was_finished() and self.ledger.get("report", "all") is None:
                raise StorageError(f"{url}: the record of report.json is damaged; {_REPAIR}")
            unfinished = f"{url} is not finished; run the command that began it again"
            raise InputError(self.bought() or unfinished)
        content = self.location.read("report.json")
        if content is None or digest_of([content]) != record.files.get("report.json"):
            what = "is missing" if content is None else "is damaged"
            raise StorageError(f"{url}/report.json {what}; {_REPAIR}")
        report: dict[str, Any] = parsed(content)
        return report

    def check(self, among: Callable[[str], bool]) -> None:
        """Compare the ledger of a finished run with its report, and files with their digests.

        among : whether the file of a key is compared, too; each is read whole

        Raises `StorageError` naming the first record or file that is missing or damaged.
        """
        url, steps = self.location.url, self.report()["steps"]
        for step in sorted({*steps, *self.ledger.steps()}):
            records = []
            for part, record in self.ledger.parts(step).items():
                if record is None:
                    raise StorageError(f"{url}/ledger/{step}/{part}.json is damaged; {_REPAIR}")
                records.append(record)
            if step in steps and digest(records) != steps[step]["digest"]:
                raise StorageError(f"{url}/ledger/{step} is not as the report has it; {_REPAIR}")
            self.check_records(records, among)

    def check_records(self, records: Iterable[Record], among: Callable[[str], bool]) -> None:
        """Raise `StorageError` naming the first file of some records that is not as committed."""
        for _, key in self.ledger.damaged(records, among):
            raise StorageError(f"{self.location.path(key)} is damaged or missing; {_REPAIR}")

    def read_json(self, key: str) -> dict[str, Any] | None:
        """A JSON file of the run; None where it is absent or unreadable."""
        with contextlib.suppress(ValueError):
            value = parsed(self.location.read(key) or b"")
            return value if isinstance(value, dict) else None
        return None

    def is_new(self) -> bool:
        """True where the folder is absent or empty.

        Raises `InputError` where the folder holds something that is not a run.
        """
        if self._is_begun():
            return False
        if all(key.startswith("lease/") for key in self.location.files("")):
            return True
        if self._is_begun():  # by another process since
            return False
        raise InputError(
            f"{self.location.url} is not empty and not a knnoise run; name another folder"
        )

    def _is_begun(self) -> bool:
        return self.location.exists("run.json") or self.location.exists(_COPY)

    def check_owned(self) -> None:
        """Raise `BusyError` where another process has taken the run over."""
        if self.fence is not None:
            self.fence.check()

    def begin(self, config: Mapping[str, Any]) -> None:
        """Write run.json for a new run.

        Raises `BusyError` where another process has begun a run here, whose run.json stays as it
        is; `StorageError` where the folder cannot be written.
        """
        content = {"format_version": FORMAT_VERSION, **config}
        encoded = seal(content, indent=1)
        if not self.location.create("run.json", encoded):
            raise BusyError(
                f"another process has just begun a run in {self.location.url}; "
                "wait for it to end, or name another folder"
            )
        self.location.replace(_COPY, encoded)
        zarr.open_group(self.store, mode="a", zarr_format=3)

    def describe(self, attributes: Mapping[str, Any]) -> list[str]:
        """Write the metadata of the root of `results.zarr`, with its attributes, and of the groups
        below it that belong to no part; keys of the files written."""
        owned = {
            key.removesuffix("/zarr.json")
            for record in self.ledger.every()
            for key in record.files
            if key.startswith("results.zarr/") and key.endswith("/zarr.json")
        }
        above = {str(folder) for key in owned for folder in PurePosixPath(key).parents}
        groups = {"results.zarr", *(above - owned - {"."})}
        written = []
        for group in sorted(groups):
            about = dict(attributes) if group == "results.zarr" else {}
            content = {"zarr_format": 3, "node_type": "group", "attributes": about}
            key = f"{group}/zarr.json"
            self.location.replace(key, json.dumps(content, indent=2).encode())
            written.append(key)
        return written


def open_run(path: str) -> "xr.DataTree":
    """All results of a finished run as a DataTree of lazy arrays.

    Raises `InputError` where the folder is not a run; `StorageError` where its results are missing
    or damaged.
    """
    import xarray as xr

    run = Run.of(path)
    run.config()
    if run.ledger.get("report", "all") is not None or run.was_finished():
        run.check(below())
    with undamaged(f"{path}/results.zarr"):
        tree = xr.open_datatree(
            run.recorded_store(),  # type: ignore[arg-type]
            engine="zarr",
            consolidated=False,
            chunks={},
        )
    assert isinstance(tree, xr.DataTree)
    return tree
