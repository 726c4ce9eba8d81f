"""A folder anywhere fsspec reaches, with the few operations that durability rests on."""

from __future__ import annotations

import contextlib
import os
import uuid
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import Any

import fsspec
import google_crc32c
import zarr
from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import FsspecStore, LocalStore, WrapperStore

from storage.errors import StorageError

# A chunk that equals the fill value is written all the same: a missing file then always means loss.
zarr.config.set({"array.write_empty_chunks": True})


class StrictStore(WrapperStore[Store]):
    """A Zarr store in which a missing chunk is an error instead of a block of fill values."""

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        value = await self._store.get(key, prototype, byte_range)
        if value is None and "/c/" in f"/{key}":
            raise StorageError(f"{self._store}: chunk {key} is missing; run train again to repair")
        return value


@dataclass(frozen=True)
class Location:
    """A folder, by local path or fsspec URL. Keys are relative, with forward slashes."""

    url: str

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Location:
        """Local paths become absolute, so that a worker elsewhere on the host sees the same."""
        url = os.fspath(path).removeprefix("file://")
        return cls(url.rstrip("/") if "://" in url else str(Path(url).absolute()))

    @property
    def is_local(self) -> bool:
        return "://" not in self.url

    def path(self, key: str) -> str:
        return f"{self.url}/{key}" if key else self.url

    def _fs(self, key: str = "") -> tuple[Any, str]:
        fs, path = fsspec.core.url_to_fs(self.path(key))
        return fs, path

    def read(self, key: str) -> bytes | None:
        """Content of one file, None where there is none."""
        fs, path = self._fs(key)
        try:
            content: bytes = fs.cat_file(path)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        return content

    def create(self, key: str, content: bytes) -> bool:
        """Publish a file at once and whole; False, and nothing changed, where it exists."""
        if self.is_local:
            target = Path(self.path(key))
            staged = self._stage(target, content)
            try:
                os.link(staged, target)
            except FileExistsError:
                return False
            finally:
                staged.unlink()
            return True
        fs, path = self._fs(key)
        try:
            fs.pipe_file(path, content, mode="create")
        except FileExistsError:
            return False
        return True

    def replace(self, key: str, content: bytes) -> None:
        """Write a file at once and whole, over an older one if need be."""
        if self.is_local:
            target = Path(self.path(key))
            self._stage(target, content).replace(target)
        else:
            fs, path = self._fs(key)
            fs.pipe_file(path, content)

    def append(self, key: str, content: bytes) -> None:
        """Add to the end of a file that no other process writes.

        Object stores cannot append: there the file is written anew with the addition.
        """
        if self.is_local:
            target = Path(self.path(key))
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("ab") as file:
                file.write(content)
        else:
            self.replace(key, (self.read(key) or b"") + content)

    @staticmethod
    def _stage(target: Path, content: bytes) -> Path:
        target.parent.mkdir(parents=True, exist_ok=True)
        staged = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        staged.write_bytes(content)
        return staged

    def files(self, prefix: str) -> list[str]:
        """Keys of all files below a folder, sorted; staged leftovers are not listed."""
        fs, path = self._fs(prefix)
        root = fs._strip_protocol(self.path(""))
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found = (str(name)[len(root) :].lstrip("/") for name in fs.find(path))
            return sorted(key for key in found if not key.rsplit("/", 1)[-1].startswith("."))
        return []

    def exists(self, key: str = "") -> bool:
        fs, path = self._fs(key)
        return bool(fs.exists(path))

    def remove(self, key: str = "") -> None:
        """Remove a file or a whole folder, if there."""
        fs, path = self._fs(key)
        with contextlib.suppress(FileNotFoundError):
            if self.is_local or not has_magic(path):
                fs.rm(path, recursive=True)
            else:  # a whole folder at once would be taken for a pattern
                for name in fs.find(path):
                    fs.rm_file(name)

    def digest(self, key: str) -> tuple[int, str] | None:
        """(size in bytes, CRC-32C in hex) of a file as read back now, None where missing."""
        content = self.read(key)
        if content is None:
            return None
        return len(content), f"{google_crc32c.value(content):08x}"

    def zarr_store(self, key: str, *, read_only: bool = False) -> StrictStore:
        """A strict Zarr store for the folder `key`."""
        store: Store
        if self.is_local:
            store = LocalStore(self.path(key), read_only=read_only)
        else:
            store = FsspecStore.from_url(self.path(key), read_only=read_only)
        return StrictStore(store)
