"""Files written in Python, read by Arrow's threads, which are done with them before we are.

Arrow's parser of CSV reads ahead in a thread of its own, and closing the parser does not wait for
it. A thread of C++ that wants the interpreter while that ends is killed in a way that aborts the
process: whatever it holds of Python's has to be gone before.
"""

import atexit
import codecs
import threading
import time
import weakref
from collections.abc import Generator
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv

_LONGEST = 30.0
"""Seconds to wait for a read that is under way."""


class _Feed:
    """The bytes of a file as UTF-8; none once it is stopped."""

    def __init__(self, file: IO[bytes], encoding: str) -> None:
        self._file, self._held, self._stopped = file, b"", False
        self._decoder = None
        if encoding != "utf-8":
            self._decoder = codecs.getincrementaldecoder(encoding)()
        self._lock = threading.Lock()
        self._given: list[weakref.ref[Any]] = []
        _FEEDS.add(self)

    def input(self) -> "_Input":
        """The feed as Arrow wants it, for Arrow alone."""
        given = _Input(self)
        self._given.append(weakref.ref(given))
        return given

    def read_buffer(self, n_bytes: int = 1 << 20) -> pa.Buffer:
        """The next bytes."""
        with self._lock:
            content = b"" if self._stopped else self._read(n_bytes)
            buffer = pa.py_buffer(content)
            self._given = [one for one in self._given if one() is not None]
            self._given.append(weakref.ref(buffer))
            return buffer

    def _read(self, n_bytes: int) -> bytes:
        if self._decoder is None:
            return self._file.read(n_bytes)
        ended = False
        while len(self._held) < n_bytes and not ended:
            raw = self._file.read(n_bytes)
            ended = not raw
            self._held += self._decoder.decode(raw, ended).encode()
        content, self._held = self._held[:n_bytes], self._held[n_bytes:]
        return content

    def stop(self) -> None:
        """From now on the file is at its end; a read under way is done when this returns."""
        self._stopped = True
        self._is_free(_LONGEST)

    def wait(self) -> None:
        """Return when Arrow holds nothing of what it was given."""
        end = time.monotonic() + _LONGEST
        while not (_ended.is_set() or self._is_free(1.0)) and time.monotonic() < end:
            time.sleep(0.0005)

    def _is_free(self, seconds: float) -> bool:
        """Whether Arrow holds nothing, so that it will not read either; waits for the lock."""
        if not self._lock.acquire(timeout=seconds):
            return False
        try:
            return all(one() is None for one in self._given)
        finally:
            self._lock.release()


class _Input:
    """A feed as Arrow wants it; not the feed itself, which traces of errors may keep."""

    closed = False

    def __init__(self, feed: _Feed) -> None:
        self.read = self.read_buffer = feed.read_buffer

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing: who opened the file closes it."""


_FEEDS: "weakref.WeakSet[_Feed]" = weakref.WeakSet()
_ended = threading.Event()


@atexit.register
def _stop_all() -> None:
    """Stop what somebody has begun to read and still holds when the interpreter ends."""
    for feed in list(_FEEDS):
        feed.stop()
        time.sleep(0.01)  # its thread leaves the interpreter
    _ended.set()


def csv_batches(file: IO[bytes], encoding: str, *options: Any) -> Generator[pa.RecordBatch]:
    """The record batches of a CSV file in any encoding, parsed with these options of Arrow's."""
    feed, reader, batch = _Feed(file, encoding), None, None
    try:
        reader = pyarrow.csv.open_csv(feed.input(), *options)
        for batch in reader:
            yield batch
    finally:
        feed.stop()
        del reader, batch
        feed.wait()
