"""Arrays and records on disk or in an object store; nothing of learning or scheduling."""

from typing import TYPE_CHECKING, Any

from storage.errors import ClusterError, InputError, KnnoiseError, StorageError

if TYPE_CHECKING:
    from storage.runs.run import Run, open_run

__all__ = ["ClusterError", "InputError", "KnnoiseError", "Run", "StorageError", "open_run"]


def __getattr__(name: str) -> Any:
    """`Run` and `open_run` when they are used: errors alone do not wait for xarray."""
    if name in ("Run", "open_run"):
        from storage.runs import run

        return getattr(run, name)
    raise AttributeError(f"module 'storage' has no attribute {name!r}")
