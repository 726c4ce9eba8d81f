"""Sources of rows (CSV, Parquet, npy, npz, Zarr) read as equal chunks in bounded memory."""

from storage.sources.annotation_table import with_annotations
from storage.sources.base import Source, same, unchanged
from storage.sources.blocks import Chunk
from storage.sources.candidates import CandidateCodes
from storage.sources.checks import FiniteCheck
from storage.sources.coding import PLAIN_NUMBERS, Coding, Gaps
from storage.sources.columns import Columns
from storage.sources.corrections import with_corrections
from storage.sources.dialect import Dialect
from storage.sources.glance import Glance, look_at
from storage.sources.groups import GroupCodes
from storage.sources.ids import are_whole
from storage.sources.joins import Annotations, Corrections
from storage.sources.labels import Label, LabelCodes
from storage.sources.opening import list_sources, open_source

__all__ = [
    "PLAIN_NUMBERS",
    "Annotations",
    "CandidateCodes",
    "Chunk",
    "Coding",
    "Columns",
    "Corrections",
    "Dialect",
    "FiniteCheck",
    "Gaps",
    "Glance",
    "GroupCodes",
    "Label",
    "LabelCodes",
    "Source",
    "are_whole",
    "list_sources",
    "look_at",
    "open_source",
    "same",
    "unchanged",
    "with_annotations",
    "with_corrections",
]
