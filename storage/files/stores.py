"""Zarr stores: a missing chunk is an error; those of runs note what is written, delete nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Self

import google_crc32c
import zarr
from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import WrapperStore

from storage.errors import KnnoiseError, StorageError, stored
from storage.files.durable import Digest, digest_of, note

# A chunk that equals the fill value is written all the same: a missing file then always means loss.
zarr.config.set({"array.write_empty_chunks": True})

_METADATA = {"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"}
"""Files of a Zarr hierarchy that may be absent; every other one is a chunk."""


class StrictStore(WrapperStore[Store]):
    """A Zarr store in which a missing chunk is an error instead of a block of fill values."""

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        value = await self._store.get(key, prototype, byte_range)
        if value is None and key.rsplit("/", 1)[-1] not in _METADATA:
            raise self._lost(key)
        return value

    def _lost(self, key: str) -> KnnoiseError:
        return StorageError(f"{self._store}: chunk {key} is missing; run train again to repair")


class RunStore(StrictStore):
    """The store of a run, or of a part of it.

    Overwriting an array or a group writes over its files and deletes none: they may be committed.
    """

    def __init__(self, store: Store, root: str) -> None:
        super().__init__(store)
        self._root = root

    def _with_store(self, store: Store) -> Self:
        return type(self)(store, self._root)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        with stored(f"{self._root}/{key}"):
            value = await super().get(key, prototype, byte_range)
        if value is not None and byte_range is None and "/c/" in f"/{key}":
            self._check(key, value.to_bytes())
        return value

    def _check(self, key: str, chunk: bytes) -> None:
        """Raise where a chunk is not as its checksum says, which its last four bytes are: so the
        error names the file, whoever reads it."""
        if google_crc32c.value(chunk[:-4]).to_bytes(4, "little") != chunk[-4:]:
            raise StorageError(f"{self._root}/{key} is damaged; run train again to repair")

    async def set(self, key: str, value: Buffer) -> None:
        with stored(f"{self._root}/{key}"):
            await self._store.set(key, value)
        note(f"{self._root}/{key}", [value.to_bytes()])

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        await asyncio.gather(*(self.set(key, value) for key, value in values))

    async def delete_dir(self, prefix: str) -> None:
        """Nothing: see the class."""


class RecordedStore(RunStore):
    """The store of a finished run, each chunk compared with its record when it is read.

    A chunk that changed places with another is whole by its own checksum.
    """

    def __init__(self, store: Store, root: str, recorded: Mapping[str, Digest]) -> None:
        super().__init__(store, root)
        self._recorded = recorded
        """Key of each chunk → its digest."""

    def _with_store(self, store: Store) -> Self:
        return type(self)(store, self._root, self._recorded)

    def _check(self, key: str, chunk: bytes) -> None:
        digest = digest_of([chunk])
        if self._recorded.get(key, digest) != digest:
            raise StorageError(f"{self._root}/{key} is damaged; run train again to repair")
        super()._check(key, chunk)
