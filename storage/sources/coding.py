"""How columns that are no plain numbers become features: learned on training rows, kept with the
run, applied to every row that is scored."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from storage.sources.columns import matches
from storage.sources.labels import folded
from storage.sources.texts import Spelling


@dataclass(frozen=True)
class Coding:
    """Categories of text columns, and what becomes of gaps."""

    categories: dict[str, list[str]] = field(default_factory=dict)
    """Values of each column that is encoded; each is a feature `column=value`, 1 or 0."""
    fills: dict[str, float] = field(default_factory=dict)
    """Value for the gaps of each feature."""
    drop: bool = False
    """Whether rows with gaps are left out."""
    parse: dict[str, str] = field(default_factory=dict)
    """How numbers are written in columns of text, by name or pattern; the first that fits."""
    joined: dict[str, str] = field(default_factory=dict)
    """The label that stands for all texts alike, by what `folded` leaves of them."""

    @classmethod
    def of_json(cls, found: dict[str, Any] | None) -> "Coding":
        """What `as_json` gave."""
        return cls(**(found or {}))

    def as_json(self) -> dict[str, Any] | None:
        """None if nothing is coded."""
        found = dict(vars(self))
        for name in ("parse", "joined"):  # runs without are as they were before there was such
            if not found[name]:
                del found[name]
        return None if self == PLAIN_NUMBERS else found

    def join(self, labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """(row,) labels, those that are alike as one."""
        if not self.joined or labels.dtype.kind != "O":
            return labels
        found = labels.tolist()
        one = {
            raw: self.joined.get(folded(raw), raw) if isinstance(raw, str) else raw
            for raw in set(found)
        }
        out = np.empty(len(found), object)
        out[:] = [one[raw] for raw in found]
        return out

    def spelling(self, name: str, decimal: str) -> Spelling | None:
        """How the numbers of a column are written; None for plain numbers."""
        kinds = (kind for pattern, kind in self.parse.items() if matches(name, pattern))
        kind = next(kinds, None)
        return None if kind is None else Spelling(kind, decimal)

    def fills_of(self, names: tuple[str, ...]) -> npt.NDArray[np.float32] | None:
        """(feature,) values for gaps, NaN where there is none; None where no feature has one."""
        if not self.fills:
            return None
        return np.array([self.fills.get(name, np.nan) for name in names], np.float32)

    def groups(self, names: tuple[str, ...]) -> dict[str, list[int]]:
        """Places of the features of each encoded column."""
        place = {name: i for i, name in enumerate(names)}
        return {
            column: [place[f"{column}={value}"] for value in values if f"{column}={value}" in place]
            for column, values in self.categories.items()
        }


PLAIN_NUMBERS = Coding()


@dataclass
class Gaps:
    """Gaps that were filled and rows that were left out, counted once each."""

    filled: int = 0
    dropped: int = 0
    """Rows with a gap."""
    other: int = 0
    """Rows without a label where those with one are wanted, or the other way round."""
    until: int = 0
    """Rows of the source that were counted."""
    first: npt.NDArray[np.int64] | None = None
    """Where each id of the annotations was read first, -1 for not yet; None before any."""
    features: npt.NDArray[np.uint64] | None = None
    """A hash of the features there."""
    repeated: int = 0
    """Lines that give the features of a row again."""
