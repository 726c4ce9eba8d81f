"""Whose label each is: annotators, sites, sources or months as small integer codes."""

from typing import NoReturn

import numpy as np
import numpy.typing as npt

from storage.errors import InputError
from storage.sources.labels import Label, LabelCodes, Labels
from storage.sources.paths import listed, shown

MOST_GROUPS = 1000


class GroupCodes:
    """Code groups by first appearance, chunk by chunk; -1 where a row has none."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._codes = LabelCodes(MOST_GROUPS, f"--by {name!r}", refuse=self._refuse)

    @property
    def values(self) -> tuple[Label, ...]:
        """The values seen so far: position is code."""
        return self._codes.values

    def encode(self, raw: Labels, start: int) -> npt.NDArray[np.int16]:
        """Codes `(row,)` of one chunk, whose first row is `start` of the source.

        Raises `InputError` at the first value too many.
        """
        return self._codes.encode(raw, start).astype(np.int16)

    def check(self) -> None:
        """Raise `InputError` where no row has a group."""
        if not self.values:
            raise InputError(f"--by {shown(self.name)}: the column is empty; leave out --by")

    def _refuse(self, seen: list[Label], row: int) -> NoReturn:
        raise InputError(
            f"--by {shown(self.name)}: more than {MOST_GROUPS:,} values by row {row:,} (from 0), "
            f"such as {listed(seen[-3:])}, and at most {MOST_GROUPS:,} groups are compared; give a "
            "coarser column, such as the site or the month"
        )
