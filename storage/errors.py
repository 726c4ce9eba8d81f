"""Errors a user can act on: each says what, where and the remedy, in one line."""

from typing import ClassVar

from storage.redaction import redacted


class KnnoiseError(Exception):
    """Base of the errors shown to a user without a traceback.

    Line breaks inside the message are replaced by spaces, so that it is always one line; secrets
    (passwords in URLs and the like) are taken out, for messages end up in logs.
    """

    exit_code: ClassVar[int] = 1
    """Exit status of the command line when this error ends it."""

    def __init__(self, message: str) -> None:
        super().__init__(redacted(" ".join(message.splitlines())))

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
