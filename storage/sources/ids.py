"""Ids of rows: text, or whole numbers where all are."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from storage.errors import InputError
from storage.sources.labels import Labels

ID_BYTES = 4096
"""Longest id."""
WHOLE = "^(0|-?[1-9][0-9]{0,17})$"
"""Text of a whole number."""


def check_id_type(where: str, name: str, kind: pa.DataType) -> None:
    """Raise `InputError` unless columns of this Arrow type can be ids."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_nested(kind) or types.is_floating(kind) or types.is_binary(kind):
        raise InputError(f"{where}: id column {name!r} is {kind}; ids are text or whole numbers")


def text_ids(column: Any, where: str) -> Labels:
    """`(row,)` object: ids as text, empty where missing.

    Raises `InputError` for ids of more than `ID_BYTES` bytes.
    """
    found = column if isinstance(column, pa.Array) else pa.array(column)
    if types.is_dictionary(found.type):
        found = found.dictionary_decode()
    if not types.is_string(found.type):
        found = found.cast(pa.string())
    longest = pc.max(pc.binary_length(found)).as_py() or 0
    if longest > ID_BYTES:
        raise InputError(f"{where}: an id of {longest:,} bytes; give short ones")
    ids: Labels = found.fill_null("").to_numpy(zero_copy_only=False)
    return ids


def are_whole(ids: Labels) -> bool:
    """Whether all ids are whole numbers as int64 writes them (no leading zeros)."""
    return bool(pc.all(pc.match_substring_regex(pa.array(ids, pa.string()), WHOLE)).as_py())


def as_column(ids: Labels, whole: bool) -> pa.Array:
    """Ids as they are written to a table: int64 where all are `whole`, else text."""
    found = pa.array(np.asarray(ids, object), pa.string())
    return found.cast(pa.int64()) if whole else found
