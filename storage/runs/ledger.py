"""What is done: one record a finished part, created at once and whole, with the digests of its
files. A part without its record does not exist, whatever lies on disk."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any

from storage.errors import StorageError
from storage.files.durable import Digest, seal, unseal
from storage.files.location import Location

_RECORD = re.compile(r"ledger/[^/]+/[^/]+\.json")


@dataclass(frozen=True)
class Record:
    """One committed part."""

    step: str
    part: str
    files: dict[str, tuple[int, str]]
    """Key of each file the part wrote → its digest."""
    result: Any = None
    """Small JSON values that later steps plan with: counts, sizes, sums. Deterministic."""
    cost: dict[str, float] = field(default_factory=dict)
    """Measured: seconds, kernel_seconds, peak_rss_mb. Not part of any digest."""

    def to_json(self) -> bytes:
        return seal(vars(self))

    @classmethod
    def from_json(cls, content: bytes) -> Record | None:
        """The record in a file; None where the file is garbled or changed."""
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            fields = unseal(content) or {}
            fields["files"] = {key: (size, crc) for key, (size, crc) in fields["files"].items()}
            return cls(**fields)
        return None


@dataclass(frozen=True)
class Ledger:
    """The records of a run, below `ledger/` of its location."""

    location: Location

    @staticmethod
    def _key(step: str, part: str) -> str:
        return f"ledger/{step}/{part}.json"

    def get(self, step: str, part: str) -> Record | None:
        return self._read(self._key(step, part))

    def _read(self, key: str) -> Record | None:
        """A record; one that is garbled, changed or another part's is none, and stays as it is."""
        content = self.location.read(key)
        record = None if content is None else Record.from_json(content)
        return record if record is not None and self._key(record.step, record.part) == key else None

    def records(self, step: str) -> dict[str, Record]:
        """All committed parts of a step, by part name."""
        return {part: record for part, record in self.parts(step).items() if record is not None}

    def parts(self, step: str) -> dict[str, Record | None]:
        """The parts of a step that have a record, by name; None where it is damaged."""
        keys = self._keys(f"ledger/{step}")
        parts = [key.rsplit("/", 1)[1].removesuffix(".json") for key in keys]
        if len(keys) < 2:
            return dict(zip(parts, map(self._read, keys), strict=True))
        with ThreadPoolExecutor(8) as threads:
            records = zip(parts, threads.map(self._read, keys), strict=True)
            return dict(sorted(records, key=itemgetter(0)))

    def steps(self) -> list[str]:
        """Names of the steps that have any record."""
        return sorted({key.split("/")[1] for key in self._keys("ledger")})

    def _keys(self, folder: str) -> list[str]:
        """Keys of the records below a folder; what else lies there is none of ours."""
        return [key for key in self.location.files(folder) if _RECORD.fullmatch(key)]

    def every(self) -> Iterator[Record]:
        return (record for step in self.steps() for record in self.records(step).values())

    def plan(self, step: str, parts: list[str]) -> None:
        """Note the parts a step will have, for `status`; a plan is noted once."""
        key = f"plans/{step}.json"
        if unseal(self.location.read(key)) is None:
            order = len(self.location.files("plans"))
            self.location.replace(key, seal({"order": order, "step": step, "parts": parts}))

    def plans(self) -> dict[str, list[str]]:
        """Parts planned by step, in the order the steps were begun; what is damaged is left out."""
        read = [unseal(self.location.read(key)) for key in self.location.files("plans")]
        plans = [(plan["order"], plan["step"], plan["parts"]) for plan in read if plan is not None]
        return {step: parts for _, step, parts in sorted(plans)}

    def commit(
        self,
        step: str,
        part: str,
        written: Iterable[str],
        result: Any,
        cost: dict[str, float],
        noted: Mapping[str, Digest] | None = None,
    ) -> Record:
        """Read back and sync what a part wrote, then publish its record.

        `written` holds keys of files or of folders. Of a folder, the files below count that are in
        `noted`, which has the bytes meant for each file the part wrote, by full path; all that lie
        there, if none is. A second commit of the same part (a retry of a worker thought dead) is
        accepted if it wrote the same bytes, and returns the first record.

        Raises `StorageError` where a file named is missing or not as it was written, or the part
        was committed before with other bytes.
        """
        root = f"{self.location.url}/"
        meant = {path.removeprefix(root): digest for path, digest in (noted or {}).items()}
        files: dict[str, Digest] = {}
        for prefix in written:
            keys = sorted(key for key in meant if f"{key}/".startswith(f"{prefix}/"))
            keys = keys or self.location.files(prefix)
            if not keys:
                raise StorageError(
                    f"{step} {part}: {prefix} was not written; see the disk or store"
                )
            for key in keys:
                digest = self.location.digest(key)
                if digest is None:
                    raise StorageError(f"{step} {part}: {key} vanished while it was verified")
                if digest != meant.get(key, digest):
                    raise StorageError(
                        f"{step} {part}: {key} was read back other than it was written; see the "
                        "disk or store"
                    )
                files[key] = digest
        self.location.sync([*files, *self._groups_of(files)], but=noted or {})
        record = Record.from_json(Record(step, part, files, result, cost).to_json())
        assert record is not None  # as a resumed run will read it
        if not self.location.create(self._key(step, part), record.to_json()):
            other = self.get(step, part)
            if other is None:  # unreadable, so the part has no record
                self.location.replace(self._key(step, part), record.to_json())
            elif (other.files, other.result) != (record.files, record.result):
                raise StorageError(
                    f"{step} {part}: committed twice with different bytes; workers differ in "
                    "library versions or hardware; run train again with equal workers"
                )
            else:
                return other
        return record

    def _groups_of(self, files: Iterable[str]) -> list[str]:
        """Metadata of the Zarr groups that files lie in: any part that comes first creates it."""
        above = {str(up) for key in files for up in PurePosixPath(key).parents}
        keys = (f"{up}/zarr.json" for up in above if ".zarr" in up)
        return [key for key in keys if self.location.is_local and self.location.exists(key)]

    def forget(self, step: str, part: str) -> None:
        self.location.remove(self._key(step, part))

    def forget_all(self, step: str) -> None:
        for part in self.records(step):
            self.forget(step, part)

    def discard(self, record: Record) -> None:
        """Forget a part and remove those of its files that are damaged."""
        for key, digest in record.files.items():
            if self.location.digest(key) != digest:
                self.location.remove(key)
        self.forget(record.step, record.part)

    def damaged(
        self, records: Iterable[Record], among: Callable[[str], bool] = lambda key: True
    ) -> list[tuple[Record, str]]:
        """The records whose files are missing or differ from their digests, with the key of the
        first such file; reads every byte of the files whose keys `among` accepts."""

        def first(record: Record) -> str | None:
            wanted = (pair for pair in record.files.items() if among(pair[0]))
            return next((key for key, was in wanted if self.location.digest(key) != was), None)

        with ThreadPoolExecutor(8) as threads:
            every = list(records)
            keys = threads.map(first, every)
            return [(record, key) for record, key in zip(every, keys, strict=True) if key]


def digest(records: Iterable[Record]) -> str:
    """One digest of all files and results of some parts: equal outputs have equal digests."""
    state = blake2b(digest_size=16)
    for record in sorted(records, key=lambda r: (r.step, r.part)):
        content = [record.step, record.part, sorted(record.files.items()), record.result]
        state.update(json.dumps(content, sort_keys=True).encode())
    return state.hexdigest()
