"""Arrays and records on disk or in an object store; nothing of learning or scheduling."""

from storage.errors import ClusterError, InputError, KnnoiseError, StorageError
from storage.run import Run, open_run

__all__ = ["ClusterError", "InputError", "KnnoiseError", "Run", "StorageError", "open_run"]
