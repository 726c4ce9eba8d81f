"""What is done: one record a finished part, created at once and whole, with the digests of its
files. A part without its record does not exist, whatever lies on disk.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from storage.errors import StorageError
from storage.location import Location


@dataclass(frozen=True)
class Record:
    """One committed part."""

    step: str
    part: str
    files: dict[str, tuple[int, str]]
    """Key of each file the part wrote → (size in bytes, CRC-32C)."""
    result: dict[str, Any] = field(default_factory=dict)
    """Small JSON values that later steps plan with: counts, sizes, sums. Deterministic."""
    cost: dict[str, float] = field(default_factory=dict)
    """Measured: seconds, kernel_seconds, peak_rss_mb. Not part of any digest."""

    def to_json(self) -> bytes:
        return json.dumps(vars(self), sort_keys=True).encode()

    @classmethod
    def from_json(cls, content: bytes) -> Record:
        fields = json.loads(content)
        fields["files"] = {key: (size, crc) for key, (size, crc) in fields["files"].items()}
        return cls(**fields)


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
        """A record; one that cannot be read is none, and is removed."""
        content = self.location.read(key)
        if content is None:
            return None
        try:
            return Record.from_json(content)
        except (ValueError, KeyError, TypeError, AttributeError):
            self.location.remove(key)
            return None

    def records(self, step: str) -> dict[str, Record]:
        """All committed parts of a step, by part name."""
        keys = self.location.files(f"ledger/{step}")
        with ThreadPoolExecutor(8) as threads:
            found = [record for record in threads.map(self._read, keys) if record is not None]
        return {record.part: record for record in sorted(found, key=lambda r: r.part)}

    def steps(self) -> list[str]:
        """Names of the steps that have any record."""
        return sorted({key.split("/")[1] for key in self.location.files("ledger")})

    def plan(self, step: str, parts: list[str]) -> None:
        """Note the parts a step will have, for `status`; a plan is noted once."""
        key = f"plans/{step}.json"
        if not self.location.exists(key):
            order = len(self.location.files("plans"))
            content = {"order": order, "step": step, "parts": parts}
            self.location.create(key, json.dumps(content).encode())

    def plans(self) -> dict[str, list[str]]:
        """Parts planned by step, in the order the steps were begun; what is garbled is left out."""
        found = []
        for key in self.location.files("plans"):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                plan = json.loads(self.location.read(key) or b"")
                found.append((plan["order"], plan["step"], plan["parts"]))
        return {step: parts for _, step, parts in sorted(found)}

    def commit(
        self,
        step: str,
        part: str,
        written: Iterable[str],
        result: dict[str, Any],
        cost: dict[str, float],
    ) -> Record:
        """Read back what a part wrote, then publish its record.

        `written` holds keys of files or of folders (taken with all files below). A second commit
        of the same part (a retry of a worker thought dead) is accepted if it wrote the same bytes.

        Raises
        ------
        StorageError
            a file named is missing, or the part was committed before with other bytes.
        """
        files: dict[str, tuple[int, str]] = {}
        for prefix in written:
            keys = self.location.files(prefix)
            if not keys:
                raise StorageError(
                    f"{step} {part}: {prefix} was not written; see the disk or store"
                )
            for key in keys:
                digest = self.location.digest(key)
                if digest is None:
                    raise StorageError(f"{step} {part}: {key} vanished while it was verified")
                files[key] = digest
        record = Record(step, part, files, result, cost)
        record = Record.from_json(record.to_json())  # as a resumed run will read it
        if not self.location.create(self._key(step, part), record.to_json()):
            other = self.get(step, part)
            if other is None:  # unreadable, and removed by the attempt
                self.location.create(self._key(step, part), record.to_json())
            elif (other.files, other.result) != (record.files, record.result):
                raise StorageError(
                    f"{step} {part}: committed twice with different bytes; workers differ in "
                    "library versions or hardware; run train again with equal workers"
                )
        return record

    def forget(self, step: str, part: str) -> None:
        self.location.remove(self._key(step, part))

    def discard(self, record: Record) -> None:
        """Forget a part and remove those of its files that are damaged."""
        for key, found in record.files.items():
            if self.location.digest(key) != found:
                self.location.remove(key)
        self.forget(record.step, record.part)

    def damaged(self, records: Iterable[Record]) -> list[Record]:
        """The records whose files are missing or differ from their digests; reads every byte."""
        with ThreadPoolExecutor(8) as threads:
            listed = list(records)
            intact = threads.map(self._intact, listed)
            return [record for record, whole in zip(listed, intact, strict=True) if not whole]

    def _intact(self, record: Record) -> bool:
        return all(self.location.digest(key) == found for key, found in record.files.items())


def digest(records: Iterable[Record]) -> str:
    """One digest of all files and results of some parts: equal outputs have equal digests."""
    state = blake2b(digest_size=16)
    for record in sorted(records, key=lambda r: (r.step, r.part)):
        content = [record.step, record.part, sorted(record.files.items()), record.result]
        state.update(json.dumps(content, sort_keys=True).encode())
    return state.hexdigest()
