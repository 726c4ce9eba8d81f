"""Sources of rows (CSV, Parquet, npy, npz, Zarr) read as equal chunks in bounded memory."""

from .annotation_table import with_annotations
from .annotations import Annotations
from .base import Chunk, Source
from .candidates import CandidateCodes
from .checks import FiniteCheck
from .coding import PLAIN_NUMBERS, Coding, Gaps
from .columns import Columns
from .corrections import Corrections, with_corrections
from .dialect import Dialect
from .fingerprint import same, unchanged
from .glance import Glance, look_at
from .groups import GroupCodes
from .ids import are_whole
from .labels import Label, LabelCodes
from .opening import list_sources, open_source

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
