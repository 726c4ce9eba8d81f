"""Open a source of any kind."""

import os

from storage.errors import InputError

from .base import Source
from .delimited import open_csv
from .label_file import attach_labels
from .npy import open_npy, open_npz
from .parquet import open_parquet
from .paths import SourcePath, readable
from .request import Request
from .zarr_group import MARKS, open_zarr

TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET = (".parquet", ".pq")
KNOWN = ".csv, .tsv (also .gz), .parquet, .npy, .npz, a folder of Parquet files or a Zarr group"


def open_source(
    source: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    label_column: str | None = None,
    with_labels: bool = True,
    features: tuple[str, ...] | None = None,
    ignore: str | None = None,
) -> Source:
    """Open a path or fsspec URL; the format is told by the extension, or by what a folder holds.

    The labels are the column `label_column` of a table (required there), the array `y` (or
    `label_column`) of npz and Zarr, or the file `labels`, in which `label_column` may name one
    of several columns. All other columns of a table are features, in file order.

    To score, give `with_labels=False`, the `features` of training (tables are reordered by
    name; of arrays only the number can be checked) and the training's label column as
    `ignore`: it is no feature, if present.

    Raises `InputError` if the source cannot be opened as asked; what only reading tells is
    raised by `Source.chunks`.
    """
    location = SourcePath.of(source)
    own_labels = with_labels and labels is None
    request = Request(label_column if labels is None else None, own_labels, features, ignore)
    with readable(location.name):
        opened = _open(location, request)
        if with_labels and labels is not None:
            return attach_labels(opened, SourcePath.of(labels), label_column)
        return opened


def list_sources(folder: str | os.PathLike[str]) -> list[str]:
    """Everything in a folder that can be a source of its own, in order of name.

    Names that begin with a dot or an underscore are left out, and files of unknown kinds.

    Raises `InputError` if there is no such folder, or it is itself one source.
    """
    location = SourcePath.of(folder)
    with readable(location.name):
        if location.fs.info(location.path)["type"] != "directory":
            raise InputError(f"{location.name}: not a folder; give the folder that files come to")
        children = [child for child in location.children() if child.basename[:1] not in "._"]
        if any(child.basename in MARKS for child in location.children()):
            raise InputError(
                f"{location.name}: a Zarr group is one source; give the folder it is in"
            )
        return [
            child.name
            for child in children
            if child.basename.lower().endswith((*TEXT, *PARQUET, ".npy", ".npz"))
            or child.fs.isdir(child.path)
        ]


def _open(location: SourcePath, request: Request) -> Source:
    info = location.fs.info(location.path)
    if info["type"] == "directory":
        return _open_folder(location, request)
    if info["size"] == 0:
        raise InputError(f"{location.name}: the file is empty; give a header and rows")
    lower = location.basename.lower()
    if lower.endswith(TEXT):
        return open_csv(location, request)
    if lower.endswith(PARQUET):
        return open_parquet([location], request, location)
    if lower.endswith(".npy"):
        return open_npy(location, request)
    if lower.endswith(".npz"):
        return open_npz(location, request)
    raise InputError(f"{location.name}: unknown kind of file; give {KNOWN}")


def _open_folder(location: SourcePath, request: Request) -> Source:
    children = location.children()
    if any(child.basename in MARKS for child in children):
        return open_zarr(location, request)
    parquet = [child for child in children if child.basename.lower().endswith(PARQUET)]
    if parquet:
        return open_parquet(parquet, request, location)
    what = "neither a Zarr group nor Parquet files in it" if children else "the folder is empty"
    raise InputError(f"{location.name}: {what}; give {KNOWN}")
