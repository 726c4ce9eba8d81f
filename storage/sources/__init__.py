"""Sources of rows (CSV, Parquet, npy, npz, Zarr) read as equal chunks in bounded memory."""

from .base import Chunk, Source
from .checks import FiniteCheck
from .fingerprint import same
from .labels import Label, LabelCodes
from .opening import list_sources, open_source

__all__ = [
    "Chunk",
    "FiniteCheck",
    "Label",
    "LabelCodes",
    "Source",
    "list_sources",
    "open_source",
    "same",
]
