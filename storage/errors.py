"""Errors a user can act on: each says what, where and the remedy, in one line. Failures that may
pass are told from what is wrong with a source or a run, and tried again."""

import difflib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from storage.redaction import redacted

_STEERING = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))}
LONGEST_REASON = 200
"""Characters of a parser's message that are shown: hostile content can be quoted in it."""


def unsteered(text: str) -> str:
    """A text of lines in which what would steer a terminal is written out, such as `\\x1b`."""
    return text.translate(_STEERING)


def as_text(lines: Iterable[str]) -> str:
    """Lines as a text; a line break inside one, of a name perhaps, becomes a space."""
    return "".join(f"{' '.join(line.splitlines())}\n" for line in lines)


class KnnoiseError(Exception):
    """Base of the errors shown to a user without a traceback.

    Line breaks inside the message are replaced by spaces, so that it is always one line; secrets
    (passwords in URLs and the like) are taken out, for messages end up in logs.
    """

    exit_code: ClassVar[int] = 1
    """Exit status of the command line when this error ends it."""

    def __init__(self, message: str) -> None:
        super().__init__(redacted(unsteered(" ".join(message.splitlines()))))

    def _render_traceback_(self, *_: object) -> list[str]:
        """What a notebook shows: the message, and no frames of ours."""
        return [f"{type(self).__name__}: {self}"]


class InputError(KnnoiseError):
    """The source, the labels or a parameter cannot be used as given."""

    exit_code = 2


class StorageError(KnnoiseError):
    """Something the project stored is missing, damaged or not its own."""

    exit_code = 3


class UnavailableError(StorageError):
    """A source cannot be reached at present; trying again may help."""


class ClusterError(KnnoiseError):
    """The cluster failed or the run was interrupted."""

    exit_code = 4


class StepTimeoutError(ClusterError):
    """A step took longer than it may."""


class BusyError(ClusterError):
    """Another process works on the run."""


def shown(value: object, limit: int = 40) -> str:
    """`repr` of a value for a message, cut to `limit` characters."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def amount(n: int, one: str, many: str | None = None) -> str:
    """So many of something in a sentence; `many` where it is not `one` and an s."""
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def listed(names: Iterable[object], limit: int = 12) -> str:
    """The first `limit` of several values for a message, and how many more there are."""
    values = list(names)
    more = f" and {len(values) - limit:,} more" if len(values) > limit else ""
    return ", ".join(shown(value) for value in values[:limit]) + more


def no_column(name: object, columns: Iterable[str]) -> str:
    """That there is no such column, which there are, and which may be meant."""
    there = list(columns)
    return f"no column {name!r}; columns are {listed(there)}{did_you_mean(name, there, '; ', repr)}"


def did_you_mean(
    name: object, known: Iterable[str], before: str = ", ", written: Callable[[str], str] = str
) -> str:
    """The end of a sentence on a name that is not known: which may be meant; else nothing."""
    meant = difflib.get_close_matches(name, list(known), 1) if isinstance(name, str) else []
    return f"{before}did you mean {written(meant[0])}?" if meant else ""


def reason_of(error: BaseException) -> str:
    """What a parser says, cut to `LONGEST_REASON` characters, or else the kind of its error."""
    text = str(error).strip() or type(error).__name__
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 3]}..."


T = TypeVar("T")

FIRST_WAIT = 0.5
"""Seconds before the first retry; doubled for each further one."""
RETRIES = 5
_LASTING = {
    *(errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.EINVAL),
    *(errno.ENAMETOOLONG, errno.ELOOP, errno.EROFS, errno.EFBIG, errno.ENXIO, errno.EOVERFLOW),
}
"""System errors that say what is wrong with the path or the content."""
NO_ROOM = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room"),
    errno.EFBIG: "allow larger files (ulimit -f)",
}
"""Those of a full disk or quota, or of a file larger than one may be → what to do."""
_NETWORK = {
    *("ConnectionError", "ClientConnectionError", "ClientPayloadError", "HTTPClientError"),
    *("IncompleteRead", "IncompleteReadError"),
}
"""Classes of aiohttp, botocore and the standard library, some of which are no `OSError`."""
_CREDENTIALS = {
    *("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"),
    *("DefaultCredentialsError", "ClientAuthenticationError"),
}
"""Classes of botocore, Google's and Azure's libraries."""
_BUSY = {408, 425, 429}
"""Statuses of HTTP below 500 that may pass."""


def may_pass(error: BaseException) -> bool:
    """Whether reading again may succeed: a reset, a timeout, EIO; a server that is busy.

    Libraries take such failures for damage or for a missing file (`zipfile`, fsspec's HTTP): the
    errors that one was raised from count as well.
    """
    for one in _origins(error):
        status = _status(one)
        if status is not None:
            return status >= 500 or status in _BUSY
        if isinstance(one, TimeoutError) or _NETWORK & _classes(one):
            return True
        if isinstance(one, OSError) and one.errno is not None:
            return one.errno > 0 and one.errno not in _LASTING
    return False


def without_threads(error: BaseException) -> bool:
    """Whether the operating system gave no more threads, as Python says it or Arrow."""
    return any(text in str(error) for text in ("start new thread", "launch worker thread"))


def _origins(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and one after the other those that it was raised from, each once: `raise error from
    error` is a circle."""
    passed = set[int]()
    while error is not None and id(error) not in passed:
        passed.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _classes(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _status(error: BaseException) -> int | None:
    """What a server answered, of an error of a library that says so."""
    if isinstance(error, OSError):
        return None
    named = (getattr(error, name, None) for name in ("status", "code", "status_code"))
    return next((status for status in named if isinstance(status, int)), None)


def misconfigured(error: BaseException) -> str | None:
    """What to do where a store's library was given no credentials, or refuses what it was given;
    None for any other failure."""
    classes = {name for one in _origins(error) for name in _classes(one)}
    if _CREDENTIALS & classes:
        return (
            "its store wants credentials, and none were found; give them by the environment, such "
            "as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or FSSPEC_S3_ANON=true where all may "
            "read"
        )
    if "Invalid endpoint" in str(error) or ("BotoCoreError" in classes and not may_pass(error)):
        reason = reason_of(error).partition(": Bucket name must")[0]
        return f"its store's library refuses it ({reason}); mend the address, or its settings"
    return None


@contextmanager
def stored(name: str) -> Iterator[None]:
    """Turn a failure of the disk or store that holds a run into a `StorageError` that names it, as
    it does a pipe or device in the place of a file, which would be waited for."""
    if _may_hang(name):
        raise StorageError(f"{name} is no regular file; remove it and run again")
    try:
        yield
    except IsADirectoryError as error:
        raise StorageError(f"{name} is a folder, no file; remove it and run again") from error
    except Exception as error:
        if (refused := misconfigured(error)) is not None:
            raise InputError(f"{name}: {refused}") from error
        if isinstance(error, OSError) or _status(error) is not None or may_pass(error):
            reason = str(error).strip() or type(error).__name__
            raise StorageError(
                f"{name}: cannot be read or written ({reason}); {_remedy(error)}"
            ) from error
        raise


def _remedy(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if number in NO_ROOM:
        return f"what a run has done is kept: {NO_ROOM[number]} and run again"
    if number in _LASTING or isinstance(error, FileNotFoundError | PermissionError):  # a store's
        return "mend that, or name another"
    return "what a run has done is kept: run again"


def _may_hang(name: str) -> bool:
    """Whether a path is that of a pipe, device or socket."""
    with suppress(OSError, ValueError):
        mode = os.stat(name).st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def unreached(name: str, error: BaseException) -> UnavailableError:
    """What is said of a failure that may pass, by the error it began with."""
    *_, origin = _origins(error)
    reason = str(origin).strip() or type(origin).__name__
    return UnavailableError(
        f"{name}: cannot be reached at present ({reason}); what a run has done is kept: run again"
    )


@dataclass
class Patience:
    """Growing waits between tries; full again after each success."""

    failures: int = 0

    def wait(self, error: UnavailableError) -> None:
        """Sleep before another try; raise the error where there were enough."""
        if self.failures == RETRIES:
            raise error
        time.sleep(FIRST_WAIT * 2**self.failures)
        self.failures += 1


def patiently(read: Callable[[], T]) -> T:
    """The result of a call that is tried again while its source cannot be reached.

    Raises `UnavailableError` after `RETRIES` retries.
    """
    patience = Patience()
    while True:
        try:
            return read()
        except UnavailableError as error:
            patience.wait(error)
