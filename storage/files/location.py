"""A folder anywhere fsspec reaches, with the few operations that durability rests on, and its Zarr
stores: a missing chunk is an error, those of runs note what is written and delete nothing. Which
protocols an address may use, as a submitted address decides what code opens it."""

import asyncio
import contextlib
import errno
import functools
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import has_magic
from itertools import takewhile
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import fsspec
import google_crc32c
import zarr
from fsspec import AbstractFileSystem
from fsspec.core import split_protocol
from fsspec.implementations.local import LocalFileSystem
from fsspec.registry import known_implementations
from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import FsspecStore, LocalStore, WrapperStore

from storage.errors import InputError, KnnoiseError, StorageError, stored
from storage.files import durable
from storage.files.durable import Digest, digest_of, is_lasting, note
from storage.redaction import bare, remember

# A chunk that equals the fill value is written all the same: a missing file then always means loss.
zarr.config.set({"array.write_empty_chunks": True})

_METADATA = {"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"}
"""Files of a Zarr hierarchy that may be absent; every other one is a chunk."""
_SMALL = 1 << 18
"""Bytes of a file that are read or written sooner than a thread is found to do it."""


def _name(key: str) -> str:
    return key.rsplit("/", 1)[-1]


class _Local(LocalStore):
    """A folder of this host: files that are small, which most are, wait for no thread."""

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        if _name(key) in _METADATA or self._is_small(key):
            return self.get_sync(key, prototype=prototype, byte_range=byte_range)
        return await super().get(key, prototype, byte_range)

    def _is_small(self, key: str) -> bool:
        try:
            return os.stat(self.root / key).st_size <= _SMALL
        except OSError:  # as who reads it will say
            return False

    async def set(self, key: str, value: Buffer) -> None:
        if len(value) <= _SMALL:
            self.set_sync(key, value)
        else:
            await super().set(key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Asked by each new array, for the groups above it."""
        if (self.root / key).exists():
            return
        try:
            await super().set_if_not_exists(key, value)
        except OSError as error:
            if error.errno not in durable.LACKING:
                raise
            await self.set(key, value)


class StrictStore(WrapperStore[Store]):
    """A Zarr store in which a missing chunk is an error instead of a block of fill values."""

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        value = await self._store.get(key, prototype, byte_range)
        if value is None and _name(key) not in _METADATA:
            raise self._lost(key)
        return value

    def _lost(self, key: str) -> KnnoiseError:
        return StorageError(f"{self._store}: chunk {key} is missing; run train again to repair")


class RunStore(StrictStore):
    """The store of a run, or of a part of it.

    Overwriting an array or a group writes over its files and deletes none: they may be committed.
    """

    def __init__(
        self, store: Store, root: str, recorded: Mapping[str, Digest] | None = None
    ) -> None:
        """recorded : of a finished run, the digest of each chunk by its key"""
        super().__init__(store)
        self._root, self._recorded = root, recorded or {}

    def _with_store(self, store: Store) -> Self:
        return type(self)(store, self._root, self._recorded)

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
        error names the file, whoever reads it. One that changed places with another is whole by
        that, and not as recorded."""
        whole = google_crc32c.value(chunk[:-4]).to_bytes(4, "little") == chunk[-4:]
        if not whole or (key in self._recorded and self._recorded[key] != digest_of([chunk])):
            raise StorageError(f"{self._root}/{key} is damaged; run train again to repair")

    async def set(self, key: str, value: Buffer) -> None:
        with stored(f"{self._root}/{key}"):
            await self._store.set(key, value)
        note(f"{self._root}/{key}", [value.to_bytes()])

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        await asyncio.gather(*(self.set(key, value) for key, value in values))

    async def delete_dir(self, prefix: str) -> None:
        """Nothing: see the class."""


OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"})
"""Protocols whose only folders are buckets."""
STORES = OBJECT_STORES | {"file"}
"""Protocols of what is read and written."""
SOURCES = STORES | {"http", "https"}
"""Protocols of what is only read."""
LONGEST_NAME = 255
"""Bytes of the name of a file or folder, on whatever disk."""
MORE = "KNNOISE_PROTOCOLS"
"""Environment variable with further protocols, separated by commas."""


def check_name(address: str) -> None:
    """Raise `InputError` for what can be no path or URL, whoever opens it."""
    if not address or "\0" in address:
        what = "cannot hold a zero byte" if address else "cannot be empty"
        raise InputError(f"{address!r}: a path {what}; check it")
    if "://" in address:
        return
    if "::" in address and address.partition("::")[0] not in known_implementations:
        raise InputError(f"{address}: '::' joins addresses and is in no name; name it otherwise")
    if max(len(os.fsencode(name)) for name in address.split("/")) > LONGEST_NAME:
        raise InputError(
            f"{address[:80]}…: no file or folder has a name of more than {LONGEST_NAME} bytes; "
            "name it otherwise"
        )


def check_address(address: str, *, to_read: bool = False) -> None:
    """Raise `InputError` if a path or URL uses a protocol that is not allowed, or cannot be one.

    Every link of a chain (`simplecache::s3://...`) counts. Called before fsspec sees the address.
    `to_read`: the address is of a source, which is never written.
    """
    check_name(address)
    allowed = set(SOURCES if to_read else STORES)
    allowed |= {name.strip() for name in os.environ.get(MORE, "").split(",")} - {""}
    links = address.split("::")
    for link in links:  # as fsspec would take it
        protocol = split_protocol(link)[0] or (link if len(links) > 1 else "file")
        if protocol not in allowed:
            raise InputError(
                f"{address}: the protocol {protocol} is not allowed here, only "
                f"{', '.join(sorted(allowed))}; if you trust it, name it in {MORE} (operations.md)"
            )


_EXTRAS = {"s3fs": "s3", "gcsfs": "gcs", "adlfs": "azure"}
"""The extra that brings each package for object stores."""


def open_url(url: str) -> tuple[AbstractFileSystem, str]:
    """The filesystem of an address, and the path there.

    Raises `InputError` where the package for its protocol is not installed, or finds no account.
    """
    try:
        fs, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:  # Azure's, of an account that is not given
        name = getattr(error.__cause__, "name", None)
        if name not in _EXTRAS:
            raise InputError(f"{bare(url)}: no filesystem for this URL ({error})") from error
        raise InputError(
            f"{bare(url)} needs {name}, which is not installed: "
            f'pip install "knnoise[{_EXTRAS[name]}]"'
        ) from error
    return fs, path


P = ParamSpec("P")
T = TypeVar("T")

_LOCAL = LocalFileSystem()
_ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
_PIECE_BYTES = 16 << 20
"""Bytes of a file that are in memory at once while it is checked."""


def _stored(method: Callable[Concatenate["Location", str, P], T]) -> Callable[..., T]:
    """A failure of the disk or store becomes a `StorageError` that names the file."""

    @functools.wraps(method)
    def call(self: "Location", key: str = "", *args: P.args, **kwargs: P.kwargs) -> T:
        with stored(self.path(key)):
            return method(self, key, *args, **kwargs)

    return call


def _find(path: Path) -> Iterator[str]:
    """Files below a folder, or the file itself; fsspec leaves out folders that cannot be read."""

    def fail(error: OSError) -> None:
        raise error

    if path.is_file():
        yield str(path)
        return
    for folder, _, names in os.walk(path, onerror=fail):
        yield from (f"{folder}/{name}" for name in names)


def _is_there(path: Path) -> bool:
    """Whether there is a file or folder; from Python 3.14 on `exists` raises nothing where it may
    not be seen."""
    try:
        path.stat()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP):
            raise
        return False
    return True


@dataclass(frozen=True)
class Location:
    """A folder, by local path or fsspec URL. Keys are relative, with forward slashes."""

    url: str

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> "Location":
        """Local paths become absolute, so that a worker elsewhere on the host sees the same; `~` in
        front is the user's folder.

        Raises `InputError` for what cannot be a path, or is of a protocol that is not allowed.
        """
        url = remember(os.fspath(path)).removeprefix("file://")
        check_address(url)
        if "://" in url:
            return cls(url.rstrip("/"))
        try:
            return cls(str(Path(os.path.expanduser(url)).absolute()))
        except FileNotFoundError as error:
            raise InputError(
                f"{url}: the current folder has been deleted; change to another one"
            ) from error

    @property
    def name(self) -> str:
        """The URL without secrets, for people and records."""
        return bare(self.url)

    @property
    def is_local(self) -> bool:
        return "://" not in self.url

    def path(self, key: str) -> str:
        return f"{self.url}/{key}" if key else self.url

    def _fs(self, key: str = "") -> tuple[Any, str]:
        return (_LOCAL, self.path(key)) if self.is_local else open_url(self.path(key))

    @_stored
    def read(self, key: str, start: int | None = None, stop: int | None = None) -> bytes | None:
        """Content of one file, or those of some of its bytes that there are; None where there is no
        such file."""
        fs, path = self._fs(key)
        try:
            content: bytes = fs.cat_file(path, start=start, end=stop)  # stores differ in the order
        except _ABSENT:
            return None
        except OSError as error:  # as stores refuse a range beyond the end
            if start is None or error.errno != errno.EINVAL:
                raise
            return b""
        return content

    @_stored
    def create(self, key: str, content: bytes) -> bool:
        """Publish a file at once and whole; False, and nothing changed, where it exists."""
        target = Path(self.path(key))
        if self.is_local:
            durable.make_folder(target.parent)  # a file in its place is a failure
        try:
            if self.is_local:
                with durable.whole(target, publish=durable.name_new) as file:
                    file.write(content)
            else:
                fs, path = self._fs(key)
                fs.pipe_file(path, content, mode="create")
        except FileExistsError:
            return False
        return True

    def replace(self, key: str, content: bytes, *, synced: bool = True) -> None:
        """Write a file at once and whole, over an older one if need be.

        `synced`: it survives a power cut from then on.
        """
        self.write(key, [content], synced=synced)

    @_stored
    def write(self, key: str, pieces: Sequence[bytes | memoryview], *, synced: bool = True) -> None:
        """The same of a file in pieces, which are not put together in memory: a store that fails in
        the midst may be left with the first of them, under no record."""
        self._put(key, pieces, synced=synced)
        note(self.path(key), pieces)

    def _put(self, key: str, pieces: Sequence[bytes | memoryview], *, synced: bool) -> None:
        if self.is_local:
            with durable.whole(Path(self.path(key)), synced=synced) as file:
                file.writelines(pieces)
        else:
            fs, path = self._fs(key)
            if len(pieces) == 1:
                fs.pipe_file(path, bytes(pieces[0]))
            else:
                with fs.open(path, "wb", block_size=_PIECE_BYTES) as file:
                    file.writelines(pieces)

    @_stored
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

    def sync(self, keys: Iterable[str], but: Container[str] = ()) -> None:
        """Return when lasting files and their names survive a power cut.

        but : full paths of files whose bytes are synced already

        An object store has them on several disks when it says so.
        """
        if self.is_local:
            paths = [path for path in map(self.path, keys) if is_lasting(path)]
            with stored(self.url):
                durable.sync_all(paths, but, self.url)

    @_stored
    def files(self, prefix: str) -> list[str]:
        """Keys of all files below a folder, sorted; staged leftovers are not listed."""
        fs, path = self._fs(prefix)
        root = fs._strip_protocol(self.path(""))
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            names = _find(Path(path)) if self.is_local else fs.find(path)
            keys = (str(name)[len(root) :].lstrip("/") for name in names)
            return sorted(key for key in keys if not key.rsplit("/", 1)[-1].startswith("."))
        return []

    @_stored
    def exists(self, key: str = "") -> bool:
        fs, path = self._fs(key)
        try:
            fs.info(path)  # fsspec's `exists` takes any failure for an absent file
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    @_stored
    def remove(self, key: str = "") -> None:
        """Remove a file or a whole folder, if there."""
        fs, path = self._fs(key)
        with contextlib.suppress(FileNotFoundError):
            if self.is_local or not has_magic(path):
                fs.rm(path, recursive=True)
            else:  # a whole folder at once would be taken for a pattern
                for name in fs.find(path):
                    fs.rm_file(name)

    def check_writable(self) -> list[str]:
        """The names of the local folders that a file here would make (of a store all), this one
        first; `InputError` where the system tells that they cannot be made, or not be written."""
        if not self.is_local:
            return [] if self.exists() else self.url.split("/")
        try:
            missing = self.missing()
            there = missing[-1].parent if missing else Path(self.url)
            if links := [folder for folder in missing if folder.is_symlink()]:
                problem = f"{links[-1]} is a link to nothing"
            elif not there.is_dir():
                problem = f"{there} is a file"
            else:
                problem = "" if os.access(there, os.W_OK | os.X_OK) else f"{there}: read-only"
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
        if problem:
            raise InputError(
                f"{self.name[:200]}: no folder can be made here ({problem[:200]}); name another"
            )
        return [folder.name for folder in missing]

    def missing(self) -> list[Path]:
        """Local folders that the first file here would make, this one first; raises `OSError` where
        that may not be seen."""
        folders = [Path(self.url), *Path(self.url).parents] if self.is_local else []
        return list(takewhile(lambda folder: not _is_there(folder), folders))

    def clear(self, made: Iterable[Path] = ()) -> None:
        """Remove all that is in the folder, and of folders those `made` that are empty then."""
        if not self.is_local:
            self.remove()
            return
        for child in Path(self.url).iterdir():
            self.remove(child.name)
        with contextlib.suppress(OSError):  # somebody has put something there
            for folder in made:
                folder.rmdir()

    @_stored
    def digest(self, key: str) -> Digest | None:
        """The digest of a file as read back now, None where missing."""
        if not self.is_local:
            content = self.read(key)
            return None if content is None else digest_of([content])
        try:
            with Path(self.path(key)).open("rb") as file:
                return digest_of(iter(lambda: file.read(_PIECE_BYTES), b""))
        except _ABSENT:
            return None

    def zarr_store(self, key: str, *, read_only: bool = False) -> RunStore:
        store: Store
        if self.is_local:
            store = _Local(self.path(key), read_only=read_only)
        else:
            store = FsspecStore.from_url(self.path(key), read_only=read_only)
        return RunStore(store, self.path(key))
