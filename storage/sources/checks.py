"""The features of all chunks must be finite."""

import numpy as np

from storage.errors import InputError
from storage.sources.blocks import Chunk


class FiniteCheck:
    """Count NaN and infinite feature values, chunk by chunk, and remember the first.

    Empty cells of CSV and Parquet are NaN; numbers beyond float32 are infinite.
    """

    def __init__(self, feature_names: tuple[str, ...], files: tuple[str, ...] = ()) -> None:
        self.feature_names = feature_names
        self.files = files
        """`Source.files`; if given, the message names the file."""
        self.count = 0
        """Bad values seen so far."""
        self.first: tuple[int, str, float, str | None] | None = None
        """Row, feature name, value and file of the first bad value in the order seen."""

    def see(self, chunk: Chunk) -> None:
        """Take note of one chunk."""
        bad = ~np.isfinite(chunk.x)
        found = int(np.count_nonzero(bad))
        if found and self.first is None:
            row, column = divmod(int(bad.argmax()), chunk.x.shape[1])
            file = self.files[chunk.source_id[row]] if self.files else None
            value = float(chunk.x[row, column])
            self.first = int(chunk.rows[row]), self.feature_names[column], value, file
        self.count += found

    def merge(self, after: "FiniteCheck") -> None:
        """Take note of what another saw in the rows after these."""
        self.first = after.first if self.first is None else self.first
        self.count += after.count

    def raise_if_any(self) -> None:
        """Raise `InputError` with the count and the first position if any value was bad."""
        if self.first is None:
            return
        row, name, value, file = self.first
        where = f"{file}: " if file else ""
        what = "NaN or infinite feature value" + ("s" if self.count > 1 else "")
        what = f"{self.count:,} {what}; first at row {row} (from 0), column {name!r}: {value}"
        raise InputError(
            f"{where}{what}; fill or drop them, or give --impute median or drop (empty "
            "cells are NaN, beyond 3.4e38 is infinite)"
        )
