"""Labels that are sets of candidates: delimited text, lists and masks read as tuples of values."""

from typing import Any

import numpy as np
import numpy.typing as npt

from storage.sources.values.labels import Label, Labels, label_value


def as_sets(labels: Labels, separator: str) -> Labels:
    """`(row,)` object: the different candidates of each row as a tuple, in the order they stand in;
    None where there is none.

    labels : `(row,)` tuples, or single values, of which text is divided by the separator if there
        is one
    """
    values = labels.tolist()
    table = {raw: _candidates(raw, separator) for raw in set(values)}
    return np.fromiter((table[raw] for raw in values), object, len(values))


def _candidates(raw: Any, separator: str) -> tuple[Label, ...] | None:
    if isinstance(raw, bytes):
        raw = raw.decode("utf-8", "replace")
    parts = raw.split(separator) if isinstance(raw, str) and separator else (raw,)
    values = map(label_value, raw if isinstance(raw, tuple) else parts)
    return tuple(dict.fromkeys(value for value in values if value is not None)) or None


def sets_of_mask(mask: npt.NDArray[np.bool_]) -> Labels:
    """`(row,)` object: the places that are true in each row of `(row, class)`, as a tuple."""
    packed = np.ascontiguousarray(np.packbits(mask, axis=1))
    _, first, place = np.unique(
        packed.view(f"V{packed.shape[1]}").ravel(), return_index=True, return_inverse=True
    )
    sets = [tuple(np.flatnonzero(mask[row]).tolist()) for row in first]
    return np.fromiter(sets, object, len(sets))[place.ravel()]
