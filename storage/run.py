"""A run: one folder that holds everything one training made, and all it needs to be resumed.

run.json              what was asked for: parameters, source, versions (written once)
ledger/STEP/PART.json what is done
results.zarr/         pool, blocks, graph, regression, anchors, labels
scratch.zarr/         runs of the exchange
label_issues.parquet  report.json  report.txt
scores/ID/            the same again for each scored source
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import xarray as xr
import zarr

from storage.errors import InputError, StorageError
from storage.groups import undamaged
from storage.ledger import Ledger
from storage.location import Location, StrictStore

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Run:
    """A run (or, below it, a scoring) by its location."""

    location: Location

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.location)

    @property
    def store(self) -> StrictStore:
        return self.location.zarr_store("results.zarr")

    @property
    def scratch(self) -> StrictStore:
        """Store of what only the next step reads."""
        return self.location.zarr_store("scratch.zarr")

    def group(self, path: str) -> zarr.Group:
        """A group of `results.zarr`, to read."""
        with undamaged(f"{self.location.url}/results.zarr/{path}"):
            return zarr.open_group(self.store, path=path, mode="r")

    @staticmethod
    def key(path: str) -> str:
        """Key of a group of `results.zarr` within the run, as the ledger wants it."""
        return f"results.zarr/{path}"

    def config(self) -> dict[str, Any]:
        """The content of run.json.

        Raises
        ------
        InputError
            the folder is none of ours, or of another format version.
        """
        content = self.location.read("run.json")
        if content is None:
            raise InputError(f"{self.location.url} is not a knnoise run: it has no run.json")
        try:
            config: dict[str, Any] = json.loads(content)
            version = config["format_version"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.location.url}/run.json is not of a knnoise run") from error
        if version != FORMAT_VERSION:
            raise InputError(
                f"{self.location.url} has format version {version}, this program reads "
                f"{FORMAT_VERSION}; train anew with --run in another folder"
            )
        return config

    def read_json(self, key: str) -> dict[str, Any] | None:
        """A JSON file of the run; None where it is absent or unreadable."""
        content = self.location.read(key)
        with contextlib.suppress(ValueError):
            found = None if content is None else json.loads(content)
            return found if isinstance(found, dict) else None
        return None

    def is_new(self) -> bool:
        """True where the folder is absent or empty.

        Raises
        ------
        InputError
            the folder holds something that is not a run.
        """
        if self.location.exists("run.json"):
            return False
        if self.location.files(""):
            raise InputError(
                f"{self.location.url} is not empty and not a knnoise run; name another folder"
            )
        return True

    def begin(self, config: Mapping[str, Any]) -> None:
        """Write run.json for a new run.

        Raises
        ------
        StorageError
            the folder cannot be written.
        """
        content = {"format_version": FORMAT_VERSION, **config}
        try:
            self.location.create("run.json", json.dumps(content, indent=1, sort_keys=True).encode())
            zarr.open_group(self.store, mode="a")
        except OSError as error:
            raise StorageError(f"cannot write to {self.location.url}: {error}") from error

    def describe(self, path: str, attributes: Mapping[str, Any]) -> None:
        """Set attributes of a group of `results.zarr` (of its root where path is empty)."""
        zarr.open_group(self.store, path=path, mode="a").attrs.update(dict(attributes))


def open_run(path: str) -> xr.DataTree:
    """All results of a finished run as a DataTree of lazy arrays.

    Raises
    ------
    InputError
        the folder is not a run.
    StorageError
        its results are missing or damaged.
    """
    run = Run(Location.of(path))
    run.config()
    with undamaged(f"{path}/results.zarr"):
        tree = xr.open_datatree(
            run.location.zarr_store("results.zarr", read_only=True),  # type: ignore[arg-type]
            engine="zarr",
            consolidated=False,
            chunks={},
        )
    assert isinstance(tree, xr.DataTree)
    return tree
