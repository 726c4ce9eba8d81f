"""A folder on which one chosen operation goes wrong, in whatever process."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.storage import WrapperStore

from storage.files.location import Location, RunStore, _stored

T = TypeVar("T")

DELAY = 0.3
SILENCE = 60.0
"""Seconds without an answer."""


class Unavailable(Exception):
    """What HTTP libraries raise for an answer of 5xx: no `OSError`."""

    def __init__(self, status: int) -> None:
        super().__init__(f"{status}, message='Service Unavailable'")
        self.status = status


ERRORS: dict[str, Callable[[], Exception]] = {
    "EIO": lambda: OSError(errno.EIO, "Input/output error"),
    "ENOSPC": lambda: OSError(errno.ENOSPC, "No space left on device"),
    "reset": lambda: ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
    "5xx": lambda: Unavailable(503),
    "timeout": lambda: TimeoutError("no answer"),
}
SIGNALS = {"KILL": signal.SIGKILL, "TERM": signal.SIGTERM, "INT": signal.SIGINT}
SIGNALS["STOP"] = signal.SIGSTOP


@dataclass(frozen=True)
class Fault:
    """What goes wrong, and where."""

    op: str
    """read, digest, create, replace, set or get."""
    key: str
    """File, by its key in the run."""
    effect: str
    """A name of `ERRORS` (instead of the operation); the same after `lost-` (the operation is done
    and the reply lost) or `torn-` (half is written); a name of `SIGNALS` (before the operation) or
    after `then-` (after it); `half` (half is written, and all is said to be well), `twice`, `late`,
    `silent`, `flip` (what is read has a wrong bit) or `gone` (nothing is read)."""
    nth: int = 1
    """Which of these operations on the file, over all processes."""
    counter: str = ""
    """File that counts them."""

    def hits(self, op: str, key: str) -> bool:
        """Whether this very operation is the one."""
        if (op, key) != (self.op, self.key):
            return False
        handle = os.open(self.counter, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        try:
            os.write(handle, b".")
            return os.lseek(handle, 0, os.SEEK_CUR) == self.nth
        finally:
            os.close(handle)

    def around(self, perform: Callable[[], T], half: Callable[[], object]) -> T:
        """The operation as it goes wrong; `half` does it in part."""
        name = self.effect
        if name in ERRORS:
            raise ERRORS[name]()
        if name in SIGNALS:
            os.kill(os.getpid(), SIGNALS[name])
            return perform()
        if name == "PAUSE":
            pause(1.0)
            return perform()
        first, _, rest = name.partition("-")
        if first == "then":
            result = perform()
            os.kill(os.getpid(), SIGNALS[rest])
            return result
        if first == "lost":
            perform()
            raise ERRORS[rest]()
        if first == "torn":
            half()
            raise ERRORS[rest]()
        if name == "twice":
            perform()
        elif name in ("late", "silent"):
            time.sleep(DELAY if name == "late" else SILENCE)
        elif name == "half":
            return half()  # type: ignore[return-value]
        return perform()


def pause(seconds: float) -> None:
    """Stop this process, and have another one continue it."""
    pid = os.getpid()
    subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -CONT {pid}"], start_new_session=True)
    os.kill(pid, signal.SIGSTOP)


def flipped(content: bytes) -> bytes:
    """The same with one wrong bit in the middle."""
    wrong = bytearray(content)
    if wrong:
        wrong[len(wrong) // 2] ^= 4
    return bytes(wrong)


@dataclass(frozen=True)
class FaultyLocation(Location):
    """A location below `root` that has one fault."""

    root: str = ""
    fault: Fault | None = None

    def _key(self, key: str) -> str:
        return self.path(key).removeprefix(f"{self.root}/")

    def _hit(self, op: str, key: str) -> Fault | None:
        return self.fault if self.fault and self.fault.hits(op, self._key(key)) else None

    @_stored
    def read(self, key: str, start: int | None = None, stop: int | None = None) -> bytes | None:
        fault, content = self._hit("read", key), super().read(key, start, stop)
        return content if fault is None else self._misread(fault, content)

    @_stored
    def digest(self, key: str) -> Any:
        fault = self._hit("digest", key)
        if fault is None:
            return super().digest(key)
        return fault.around(lambda: super(FaultyLocation, self).digest(key), lambda: None)

    @staticmethod
    def _misread(fault: Fault, content: bytes | None) -> bytes | None:
        if fault.effect == "gone":
            return None
        if fault.effect == "flip":
            return None if content is None else flipped(content)
        return fault.around(lambda: content, lambda: None)

    @_stored
    def create(self, key: str, content: bytes) -> bool:
        fault = self._hit("create", key)
        if fault is None:
            return super().create(key, content)
        return fault.around(
            lambda: super(FaultyLocation, self).create(key, content),
            lambda: self._half(key, content),
        )

    @_stored
    def _put(self, key: str, pieces: Sequence[bytes | memoryview], *, synced: bool) -> None:
        fault = self._hit("replace", key)
        if fault is None:
            super()._put(key, pieces, synced=synced)
            return
        fault.around(
            lambda: super(FaultyLocation, self)._put(key, pieces, synced=synced),
            lambda: self._half(key, b"".join(pieces)),
        )

    def _half(self, key: str, content: bytes) -> None:
        """A staged file that was never published; stores publish at once or not at all."""
        if self.is_local:
            target = Path(self.path(key))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.with_name(f".{target.name}.torn").write_bytes(content[: len(content) // 2])

    def zarr_store(self, key: str, *, read_only: bool = False) -> RunStore:
        strict = super().zarr_store(key, read_only=read_only)
        strict._store = FaultyStore(strict._store, self, key)
        return strict


class FaultyStore(WrapperStore[Store]):
    """A store of such a location."""

    def __init__(self, store: Store, location: FaultyLocation, prefix: str) -> None:
        super().__init__(store)
        self._location, self._prefix = location, prefix

    def _with_store(self, store: Store) -> FaultyStore:
        return FaultyStore(store, self._location, self._prefix)

    async def set(self, key: str, value: Buffer) -> None:
        fault = self._location._hit("set", f"{self._prefix}/{key}")
        if fault is None:
            await self._store.set(key, value)
            return
        content, loop = value.to_bytes(), asyncio.get_running_loop()

        def perform(part: bytes = content) -> None:
            buffer = default_buffer_prototype().buffer.from_bytes(part)
            asyncio.run_coroutine_threadsafe(self._store.set(key, buffer), loop).result()

        # In a thread, so that a delay holds up this operation alone.
        half = content[: len(content) // 2]
        await asyncio.to_thread(fault.around, perform, lambda: perform(half))

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        fault = self._location._hit("get", f"{self._prefix}/{key}")
        value = await self._store.get(key, prototype, byte_range)
        if fault is None:
            return value
        content = None if value is None else value.to_bytes()
        found = await asyncio.to_thread(FaultyLocation._misread, fault, content)
        return None if found is None else prototype.buffer.from_bytes(found)


def plant(root: str, fault: Fault) -> None:
    """From now on every location of this process at or below `root` has the fault."""

    def of(cls: type[Location], path: str | os.PathLike[str]) -> Location:
        made = inner(cls, path)
        inside = f"{made.url}/".startswith(f"{root}/")
        return FaultyLocation(made.url, root=root, fault=fault) if inside else made

    inner = Location.of.__func__  # type: ignore[attr-defined]
    Location.of = classmethod(of)  # type: ignore[method-assign,assignment]
