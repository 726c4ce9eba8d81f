"""A source that is out of reach for a while: told from bad input, tried again, then given up."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem

from storage import errors
from storage.errors import InputError, StorageError, UnavailableError, may_pass, patiently
from storage.sources.files import SourcePath
from storage.sources.opening import list_sources, open_source

X = np.arange(40_000, dtype=np.float32).reshape(10_000, 4)
Y = np.arange(10_000) % 2


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was waited, without waiting."""
    waited: list[float] = []
    monkeypatch.setattr(errors.time, "sleep", waited.append)
    return waited


def csv(folder: Path) -> Path:
    rows = "\n".join(f"{a},{b},{c},{d},{y}" for (a, b, c, d), y in zip(X, Y, strict=True))
    (folder / "t.csv").write_text(f"a,b,c,d,y\n{rows}\n")
    return folder / "t.csv"


def parquet(folder: Path) -> Path:
    columns = {name: X[:, i] for i, name in enumerate("abcd")}
    pq.write_table(pa.table({**columns, "y": Y}), folder / "t.parquet", row_group_size=500)
    return folder / "t.parquet"


def npz(folder: Path) -> Path:
    np.savez(folder / "t.npz", X=X, y=Y)
    return folder / "t.npz"


MAKERS = [csv, parquet, npz]


class FaultyFile(io.RawIOBase):
    """A local file some of whose reads fail."""

    def __init__(self, path: str, error: Exception, which: Callable[[], bool]) -> None:
        self._file = io.FileIO(path)
        self._error, self._which = error, which

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any) -> int | None:
        if self._which():
            raise self._error
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


def fail_reads(monkeypatch: pytest.MonkeyPatch, error: Exception, *which: int) -> list[int]:
    """Reads of sources number `which` (from 0; all where none is given) raise the error."""
    count = [0]

    def hit() -> bool:
        count[0] += 1
        return not which or count[0] - 1 in which

    def faulty(self: SourcePath, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(FaultyFile(self.path, error, hit), 8192)

    monkeypatch.setattr(SourcePath, "open", faulty)
    return count


@pytest.mark.parametrize("make", MAKERS)
def test_rows_are_the_same_after_any_read_that_failed(
    make: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path)
    column = {"label_column": "y"} if make is not npz else {}
    error = OSError(errno.EIO, "Input/output error")
    with monkeypatch.context() as counting:
        count = fail_reads(counting, error, -1)
        for _ in open_source(path, **column).chunks(1000):
            pass
    assert count[0] > 3
    for number in range(0, count[0], max(1, count[0] // 25)):
        with monkeypatch.context() as faulty:
            fail_reads(faulty, error, number)
            source = open_source(path, **column)
            source.fingerprint(with_digest=True)
            chunks = list(source.chunks(1000))
        assert [len(chunk.x) for chunk in chunks] == [1000] * 10
        np.testing.assert_array_equal(np.concatenate([chunk.x for chunk in chunks]), X)
        labels = np.concatenate([chunk.label for chunk in chunks if chunk.label is not None])
        np.testing.assert_array_equal(labels, Y)


def test_waits_grow_and_end_as_a_storage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    path = csv(tmp_path)
    fail_reads(monkeypatch, ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
    with pytest.raises(UnavailableError, match=r"t\.csv: cannot be reached .*reset by peer"):
        open_source(path, label_column="y")
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert issubclass(UnavailableError, StorageError)
    assert UnavailableError.exit_code == 3


def test_listing_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    csv(tmp_path)
    info, failures = LocalFileSystem.info, [OSError(errno.ESTALE, "Stale file handle")]

    def once(self: LocalFileSystem, *args: Any, **kwargs: Any) -> Any:
        if failures:
            raise failures.pop()
        return info(self, *args, **kwargs)

    monkeypatch.setattr(LocalFileSystem, "info", once)
    assert list_sources(tmp_path) == [str(tmp_path / "t.csv")]
    assert waits == [0.5]


class Busy(Exception):
    """What HTTP libraries raise."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class ServerDisconnectedError(type("ClientConnectionError", (Exception,), {})):  # type: ignore[misc]
    """As aiohttp has it: no `OSError`."""


def hidden(cause: Exception) -> FileNotFoundError:
    """fsspec's word for any failure of HTTP."""
    error = FileNotFoundError("http://host/t.csv")
    error.__cause__ = cause
    return error


def circle() -> ValueError:
    """An error raised from another that was raised from it."""
    error, other = ValueError("one"), ValueError("other")
    error.__cause__, other.__cause__ = other, error
    return error


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, "Input/output error"),
        OSError(errno.EMFILE, "Too many open files"),
        OSError(errno.ESTALE, "Stale file handle"),
        ConnectionResetError(),
        TimeoutError(),
        Busy(500),
        Busy(503),
        Busy(429),
        ServerDisconnectedError(),
        hidden(TimeoutError()),
    ],
)
def test_failures_that_may_pass(error: Exception) -> None:
    assert may_pass(error)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file"),
        PermissionError(errno.EACCES, "Permission denied"),
        IsADirectoryError(errno.EISDIR, "Is a directory"),
        OSError(errno.EINVAL, "Invalid argument"),
        OSError("Not a gzipped file"),
        ValueError("not a number"),
        Busy(403),
        Busy(404),
        hidden(Busy(404)),
        circle(),
    ],
)
def test_failures_that_last(error: Exception) -> None:
    assert not may_pass(error)


def test_bad_input_is_not_tried_again(waits: list[float], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        open_source(tmp_path / "t.csv", label_column="y")
    assert waits == []


def test_other_errors_pass_through() -> None:
    def fail() -> None:
        raise InputError("not so")

    with pytest.raises(InputError):
        patiently(fail)
